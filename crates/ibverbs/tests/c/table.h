/* Rows of a table: verb, argument, result. All rows are tried before the program ends. */
#ifndef TABLE_H
#define TABLE_H

#include "check.h"

static int rows, wrong;

static inline void one_row(int line, const char *verb, const char *argument, long got, long expected)
{
	rows++;
	if (got == expected)
		return;
	fprintf(stderr, "line %d: %s, %s: %ld, not %ld\n", line, verb, argument, got, expected);
	wrong = 1;
}

/* The call returns this value, often an errno. */
#define GIVES(verb, argument, expected, call) one_row(__LINE__, #verb, argument, (call), (expected))
/* The call returns null and sets errno, or it succeeds, 0. (The object of an unexpected success is lost.) */
#define MAKES(verb, argument, expected, call) \
	one_row(__LINE__, #verb, argument, (errno = 0, (call) ? 0L : errno ? (long)errno : -1L), (expected))
/* The call returns -1 and sets errno. */
#define FAILS(verb, argument, expected, call) \
	one_row(__LINE__, #verb, argument, (errno = 0, (call) == -1 ? (long)errno : -1000L), (expected))

static inline int verdict(int least)
{
	CHECK(rows >= least, "%d rows", rows);
	if (!wrong)
		puts("as documented");
	return wrong;
}

#endif
