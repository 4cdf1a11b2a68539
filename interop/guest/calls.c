/*
 * calls ADDRESS: calls whose results the kernel decides alone, on an address of this host. Soft-RoCE with rdma-core
 * and Longarm must print the same lines.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_in here = { .sin_family = AF_INET };
static struct rdma_event_channel *channel;

static void says(const char *what, int result)
{
	printf("%s: %s\n", what, result ? strerror(errno) : "ok");
	fflush(stdout);
}

static struct sockaddr *address(int port)
{
	here.sin_port = htons(port);
	return (struct sockaddr *)&here;
}

static struct rdma_cm_id *new_id(void)
{
	struct rdma_cm_id *id = NULL;
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		perror("rdma_create_id");
	return id;
}

static void event(void)
{
	struct pollfd fd = { channel->fd, POLLIN };
	struct rdma_cm_event *event;
	if (poll(&fd, 1, 5000) != 1) {
		puts("no event");
	} else if (rdma_get_cm_event(channel, &event)) {
		says("event", -1);
	} else {
		printf("event: %s, status %d\n", rdma_event_str(event->event), event->status);
		rdma_ack_cm_event(event);
	}
	fflush(stdout);
}

static void twice(void)
{
	struct rdma_cm_id *id = new_id();
	says("resolve", rdma_resolve_addr(id, NULL, address(1), 1000));
	event();
	says("resolve again", rdma_resolve_addr(id, NULL, address(1), 1000));
	says("resolve another port", rdma_resolve_addr(id, NULL, address(2), 1000));
	says("bind", rdma_bind_addr(id, address(0)));
	says("route", rdma_resolve_route(id, 1000));
	event();
	says("resolve behind the route", rdma_resolve_addr(id, NULL, address(1), 1000));
	says("route again", rdma_resolve_route(id, 1000));
	says("destroy", rdma_destroy_id(id));

	id = new_id();
	says("bind first", rdma_bind_addr(id, address(0)));
	says("resolve what is bound", rdma_resolve_addr(id, NULL, address(1), 1000));
	event();
	says("resolve it again", rdma_resolve_addr(id, NULL, address(1), 1000));
	says("destroy", rdma_destroy_id(id));

	id = new_id();
	says("bind a third", rdma_bind_addr(id, address(0)));
	says("listen", rdma_listen(id, 1));
	says("resolve a listener", rdma_resolve_addr(id, NULL, address(1), 1000));
	says("destroy", rdma_destroy_id(id));
}

/* Calls of a child on its parent's channel and id. */
static void child(struct rdma_cm_id *id)
{
	struct rdma_cm_event *event;
	says("child: event", rdma_get_cm_event(channel, &event));
	says("child: listen", rdma_listen(id, 1));
	says("child: route", rdma_resolve_route(id, 1000));
}

static void beside_a_parent(void)
{
	struct rdma_cm_id *id = new_id();
	says("bind", rdma_bind_addr(id, address(0)));
	pid_t pid = fork();
	if (!pid) {
		child(id);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	says("destroy", rdma_destroy_id(id));
}

int main(int count, char **values)
{
	if (count < 2 || inet_pton(AF_INET, values[1], &here.sin_addr) != 1)
		return 2;
	channel = rdma_create_event_channel();
	if (!channel)
		return 1;
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	twice();
	beside_a_parent();
	return 0;
}
