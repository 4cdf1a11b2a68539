/* A program with rsockets, as the peer of a stream of longarm-stream: serve, call PORT or die PORT. */
#include "cm.h"
#include <rdma/rsocket.h>
#include <signal.h>

enum { BYTES = 3 << 20 };

static unsigned char pattern(size_t at)
{
	return at * 7 + at / 251;
}

static int called(const char *port)
{
	struct sockaddr_in there = local(atoi(port));
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0 && !rconnect(fd, SA(&there), sizeof there));
	return fd;
}

/* Gives everything back, and says farewell after the caller's end. */
static void serve(void)
{
	struct sockaddr_in address = local(0);
	socklen_t len = sizeof address;
	static char bytes[50000];
	int listener = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(!rbind(listener, SA(&address), len) && !rlisten(listener, 4) && !rgetsockname(listener, SA(&address), &len));
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	int fd = raccept(listener, NULL, NULL);
	CHECK(fd >= 0);
	for (ssize_t got; (got = rrecv(fd, bytes, sizeof bytes, 0)) != 0;) {
		CHECK(got > 0);
		for (ssize_t sent = 0, some; sent < got; sent += some) {
			some = rsend(fd, bytes + sent, got - sent, 0);
			CHECK(some > 0);
		}
	}
	CHECK(rsend(fd, "farewell", 8, 0) == 8 && !rclose(fd) && !rclose(listener));
}

static void *send_all(void *to)
{
	int fd = *(int *)to;
	static unsigned char bytes[BYTES];
	for (size_t at = 0; at < BYTES; at++)
		bytes[at] = pattern(at);
	for (size_t sent = 0; sent < BYTES;) {
		ssize_t some = rsend(fd, bytes + sent, BYTES - sent, 0);
		CHECK(some > 0);
		sent += some;
	}
	CHECK(!rshutdown(fd, SHUT_WR));
	return NULL;
}

/* Sends a lot to a server that gives it back, and ends. */
static void call(const char *port)
{
	static unsigned char bytes[70000];
	int fd = called(port);
	pthread_t thread;
	size_t heard = 0;
	CHECK(!pthread_create(&thread, NULL, send_all, &fd));
	for (ssize_t got; (got = rrecv(fd, bytes, sizeof bytes, 0)) != 0; heard += got) {
		CHECK(got > 0);
		for (ssize_t at = 0; at < got; at++)
			CHECK(bytes[at] == pattern(heard + at), "byte %zu", heard + at);
	}
	CHECK(heard == BYTES, "%zu bytes", heard);
	CHECK(!pthread_join(thread, NULL) && !rclose(fd));
}

int main(int argc, char **argv)
{
	CHECK(argc > 1);
	if (!strcmp(argv[1], "serve")) {
		serve();
		return 0;
	}
	CHECK(argc > 2);
	if (!strcmp(argv[1], "call")) {
		call(argv[2]);
	} else {
		int fd = called(argv[2]);
		char last;
		CHECK(rsend(fd, "x", 1, 0) == 1 && rrecv(fd, &last, 1, 0) == 1);
		raise(SIGKILL);
	}
	return 0;
}
