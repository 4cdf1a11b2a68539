/* Rows of "this call is refused with that errno"; all rows are tried before the program ends. */
#ifndef ERRORS_H
#define ERRORS_H

#include "check.h"

static int wrong;

static inline void row(const char *file, int line, const char *call, long got, long wanted)
{
	if (got == wanted)
		return;
	fprintf(stderr, "%s:%d: %s: %ld, not %ld\n", file, line, call, got, wanted);
	wrong = 1;
}

/* The call returns an errno. */
#define RETURNS(call, value) row(__FILE__, __LINE__, #call, (call), (value))
/* The call returns null and sets errno. If it does not, the object is lost: the program fails anyway. */
#define NULL_WITH(call, value) \
	row(__FILE__, __LINE__, #call, (errno = 0, (call) ? -1L : (long)errno), (value))
/* The call returns -1 and sets errno. */
#define MINUS_WITH(call, value) \
	row(__FILE__, __LINE__, #call, (errno = 0, (call) == -1 ? (long)errno : -1000L), (value))

static inline int verdict(void)
{
	if (!wrong)
		puts("as documented");
	return wrong;
}

#endif
