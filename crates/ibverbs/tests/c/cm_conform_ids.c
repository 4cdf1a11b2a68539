/* Ids by themselves: binding, listening, options, channels, migration; the states that each call is allowed in. */
#include "cm.h"
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>

static struct rdma_event_channel *channel;

static struct sockaddr_in6 any6(uint16_t port)
{
	return (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_any };
}

static void ports(void)
{
	struct sockaddr_in zero = local(0), wild = { .sin_family = AF_INET }, taken;
	struct rdma_cm_id *one = new_id(channel, RDMA_PS_TCP), *two = new_id(channel, RDMA_PS_TCP);
	struct rdma_cm_id *udp = new_id(channel, RDMA_PS_UDP);
	CHECK(rdma_get_src_port(one) == 0 && rdma_get_dst_port(one) == 0);
	CHECK(rdma_get_local_addr(one)->sa_family == 0 && rdma_get_peer_addr(one)->sa_family == 0);
	CHECK(!rdma_bind_addr(one, SA(&wild)));
	CHECK(!one->verbs && rdma_get_src_port(one) != 0, "a wildcard with a port binds to no device");
	taken = local(ntohs(rdma_get_src_port(one)));
	MINUS_WITH(rdma_bind_addr(two, SA(&taken)), EADDRINUSE);
	/* The port spaces are apart. */
	CHECK(!rdma_bind_addr(udp, SA(&taken)));
	/* A refused id may try again. */
	CHECK(!rdma_bind_addr(two, SA(&zero)));
	CHECK(rdma_get_src_port(two) != rdma_get_src_port(one));
	CHECK(!rdma_destroy_id(one) && !rdma_destroy_id(two) && !rdma_destroy_id(udp));
	/* Nobody bound it: some port. */
	one = new_id(channel, RDMA_PS_TCP);
	CHECK(!rdma_listen(one, -1));
	CHECK(rdma_get_src_port(one) != 0);
	MINUS_WITH(rdma_bind_addr(one, SA(&zero)), EINVAL);
	MINUS_WITH(rdma_resolve_addr(one, NULL, SA(&taken), 100), EINVAL);
	CHECK(!rdma_destroy_id(one));
}

static void reuse(void)
{
	struct rdma_cm_id *one = new_id(channel, RDMA_PS_TCP), *two = new_id(channel, RDMA_PS_TCP);
	struct sockaddr_in address = local(0);
	int on = 1, off = 0;
	CHECK(!rdma_set_option(one, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on));
	CHECK(!rdma_set_option(two, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on));
	CHECK(!rdma_bind_addr(one, SA(&address)));
	address = local(ntohs(rdma_get_src_port(one)));
	CHECK(!rdma_bind_addr(two, SA(&address)));
	/* Bound together, but who listens must be alone. */
	MINUS_WITH(rdma_listen(one, 1), EADDRINUSE);
	CHECK(!rdma_set_option(two, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on));
	MINUS_WITH(rdma_set_option(two, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &off, sizeof off), EINVAL);
	CHECK(!rdma_destroy_id(two));
	CHECK(!rdma_listen(one, 1));
	MINUS_WITH(rdma_set_option(one, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on), EINVAL);
	CHECK(!rdma_destroy_id(one));
}

static void families(void)
{
	struct rdma_cm_id *six = new_id(channel, RDMA_PS_TCP), *four = new_id(channel, RDMA_PS_TCP);
	struct sockaddr_in6 wild6 = any6(0);
	struct sockaddr_in wild4 = { .sin_family = AF_INET };
	uint8_t byte = 14;
	int on = 1;
	CHECK(!rdma_bind_addr(six, SA(&wild6)));
	CHECK(!rdma_set_option(six, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on));
	CHECK(!rdma_listen(six, 1));
	MINUS_WITH(rdma_set_option(six, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on), EINVAL);
	CHECK(!rdma_destroy_id(six));
	/* Only for itself, it leaves the port of IPv4 to others. */
	six = new_id(channel, RDMA_PS_TCP);
	CHECK(!rdma_set_option(six, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on));
	CHECK(!rdma_bind_addr(six, SA(&wild6)));
	wild4.sin_port = rdma_get_src_port(six);
	CHECK(!rdma_bind_addr(four, SA(&wild4)));
	CHECK(!rdma_destroy_id(six) && !rdma_destroy_id(four));
	four = new_id(channel, RDMA_PS_UDP);
	MINUS_WITH(rdma_set_option(four, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1), EINVAL);
	CHECK(!rdma_destroy_id(four));
}

static void after_resolution(void)
{
	struct sockaddr_in to = local(1), mine = local(0);
	struct sockaddr_in6 other = any6(0);
	struct rdma_conn_param param = { .retry_count = 7, .qp_num = 1 };
	struct rdma_cm_id *id = new_id(channel, RDMA_PS_TCP), *new;
	MINUS_WITH(rdma_resolve_addr(id, SA(&other), SA(&to), 100), EINVAL);
	CHECK(!rdma_destroy_id(id));
	id = new_id(channel, RDMA_PS_TCP);
	CHECK(!rdma_resolve_addr(id, SA(&mine), SA(&to), 100));
	pass(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(id->verbs && id->port_num == 1 && rdma_get_dst_port(id) == htons(1));
	CHECK(((struct sockaddr_in *)rdma_get_peer_addr(id))->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	MINUS_WITH(rdma_resolve_addr(id, NULL, SA(&to), 100), EINVAL);
	MINUS_WITH(rdma_bind_addr(id, SA(&mine)), EINVAL);
	MINUS_WITH(rdma_connect(id, &param), EINVAL);
	MINUS_WITH(rdma_listen(id, 1), EINVAL);
	CHECK(!rdma_resolve_route(id, 100));
	pass(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	MINUS_WITH(rdma_resolve_route(id, 100), EINVAL);
	MINUS_WITH(rdma_listen(id, 1), EINVAL);
	MINUS_WITH(rdma_disconnect(id), EINVAL);
	MINUS_WITH(rdma_accept(id, &param), EINVAL);
	MINUS_WITH(rdma_reject(id, NULL, 0), EINVAL);
	MINUS_WITH(rdma_establish(id), EINVAL);
	MINUS_WITH(rdma_get_request(id, &new), EINVAL);
	CHECK(!is_pending(channel));
	CHECK(!rdma_destroy_id(id));
}

static void descriptors(void)
{
	struct rdma_event_channel *own = rdma_create_event_channel();
	struct epoll_event event = { .events = EPOLLIN };
	struct sockaddr_in to = local(1);
	int epoll = epoll_create1(0);
	CHECK(own && (fcntl(own->fd, F_GETFD) & FD_CLOEXEC));
	CHECK(!(fcntl(own->fd, F_GETFL) & O_NONBLOCK));
	CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, own->fd, &event));
	CHECK(epoll_wait(epoll, &event, 1, 0) == 0);
	struct rdma_cm_id *ids[64];
	for (int i = 0; i < 64; i++) {
		ids[i] = new_id(own, RDMA_PS_TCP);
		CHECK(!rdma_resolve_addr(ids[i], NULL, SA(&to), 100));
	}
	CHECK(epoll_wait(epoll, &event, 1, 1000) == 1);
	for (int i = 0; i < 64; i++) {
		struct rdma_cm_event *resolved = next_event(own, RDMA_CM_EVENT_ADDR_RESOLVED);
		CHECK(resolved->id == ids[i], "events come in order");
		CHECK(!resolved->listen_id && !resolved->status);
		CHECK(!rdma_ack_cm_event(resolved));
	}
	CHECK(epoll_wait(epoll, &event, 1, 0) == 0);
	for (int i = 0; i < 64; i++)
		CHECK(!rdma_destroy_id(ids[i]));
	close(epoll);
	rdma_destroy_event_channel(own);
}

static void nothing(int signal)
{
	(void)signal;
}

static pthread_t waiting;

static void *interrupt(void *unused)
{
	usleep(50000);
	CHECK(!pthread_kill(waiting, SIGUSR1));
	return unused;
}

static void interrupted(void)
{
	struct sigaction action = { .sa_handler = nothing };
	struct rdma_cm_event *event;
	pthread_t thread;
	CHECK(!sigaction(SIGUSR1, &action, NULL));
	waiting = pthread_self();
	CHECK(!pthread_create(&thread, NULL, interrupt, NULL));
	MINUS_WITH(rdma_get_cm_event(channel, &event), EINTR);
	CHECK(!pthread_join(thread, NULL));
	action.sa_handler = SIG_DFL;
	CHECK(!sigaction(SIGUSR1, &action, NULL));
}

/* A child of fork() that does not execute anything else may do nothing with its parent's, and disturbs nothing. */
static void forked(void)
{
	struct sockaddr_in to = local(1);
	struct rdma_cm_id *id = new_id(channel, RDMA_PS_TCP);
	int status;
	CHECK(!rdma_resolve_addr(id, NULL, SA(&to), 100));
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		struct rdma_cm_event *event;
		MINUS_WITH(rdma_get_cm_event(channel, &event), EACCES);
		MINUS_WITH(rdma_resolve_route(id, 100), EACCES);
		MINUS_WITH(rdma_listen(id, 1), EACCES);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0, "status %x", status);
	CHECK(is_pending(channel));
	pass(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_destroy_id(id));
}

static void *churn(void *unused)
{
	struct sockaddr_in to = local(1);
	for (int i = 0; i < 200; i++) {
		struct rdma_cm_id *id = new_id(channel, RDMA_PS_TCP);
		CHECK(!rdma_resolve_addr(id, NULL, SA(&to), 100));
		usleep(i % 3 * 10);
		CHECK(!rdma_destroy_id(id));
	}
	return unused;
}

static volatile int stop;

static void *fetch(void *unused)
{
	struct rdma_cm_event *event;
	while (!stop) {
		if (rdma_get_cm_event(channel, &event)) {
			CHECK(errno == EAGAIN);
			continue;
		}
		CHECK(event->event == RDMA_CM_EVENT_ADDR_RESOLVED && event->id->channel == channel);
		CHECK(!rdma_ack_cm_event(event));
	}
	return unused;
}

/* Ids come and go while other threads fetch events of the same channel. */
static void threads(void)
{
	pthread_t thread[4];
	CHECK(!fcntl(channel->fd, F_SETFL, O_NONBLOCK));
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&thread[i], NULL, i < 2 ? churn : fetch, NULL));
	for (int i = 0; i < 4; i++) {
		CHECK(!pthread_join(thread[i], NULL));
		stop = i >= 1;
	}
	CHECK(!is_pending(channel));
	CHECK(!fcntl(channel->fd, F_SETFL, 0));
}

static void names(void)
{
	for (int i = 0; i < 16; i++)
		CHECK(!strncmp(rdma_event_str(i), "RDMA_CM_EVENT_", 14), "%d", i);
}

int main(void)
{
	channel = rdma_create_event_channel();
	CHECK(channel);
	ports();
	reuse();
	families();
	after_resolution();
	descriptors();
	interrupted();
	forked();
	threads();
	names();
	rdma_destroy_event_channel(channel);
	return verdict();
}
