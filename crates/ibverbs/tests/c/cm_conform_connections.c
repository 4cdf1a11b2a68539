/* Connections: the contents of each event, the allowed calls in each state, and every kind of end. */
#include "cm.h"
#include <pthread.h>

static struct rdma_event_channel *server, *client;
static char data[256];

/* Two ends of a connection whose queue pairs do not exist: numbers are all that the connection manager asks for. */
struct pair {
	struct rdma_cm_id *listening, *active, *passive;
};

static struct rdma_conn_param numbered(uint32_t qpn)
{
	return (struct rdma_conn_param){ .qp_num = qpn, .responder_resources = 1, .initiator_depth = 1, .retry_count = 7 };
}

static uint32_t next_number(void)
{
	static uint32_t number = 0x1000;
	return number++;
}

static struct rdma_cm_id *request_of(struct pair *pair)
{
	struct rdma_cm_event *event = next_event(server, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = event->id;
	CHECK(event->listen_id == pair->listening && !event->status);
	CHECK(!rdma_ack_cm_event(event));
	return id;
}

static struct pair requested(void)
{
	struct pair pair = { .listening = listener(server, RDMA_PS_TCP) };
	struct rdma_conn_param param = numbered(next_number());
	pair.active = resolved(client, RDMA_PS_TCP, rdma_get_src_port(pair.listening));
	CHECK(!rdma_connect(pair.active, &param));
	pair.passive = request_of(&pair);
	return pair;
}

static struct pair accepted(void)
{
	struct pair pair = requested();
	struct rdma_conn_param param = numbered(next_number());
	CHECK(!rdma_accept(pair.passive, &param));
	pass(client, RDMA_CM_EVENT_CONNECT_RESPONSE);
	return pair;
}

static struct pair established(void)
{
	struct pair pair = accepted();
	CHECK(!rdma_establish(pair.active));
	struct rdma_cm_event *event = next_event(server, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(event->id == pair.passive && !event->listen_id && !event->status);
	CHECK(!event->param.conn.private_data && !event->param.conn.private_data_len);
	CHECK(!rdma_ack_cm_event(event));
	return pair;
}

static void end(struct pair *pair)
{
	CHECK(!rdma_destroy_id(pair->active) && !rdma_destroy_id(pair->passive) && !rdma_destroy_id(pair->listening));
	CHECK(!is_pending(server) && !is_pending(client));
}

static int filled(const void *private_data, unsigned used, unsigned len)
{
	const char *bytes = private_data;
	for (unsigned i = used; i < len; i++)
		if (bytes[i])
			return 0;
	return bytes && !memcmp(bytes, data, used);
}

/* 56 bytes to the listener, 196 bytes back; each side sees the parameters of the other. */
static void parameters(void)
{
	struct pair pair = { .listening = listener(server, RDMA_PS_TCP) };
	pair.active = resolved(client, RDMA_PS_TCP, rdma_get_src_port(pair.listening));
	struct rdma_conn_param param = {
		.private_data = data, .private_data_len = 56, .responder_resources = 5, .initiator_depth = 2,
		.flow_control = 1, .retry_count = 4, .rnr_retry_count = 3, .srq = 1, .qp_num = next_number(),
	};
	CHECK(!rdma_connect(pair.active, &param));
	struct rdma_cm_event *event = next_event(server, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_conn_param *got = &event->param.conn;
	CHECK(got->private_data_len == 56 && filled(got->private_data, 56, 56));
	CHECK(got->responder_resources == 2 && got->initiator_depth == 5 && got->flow_control && got->srq);
	CHECK(got->retry_count == 4 && got->rnr_retry_count == 3 && got->qp_num == param.qp_num);
	pair.passive = event->id;
	CHECK(pair.passive->route.num_paths == 1 && pair.passive->port_num == 1 && pair.passive->ps == RDMA_PS_TCP);
	CHECK(rdma_get_dst_port(pair.passive) == rdma_get_src_port(pair.active));
	param.private_data_len = 197;
	MINUS_WITH(rdma_accept(pair.passive, &param), EINVAL);
	param.private_data_len = 196;
	param.qp_num = next_number();
	/* A program may accept with the event's own structure. */
	got->private_data = data, got->private_data_len = 196, got->qp_num = param.qp_num;
	CHECK(!rdma_accept(pair.passive, got));
	CHECK(!rdma_ack_cm_event(event));
	event = next_event(client, RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK(event->param.conn.private_data_len == 196 && filled(event->param.conn.private_data, 196, 196));
	CHECK(event->param.conn.qp_num == param.qp_num);
	CHECK(event->param.conn.responder_resources == 5 && event->param.conn.initiator_depth == 2);
	CHECK(!rdma_ack_cm_event(event));
	MINUS_WITH(rdma_accept(pair.passive, &param), EINVAL);
	MINUS_WITH(rdma_reject(pair.passive, NULL, 0), EINVAL);
	end(&pair);
}

static void rejections(void)
{
	struct pair pair = requested();
	MINUS_WITH(rdma_reject(pair.passive, data, 149), EINVAL);
	CHECK(!rdma_reject(pair.passive, data, 148));
	MINUS_WITH(rdma_accept(pair.passive, NULL), EINVAL);
	struct rdma_cm_event *event = next_event(client, RDMA_CM_EVENT_REJECTED);
	CHECK(event->status == 28 && event->param.conn.private_data_len == 148);
	CHECK(filled(event->param.conn.private_data, 148, 148));
	CHECK(!rdma_ack_cm_event(event));
	end(&pair);
	/* The active side may refuse as well, once it knows who answers. */
	pair = accepted();
	CHECK(!rdma_reject_ece(pair.active, data, 5));
	event = next_event(server, RDMA_CM_EVENT_REJECTED);
	CHECK(event->id == pair.passive && event->status == 35 && filled(event->param.conn.private_data, 5, 148));
	CHECK(!rdma_ack_cm_event(event));
	end(&pair);
	/* A listener of datagrams has ports of its own. */
	pair.listening = listener(server, RDMA_PS_UDP);
	struct rdma_conn_param param = numbered(next_number());
	pair.active = resolved(client, RDMA_PS_TCP, rdma_get_src_port(pair.listening));
	CHECK(!rdma_connect(pair.active, &param));
	event = next_event(client, RDMA_CM_EVENT_REJECTED);
	CHECK(event->status == 8);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!rdma_destroy_id(pair.active) && !rdma_destroy_id(pair.listening));
}

/* Each side sees the other's vendor options. */
static void options_of_vendors(void)
{
	struct pair pair = { .listening = listener(server, RDMA_PS_TCP) };
	struct ibv_ece ece = { .vendor_id = 0x15b3, .options = 0xabcd1234 }, seen;
	struct rdma_conn_param param = numbered(next_number());
	pair.active = resolved(client, RDMA_PS_TCP, rdma_get_src_port(pair.listening));
	CHECK(!rdma_set_local_ece(pair.active, &ece));
	CHECK(!rdma_get_remote_ece(pair.active, &seen) && !seen.vendor_id && !seen.options);
	CHECK(!rdma_connect(pair.active, &param));
	pair.passive = request_of(&pair);
	CHECK(!rdma_get_remote_ece(pair.passive, &seen));
	CHECK(seen.vendor_id == 0x15b3 && seen.options == 0xabcd1234 && !seen.comp_mask);
	ece = (struct ibv_ece){ .vendor_id = 0xfffffe, .options = 7 };
	CHECK(!rdma_set_local_ece(pair.passive, &ece));
	param.qp_num = next_number();
	CHECK(!rdma_accept(pair.passive, &param));
	pass(client, RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK(!rdma_get_remote_ece(pair.active, &seen) && seen.vendor_id == 0xfffffe && seen.options == 7);
	MINUS_WITH(rdma_get_remote_ece(pair.active, NULL), EINVAL);
	MINUS_WITH(rdma_set_local_ece(pair.active, NULL), EINVAL);
	ece.vendor_id = 0;
	MINUS_WITH(rdma_set_local_ece(pair.active, &ece), EINVAL);
	ece = (struct ibv_ece){ .vendor_id = 1, .comp_mask = 1 };
	MINUS_WITH(rdma_set_local_ece(pair.active, &ece), EINVAL);
	ece.comp_mask = 0;
	give_qp(pair.active);
	MINUS_WITH(rdma_set_local_ece(pair.active, &ece), EINVAL);
	MINUS_WITH(rdma_get_remote_ece(pair.active, &seen), EINVAL);
	rdma_destroy_qp(pair.active);
	end(&pair);
}

static void confirmations(void)
{
	struct pair pair = requested();
	MINUS_WITH(rdma_notify(pair.passive, IBV_EVENT_COMM_EST), EINVAL);
	MINUS_WITH(rdma_notify(pair.active, IBV_EVENT_COMM_EST), EINVAL);
	MINUS_WITH(rdma_establish(pair.active), EINVAL);
	struct rdma_conn_param param = numbered(next_number());
	CHECK(!rdma_accept(pair.passive, &param));
	pass(client, RDMA_CM_EVENT_CONNECT_RESPONSE);
	/* Each side confirms in its own manner. */
	MINUS_WITH(rdma_notify(pair.active, IBV_EVENT_COMM_EST), EINVAL);
	MINUS_WITH(rdma_establish(pair.passive), EINVAL);
	CHECK(!is_pending(server));
	CHECK(!rdma_notify(pair.passive, IBV_EVENT_COMM_EST));
	pass(server, RDMA_CM_EVENT_ESTABLISHED);
	MINUS_WITH(rdma_notify(pair.passive, IBV_EVENT_COMM_EST), EISCONN);
	CHECK(!rdma_establish(pair.active));
	CHECK(!is_pending(server), "established once");
	CHECK(!rdma_disconnect(pair.passive));
	pass(server, RDMA_CM_EVENT_DISCONNECTED);
	pass(client, RDMA_CM_EVENT_DISCONNECTED);
	end(&pair);
}

static void in_time_wait(struct rdma_event_channel *channel, struct rdma_cm_id *id)
{
	struct rdma_cm_event *event = next_event(channel, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	CHECK(event->id == id && !event->status);
	CHECK(!rdma_ack_cm_event(event));
}

/* From either side, twice, and from both sides at the same time. */
static void disconnections(void)
{
	struct pair pair = accepted();
	/* Nothing to end yet. */
	CHECK(!rdma_disconnect(pair.active) && !rdma_disconnect(pair.passive));
	CHECK(!is_pending(server) && !is_pending(client));
	CHECK(!rdma_establish(pair.active));
	pass(server, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(!rdma_disconnect(pair.passive));
	pass(client, RDMA_CM_EVENT_DISCONNECTED);
	pass(server, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(!rdma_disconnect(pair.passive) && !rdma_disconnect(pair.active));
	in_time_wait(server, pair.passive);
	in_time_wait(client, pair.active);
	CHECK(!rdma_disconnect(pair.active), "after all is over");
	end(&pair);

	pair = established();
	CHECK(!rdma_disconnect(pair.passive) && !rdma_disconnect(pair.active));
	pass(client, RDMA_CM_EVENT_DISCONNECTED);
	pass(server, RDMA_CM_EVENT_DISCONNECTED);
	in_time_wait(client, pair.active);
	in_time_wait(server, pair.passive);
	end(&pair);
}

static void destroy(struct rdma_cm_id **id)
{
	CHECK(!rdma_destroy_id(*id));
	*id = NULL;
}

/* An id that is destroyed tells its peer, in any state. */
static void destructions(void)
{
	struct pair pair = requested();
	struct rdma_cm_event *event;
	destroy(&pair.active);
	event = next_event(server, RDMA_CM_EVENT_REJECTED);
	CHECK(event->id == pair.passive && event->status == 4, "the peer gave up");
	CHECK(!rdma_ack_cm_event(event));
	struct rdma_conn_param param = numbered(next_number());
	MINUS_WITH(rdma_accept(pair.passive, &param), EINVAL);
	destroy(&pair.passive);
	destroy(&pair.listening);

	pair = requested();
	destroy(&pair.passive);
	event = next_event(client, RDMA_CM_EVENT_REJECTED);
	CHECK(event->status == 28);
	CHECK(!rdma_ack_cm_event(event));
	destroy(&pair.active);
	destroy(&pair.listening);

	pair = accepted();
	destroy(&pair.active);
	event = next_event(server, RDMA_CM_EVENT_REJECTED);
	CHECK(event->id == pair.passive);
	CHECK(!rdma_ack_cm_event(event));
	destroy(&pair.passive);
	destroy(&pair.listening);

	pair = accepted();
	destroy(&pair.passive);
	pass(client, RDMA_CM_EVENT_REJECTED);
	destroy(&pair.active);
	destroy(&pair.listening);

	/* The listener may go before its connections. */
	pair = established();
	destroy(&pair.listening);
	destroy(&pair.active);
	pass(server, RDMA_CM_EVENT_DISCONNECTED);
	destroy(&pair.passive);
	CHECK(!is_pending(client));

	pair = established();
	destroy(&pair.passive);
	pass(client, RDMA_CM_EVENT_DISCONNECTED);
	end(&(struct pair){ pair.listening, pair.active, new_id(server, RDMA_PS_TCP) });
}

/* A listener's requests migrate with it, and so do later events about them. */
static void migrations(void)
{
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct pair pair = { .listening = listener(server, RDMA_PS_TCP) };
	struct rdma_conn_param param = numbered(next_number());
	struct pollfd entry = { .fd = server->fd, .events = POLLIN };
	pair.active = resolved(client, RDMA_PS_TCP, rdma_get_src_port(pair.listening));
	CHECK(!rdma_connect(pair.active, &param));
	CHECK(poll(&entry, 1, 10000) == 1);
	CHECK(!rdma_migrate_id(pair.listening, other));
	CHECK(!is_pending(server) && is_pending(other));
	struct rdma_cm_event *event = next_event(other, RDMA_CM_EVENT_CONNECT_REQUEST);
	pair.passive = event->id;
	CHECK(pair.passive->channel == other);
	CHECK(!rdma_ack_cm_event(event));
	param.qp_num = next_number();
	CHECK(!rdma_accept(pair.passive, &param));
	pass(client, RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK(!rdma_establish(pair.active));
	pass(other, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(!rdma_migrate_id(pair.passive, server));
	CHECK(!rdma_disconnect(pair.active));
	pass(server, RDMA_CM_EVENT_DISCONNECTED);
	pass(client, RDMA_CM_EVENT_DISCONNECTED);
	end(&pair);
	rdma_destroy_event_channel(other);
}

static struct rdma_cm_event *held;

static void *acknowledge(void *unused)
{
	usleep(50000);
	CHECK(!rdma_ack_cm_event(held));
	return unused;
}

/* Migrating waits until events are acknowledged; a listener also waits for the events of its requests. */
static void acknowledges(void)
{
	struct pair pair = { .listening = listener(server, RDMA_PS_TCP) };
	struct rdma_conn_param param = numbered(next_number());
	pthread_t thread;
	pair.active = resolved(client, RDMA_PS_TCP, rdma_get_src_port(pair.listening));
	CHECK(!rdma_connect(pair.active, &param));
	held = next_event(server, RDMA_CM_EVENT_CONNECT_REQUEST);
	pair.passive = held->id;
	CHECK(!pthread_create(&thread, NULL, acknowledge, NULL));
	CHECK(!rdma_migrate_id(pair.listening, client));
	CHECK(!pthread_join(thread, NULL));
	destroy(&pair.passive);
	pass(client, RDMA_CM_EVENT_REJECTED);
	destroy(&pair.active);
	destroy(&pair.listening);
}

/* The wildcard of IPv6 takes in both; a new id has the words of its peer. */
static void both_families(void)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_addr = in6addr_any };
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	struct sockaddr_in mine = local(0);
	struct pair pair = { .listening = new_id(server, RDMA_PS_TCP) };
	struct rdma_conn_param param = numbered(next_number());
	CHECK(!rdma_bind_addr(pair.listening, SA(&any)));
	CHECK(!rdma_listen(pair.listening, 0));
	pair.active = resolved(client, RDMA_PS_TCP, rdma_get_src_port(pair.listening));
	CHECK(!rdma_connect(pair.active, &param));
	pair.passive = request_of(&pair);
	struct sockaddr_in *seen = (struct sockaddr_in *)rdma_get_local_addr(pair.passive);
	CHECK(seen->sin_family == AF_INET && seen->sin_addr.s_addr == mine.sin_addr.s_addr);
	CHECK(rdma_get_peer_addr(pair.passive)->sa_family == AF_INET && pair.passive->verbs);
	destroy(&pair.passive);
	pass(client, RDMA_CM_EVENT_REJECTED);
	destroy(&pair.active);

	to.sin6_port = rdma_get_src_port(pair.listening);
	pair.active = new_id(client, RDMA_PS_TCP);
	CHECK(!rdma_resolve_addr(pair.active, NULL, SA(&to), 100));
	pass(client, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(pair.active, 100));
	pass(client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	param.qp_num = next_number();
	CHECK(!rdma_connect(pair.active, &param));
	pair.passive = request_of(&pair);
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)rdma_get_peer_addr(pair.passive);
	CHECK(six->sin6_family == AF_INET6 && !memcmp(&six->sin6_addr, &in6addr_loopback, 16));
	destroy(&pair.passive);
	pass(client, RDMA_CM_EVENT_REJECTED);
	end(&(struct pair){ pair.listening, pair.active, new_id(server, RDMA_PS_TCP) });
}

/* Requests beyond the backlog are refused. */
static void backlog(void)
{
	struct rdma_cm_id *listening = new_id(server, RDMA_PS_TCP), *ids[3];
	struct sockaddr_in address = local(0);
	struct rdma_cm_event *event;
	CHECK(!rdma_bind_addr(listening, SA(&address)));
	CHECK(!rdma_listen(listening, 2));
	for (int i = 0; i < 3; i++) {
		struct rdma_conn_param param = numbered(next_number());
		ids[i] = resolved(client, RDMA_PS_TCP, rdma_get_src_port(listening));
		CHECK(!rdma_connect(ids[i], &param));
	}
	event = next_event(client, RDMA_CM_EVENT_REJECTED);
	CHECK(event->id == ids[2]);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!rdma_destroy_id(listening));
	CHECK(!is_pending(server));
	pass(client, RDMA_CM_EVENT_REJECTED);
	pass(client, RDMA_CM_EVENT_REJECTED);
	for (int i = 0; i < 3; i++)
		destroy(&ids[i]);
}

enum { CALLERS = 300 };
static struct rdma_cm_id *children[CALLERS];
static int requests, refusals;

static void *fetch(void *unused)
{
	struct pollfd entry = { .fd = server->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	while (__atomic_load_n(&refusals, __ATOMIC_ACQUIRE) < CALLERS) {
		if (rdma_get_cm_event(server, &event)) {
			CHECK(errno == EAGAIN);
			CHECK(poll(&entry, 1, 10) >= 0);
			continue;
		}
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
			children[__atomic_fetch_add(&requests, 1, __ATOMIC_ACQ_REL)] = event->id;
		else if (event->event == RDMA_CM_EVENT_REJECTED)
			__atomic_fetch_add(&refusals, 1, __ATOMIC_ACQ_REL);
		CHECK(event->id->channel == server);
		CHECK(!rdma_ack_cm_event(event));
	}
	return unused;
}

/* Several threads share a channel: none takes an event of a new id away before another has shown the id. */
static void many_fetchers(void)
{
	struct rdma_cm_id *listening = listener(server, RDMA_PS_TCP);
	pthread_t thread[3];
	CHECK(!fcntl(server->fd, F_SETFL, O_NONBLOCK));
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&thread[i], NULL, fetch, NULL));
	for (int i = 0; i < CALLERS; i++) {
		struct rdma_conn_param param = numbered(next_number());
		struct rdma_cm_id *id = resolved(client, RDMA_PS_TCP, rdma_get_src_port(listening));
		CHECK(!rdma_connect(id, &param));
		CHECK(!rdma_destroy_id(id));
		/* No more at a time than sockets hold: lost packets are not repeated. */
		while (i - __atomic_load_n(&refusals, __ATOMIC_ACQUIRE) > 8)
			usleep(100);
	}
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_join(thread[i], NULL));
	CHECK(requests == CALLERS && !is_pending(server));
	for (int i = 0; i < CALLERS; i++)
		destroy(&children[i]);
	destroy(&listening);
	CHECK(!fcntl(server->fd, F_SETFL, 0));
}

int main(void)
{
	for (unsigned i = 0; i < sizeof data; i++)
		data[i] = i + 1;
	server = rdma_create_event_channel();
	client = rdma_create_event_channel();
	CHECK(server && client);
	parameters();
	rejections();
	options_of_vendors();
	confirmations();
	disconnections();
	destructions();
	migrations();
	acknowledges();
	both_families();
	backlog();
	many_fetchers();
	rdma_destroy_event_channel(server);
	rdma_destroy_event_channel(client);
	return verdict();
}
