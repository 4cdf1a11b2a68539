/*
 * rdma_cm: each call in each state of an id. The kernel's cma lets a call through in the states that it belongs to, and answers
 * EINVAL in all others.
 */
#include "table.h"
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#define SA(address) ((struct sockaddr *)(address))

enum state { IDLE, BOUND, ADDRESS, ROUTE, LISTENING, CONNECTED, DISCONNECTED, STATES };
static const char *const STATE[] = { "idle", "bound", "address resolved", "route resolved", "listening", "connected",
				     "disconnected" };

static struct rdma_event_channel *channel;
static struct rdma_cm_id *server;

static struct sockaddr_in local(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

static struct rdma_cm_id *pass(unsigned kind)
{
	struct rdma_cm_event *event;
	CHECK(!rdma_get_cm_event(channel, &event));
	CHECK(event->event == kind, "%s, not %s", rdma_event_str(event->event), rdma_event_str(kind));
	struct rdma_cm_id *id = event->id;
	CHECK(!rdma_ack_cm_event(event));
	return id;
}

static void give_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	CHECK(!rdma_create_qp(id, NULL, &attr));
}

static struct rdma_conn_param parameters(void)
{
	return (struct rdma_conn_param){ .responder_resources = 1, .initiator_depth = 1, .retry_count = 7 };
}

/* Both ends are connected, or disconnected; the other end. */
static struct rdma_cm_id *connect_to_server(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = parameters();
	give_qp(id);
	CHECK(!rdma_connect(id, &param));
	struct rdma_cm_id *other = pass(RDMA_CM_EVENT_CONNECT_REQUEST);
	give_qp(other);
	CHECK(!rdma_accept(other, &param));
	/* Both ends hear of it, in either order. */
	pass(RDMA_CM_EVENT_ESTABLISHED);
	pass(RDMA_CM_EVENT_ESTABLISHED);
	return other;
}

static void end(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id));
}

/* An id in a state; `other` is the end that it is or was connected to. */
static struct rdma_cm_id *in_state(enum state state, struct rdma_cm_id **other)
{
	struct rdma_cm_id *id;
	struct sockaddr_in mine = local(0), to = local(rdma_get_src_port(server));
	*other = NULL;
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	if (state == IDLE)
		return id;
	if (state == BOUND || state == LISTENING) {
		CHECK(!rdma_bind_addr(id, SA(&mine)));
		CHECK(state == BOUND || !rdma_listen(id, 1));
		return id;
	}
	CHECK(!rdma_resolve_addr(id, NULL, SA(&to), 2000));
	pass(RDMA_CM_EVENT_ADDR_RESOLVED);
	if (state == ADDRESS)
		return id;
	CHECK(!rdma_resolve_route(id, 2000));
	pass(RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (state == ROUTE)
		return id;
	*other = connect_to_server(id);
	if (state == DISCONNECTED) {
		CHECK(!rdma_disconnect(id));
		pass(RDMA_CM_EVENT_DISCONNECTED);
		pass(RDMA_CM_EVENT_DISCONNECTED);
	}
	return id;
}

static int bind_addr(struct rdma_cm_id *id)
{
	struct sockaddr_in mine = local(0);
	return rdma_bind_addr(id, SA(&mine));
}

static int resolve_addr(struct rdma_cm_id *id)
{
	struct sockaddr_in to = local(rdma_get_src_port(server));
	return rdma_resolve_addr(id, NULL, SA(&to), 2000);
}

static int resolve_route(struct rdma_cm_id *id)
{
	return rdma_resolve_route(id, 2000);
}

static int listen_to(struct rdma_cm_id *id)
{
	return rdma_listen(id, 1);
}

static int connect_it(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = parameters();
	if (!id->qp)
		param.qp_num = 0x1234;
	return rdma_connect(id, &param);
}

static int accept_it(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = parameters();
	if (!id->qp)
		param.qp_num = 0x1234;
	return rdma_accept(id, &param);
}

static int reject(struct rdma_cm_id *id)
{
	return rdma_reject(id, NULL, 0);
}

static int notify(struct rdma_cm_id *id)
{
	return rdma_notify(id, IBV_EVENT_DEVICE_FATAL);
}

static int join(struct rdma_cm_id *id)
{
	struct sockaddr_in group = local(0);
	group.sin_addr.s_addr = inet_addr("239.1.2.3");
	return rdma_join_multicast(id, SA(&group), NULL);
}

static int leave(struct rdma_cm_id *id)
{
	struct sockaddr_in group = local(0);
	group.sin_addr.s_addr = inet_addr("239.1.2.3");
	return rdma_leave_multicast(id, SA(&group));
}

static int second_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_UD, .cap = { 1, 1, 1, 1, 0 } };
	return rdma_create_qp(id, NULL, &attr);
}

static int of_no_state(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQE };
	int mask;
	return rdma_init_qp_attr(id, &attr, &mask);
}

#define NEVER { EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL }
static const struct {
	const char *name;
	int (*call)(struct rdma_cm_id *id);
	int expected[STATES];
} CALL[] = {
	{ "rdma_bind_addr", bind_addr, { 0, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL } },
	{ "rdma_listen", listen_to, { 0, 0, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL } },
	{ "rdma_resolve_addr", resolve_addr, { 0, 0, EINVAL, EINVAL, EINVAL, EINVAL, EINVAL } },
	{ "rdma_resolve_route", resolve_route, { EINVAL, EINVAL, 0, EINVAL, EINVAL, EINVAL, EINVAL } },
	{ "rdma_connect", connect_it, { EINVAL, EINVAL, EINVAL, 0, EINVAL, EINVAL, EINVAL } },
	{ "rdma_accept", accept_it, NEVER },
	{ "rdma_reject", reject, NEVER },
	/* An id that was told of the end may answer. */
	{ "rdma_disconnect", rdma_disconnect, { EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, 0, 0 } },
	{ "rdma_establish", rdma_establish, NEVER },
	{ "rdma_notify", notify, NEVER },
	{ "rdma_join_multicast", join, NEVER },
	{ "rdma_leave_multicast", leave, { EADDRNOTAVAIL, EADDRNOTAVAIL, EADDRNOTAVAIL, EADDRNOTAVAIL, EADDRNOTAVAIL,
					   EADDRNOTAVAIL, EADDRNOTAVAIL } },
	{ "rdma_create_qp", second_qp, NEVER },
	{ "rdma_init_qp_attr", of_no_state, NEVER },
};

int main(void)
{
	CHECK((channel = rdma_create_event_channel()));
	struct sockaddr_in mine = local(0);
	CHECK(!rdma_create_id(channel, &server, NULL, RDMA_PS_TCP) && !rdma_bind_addr(server, SA(&mine)));
	CHECK(!rdma_listen(server, 100));
	for (size_t i = 0; i < sizeof(CALL) / sizeof(*CALL); i++)
		for (enum state state = 0; state < STATES; state++) {
			struct rdma_cm_id *other, *id = in_state(state, &other);
			errno = 0;
			int failed = CALL[i].call(id);
			one_row(__LINE__, CALL[i].name, STATE[state], failed ? errno : 0, CALL[i].expected[state]);
			if (!failed && CALL[i].call == connect_it)
				end(pass(RDMA_CM_EVENT_CONNECT_REQUEST));
			end(id);
			if (other)
				end(other);
		}
	end(server);
	rdma_destroy_event_channel(channel);
	return verdict(90);
}
