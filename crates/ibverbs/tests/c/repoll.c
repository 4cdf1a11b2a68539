/* Sets of rsockets to wait for, which came with release 65. */
#include "cm.h"
#include <dlfcn.h>
#include <rdma/rsocket.h>
#include <sys/epoll.h>

static int (*create)(int), (*create1)(int);
static int (*ctl)(int, int, int, struct epoll_event *);
static int (*wait_for)(int, struct epoll_event *, int, int);

static void *symbol(const char *name)
{
	void *library = dlopen("librdmacm.so.1", RTLD_NOW);
	void *found = library ? dlvsym(library, name, "RDMACM_1.5") : NULL;
	CHECK(found, "%s", name);
	return found;
}

static int listening(struct sockaddr_in *address)
{
	socklen_t len = sizeof *address;
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0);
	*address = local(0);
	CHECK(!rbind(fd, SA(address), len) && !rlisten(fd, 4) && !rgetsockname(fd, SA(address), &len));
	return fd;
}

static void *call(void *to)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	char answer[4];
	CHECK(!rconnect(fd, to, sizeof(struct sockaddr_in)));
	CHECK(rsend(fd, "ping", 4, 0) == 4);
	CHECK(rrecv(fd, answer, 4, MSG_WAITALL) == 4 && !memcmp(answer, "pong", 4));
	CHECK(!rclose(fd));
	return NULL;
}

static void add(int set, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u64 = 0x100000000u + fd };
	CHECK(!ctl(set, EPOLL_CTL_ADD, fd, &event));
}

static void next(int set, int fd, uint32_t wanted)
{
	struct epoll_event event[4];
	CHECK(wait_for(set, event, 4, 20000) == 1);
	CHECK(event[0].data.u64 == 0x100000000u + fd && (event[0].events & wanted), "%x", event[0].events);
}

int main(void)
{
	struct sockaddr_in address;
	struct epoll_event event = { .events = EPOLLIN };
	pthread_t thread;
	char question[4];
	create = symbol("repoll_create");
	create1 = symbol("repoll_create1");
	ctl = symbol("repoll_ctl");
	wait_for = symbol("repoll_wait");
	MINUS_WITH(create(-1), EINVAL);
	MINUS_WITH(create1(1), EINVAL);
	int set = create1(EPOLL_CLOEXEC), other = create(0), fd = listening(&address);
	CHECK(set >= 0 && other >= 0 && (fcntl(set, F_GETFD) & FD_CLOEXEC));
	MINUS_WITH(ctl(set, 99, fd, &event), EINVAL);
	MINUS_WITH(ctl(set, EPOLL_CTL_ADD, fd, NULL), EFAULT);
	MINUS_WITH(ctl(set, EPOLL_CTL_MOD, fd, &event), ENOENT);
	MINUS_WITH(ctl(fd, EPOLL_CTL_ADD, fd, &event), EBADF);
	MINUS_WITH(wait_for(set, &event, 0, 0), EINVAL);
	add(set, fd, EPOLLIN);
	MINUS_WITH(ctl(set, EPOLL_CTL_ADD, fd, &event), EEXIST);
	CHECK(wait_for(set, &event, 1, 0) == 0);
	CHECK(!pthread_create(&thread, NULL, call, &address));
	next(set, fd, EPOLLIN);
	int accepted = raccept(fd, NULL, NULL);
	CHECK(accepted >= 0);
	add(set, accepted, EPOLLIN);
	next(set, accepted, EPOLLIN);
	CHECK(rrecv(accepted, question, 4, MSG_WAITALL) == 4 && !memcmp(question, "ping", 4));
	add(other, accepted, EPOLLOUT | EPOLLONESHOT);
	next(other, accepted, EPOLLOUT);
	CHECK(wait_for(other, &event, 1, 0) == 0);
	CHECK(rsend(accepted, "pong", 4, 0) == 4);
	/* The end is something to read. */
	next(set, accepted, EPOLLIN);
	CHECK(rrecv(accepted, question, 4, 0) == 0);
	CHECK(!ctl(set, EPOLL_CTL_DEL, accepted, NULL));
	CHECK(!pthread_join(thread, NULL));
	CHECK(!rclose(accepted) && !rclose(fd));
	CHECK(wait_for(set, &event, 1, 0) == 0);
	CHECK(!rclose(set) && !rclose(other));
	MINUS_WITH(rclose(set), EBADF);
	return verdict();
}
