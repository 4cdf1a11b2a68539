/* Datagrams, multicast, queue pairs with parts of the program's own, endpoints. */
#include "cm.h"
#include <pthread.h>

static struct rdma_event_channel *server, *client;
static char data[256];

static struct rdma_cm_id *looked_up(struct rdma_cm_id *listening)
{
	struct rdma_cm_event *event = next_event(server, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = event->id;
	CHECK(event->listen_id == listening && event->param.ud.private_data_len == 180);
	CHECK(id->qp_type == IBV_QPT_UD && id->ps == RDMA_PS_UDP && id->verbs);
	CHECK(!rdma_ack_cm_event(event));
	return id;
}

/* Several ids and one queue pair that serves them all. */
static void datagrams(void)
{
	struct rdma_cm_id *listening = listener(server, RDMA_PS_UDP), *active[3], *passive[3];
	struct rdma_conn_param param = { .private_data = data, .private_data_len = 181 };
	struct rdma_cm_event *event;
	struct ibv_qp *qp = NULL;
	for (int i = 0; i < 3; i++) {
		active[i] = resolved(client, RDMA_PS_UDP, rdma_get_src_port(listening));
		param.private_data_len = 181;
		MINUS_WITH(rdma_connect(active[i], &param), EINVAL);
		param.private_data_len = 180;
		CHECK(!rdma_connect(active[i], &param));
		MINUS_WITH(rdma_connect(active[i], &param), EINVAL);
		passive[i] = looked_up(listening);
		if (!qp) {
			give_qp(passive[i]);
			qp = passive[i]->qp;
			CHECK(state_of(qp) == IBV_QPS_RTS);
		}
		struct rdma_conn_param answer = { .private_data = data, .private_data_len = 137, .qp_num = qp->qp_num };
		MINUS_WITH(rdma_accept(passive[i], &answer), EINVAL);
		answer.private_data_len = 136;
		CHECK(!rdma_accept(passive[i], &answer));
		MINUS_WITH(rdma_accept(passive[i], &answer), EINVAL);
		event = next_event(client, RDMA_CM_EVENT_ESTABLISHED);
		CHECK(event->id == active[i] && event->param.ud.qp_num == qp->qp_num);
		CHECK(event->param.ud.private_data_len == 136 && !memcmp(event->param.ud.private_data, data, 136));
		CHECK(event->param.ud.qkey == RDMA_UDP_QKEY);
		CHECK(!rdma_ack_cm_event(event));
		CHECK(!rdma_disconnect(active[i]), "there is nothing to end");
	}
	CHECK(!is_pending(server) && !is_pending(client));
	rdma_destroy_qp(passive[0]);
	for (int i = 0; i < 3; i++)
		CHECK(!rdma_destroy_id(active[i]) && !rdma_destroy_id(passive[i]));
	/* Refused: the status is that of the answer. */
	active[0] = resolved(client, RDMA_PS_UDP, rdma_get_src_port(listening));
	CHECK(!rdma_connect(active[0], NULL));
	passive[0] = looked_up(listening);
	MINUS_WITH(rdma_reject(passive[0], data, 137), EINVAL);
	CHECK(!rdma_reject(passive[0], data, 10));
	event = next_event(client, RDMA_CM_EVENT_UNREACHABLE);
	CHECK(event->status == 2, "status %d", event->status);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!rdma_destroy_id(active[0]) && !rdma_destroy_id(passive[0]));
	/* Nobody there. */
	uint16_t port = rdma_get_src_port(listening);
	CHECK(!rdma_destroy_id(listening));
	active[0] = resolved(client, RDMA_PS_UDP, port);
	CHECK(!rdma_connect(active[0], NULL));
	event = next_event(client, RDMA_CM_EVENT_UNREACHABLE);
	CHECK(event->status == 1, "status %d", event->status);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!rdma_destroy_id(active[0]));
}

static void groups(void)
{
	struct rdma_cm_id *id = new_id(client, RDMA_PS_UDP), *tcp = new_id(client, RDMA_PS_TCP);
	struct sockaddr_in mine = local(0), one = local(0), two = local(0);
	one.sin_addr.s_addr = inet_addr("239.1.1.1");
	two.sin_addr.s_addr = inet_addr("239.1.1.2");
	MINUS_WITH(rdma_join_multicast(id, SA(&one), NULL), EINVAL);
	CHECK(!rdma_bind_addr(id, SA(&mine)) && !rdma_bind_addr(tcp, SA(&mine)));
	MINUS_WITH(rdma_join_multicast(tcp, SA(&one), NULL), EINVAL);
	/* Leaving before it is known cancels the joining. */
	CHECK(!rdma_join_multicast(id, SA(&one), &one) && !rdma_join_multicast(id, SA(&two), &two));
	CHECK(!rdma_leave_multicast(id, SA(&one)));
	struct rdma_cm_event *event = next_event(client, RDMA_CM_EVENT_MULTICAST_JOIN);
	CHECK(event->param.ud.private_data == &two && !event->param.ud.private_data_len);
	CHECK(event->param.ud.qkey == RDMA_UDP_QKEY && event->param.ud.qp_num == 0xffffff);
	CHECK(event->param.ud.ah_attr.is_global && event->param.ud.ah_attr.port_num == 1);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!is_pending(client));
	/* The program attaches the queue pair if there was none. */
	give_qp(id);
	union ibv_gid gid = { .raw = { [10] = 0xff, 0xff, 239, 1, 1, 2 } };
	CHECK(!ibv_attach_mcast(id->qp, &gid, 0) && !ibv_detach_mcast(id->qp, &gid, 0));
	CHECK(!rdma_join_multicast(id, SA(&one), NULL));
	pass(client, RDMA_CM_EVENT_MULTICAST_JOIN);
	/* Once more, with another context. */
	CHECK(!rdma_join_multicast(id, SA(&one), &one));
	event = next_event(client, RDMA_CM_EVENT_MULTICAST_JOIN);
	CHECK(event->param.ud.private_data == &one);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!rdma_leave_multicast(id, SA(&one)) && !rdma_leave_multicast(id, SA(&one)));
	/* An id that is destroyed leaves its groups. */
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id) && !rdma_destroy_id(tcp));
}

static void own_parts(void)
{
	struct rdma_cm_id *id = resolved(client, RDMA_PS_TCP, htons(1));
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_pd *pd = ibv_alloc_pd(id->verbs);
	struct ibv_cq *cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
	CHECK(!rdma_create_srq(id, pd, &srq_attr));
	CHECK(id->srq && id->srq->pd == pd);
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq, .recv_cq = cq, .srq = id->srq, .qp_type = IBV_QPT_RC, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD, .cap = { .max_send_wr = 2, .max_send_sge = 1 },
	};
	CHECK(!rdma_create_qp_ex(id, &attr));
	CHECK(id->qp && id->qp->pd == pd && id->qp->srq == id->srq && id->qp->send_cq == cq && id->qp->recv_cq == cq);
	CHECK(!id->send_cq && !id->recv_cq && attr.cap.max_send_wr >= 2);
	CHECK(state_of(id->qp) == IBV_QPS_INIT);
	MINUS_WITH(rdma_create_qp_ex(id, &attr), EINVAL);
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	CHECK(!id->qp && !id->srq);
	CHECK(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd));
	/* A domain of another context is of no use. */
	struct ibv_context *other = ibv_open_device(id->verbs->device);
	pd = ibv_alloc_pd(other);
	struct ibv_qp_init_attr plain = small_qp(IBV_QPT_RC);
	MINUS_WITH(rdma_create_qp(id, pd, &plain), EINVAL);
	CHECK(!id->send_cq && !id->recv_cq);
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(other));
	plain.cap.max_send_wr = 1 << 30;
	CHECK(rdma_create_qp(id, NULL, &plain) == -1 && !id->qp && !id->send_cq);
	CHECK(!rdma_destroy_id(id));
}

static char port[8];

static struct rdma_addrinfo *information(int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *res;
	CHECK(!rdma_getaddrinfo("127.0.0.1", port, &hints, &res));
	CHECK(res->ai_qp_type == IBV_QPT_RC && res->ai_family == AF_INET && res->ai_flags == flags);
	CHECK(!(flags & RAI_PASSIVE) == !!res->ai_dst_len);
	return res;
}

static void *ask(void *argument)
{
	struct rdma_cm_id *id = argument;
	struct rdma_conn_param param = { .private_data = data, .private_data_len = 3 };
	CHECK(!rdma_connect(id, &param));
	CHECK(id->event->event == RDMA_CM_EVENT_ESTABLISHED && id->event->param.conn.private_data_len == 196);
	return NULL;
}

/* A listener with a domain; its connection moves to a channel, and its end is an event there. */
static void endpoints(void)
{
	struct ibv_qp_init_attr attr = small_qp(IBV_QPT_RC);
	struct rdma_cm_id *listening, *active, *passive;
	struct rdma_cm_event *event;
	pthread_t thread;
	strcpy(port, "0");
	struct rdma_addrinfo *res = information(RAI_PASSIVE | RAI_NUMERICHOST);
	struct rdma_cm_id *bound = new_id(NULL, RDMA_PS_TCP);
	CHECK(!rdma_bind_addr(bound, res->ai_src_addr) && bound->verbs);
	struct ibv_pd *pd = ibv_alloc_pd(bound->verbs);
	CHECK(!rdma_destroy_id(bound));
	CHECK(!rdma_create_ep(&listening, res, pd, &attr));
	CHECK(!listening->qp && rdma_get_src_port(listening));
	rdma_freeaddrinfo(res);
	CHECK(!rdma_listen(listening, 3));
	snprintf(port, sizeof port, "%u", ntohs(rdma_get_src_port(listening)));
	res = information(0);
	CHECK(!rdma_create_ep(&active, res, NULL, &attr));
	rdma_freeaddrinfo(res);
	CHECK(active->qp && active->qp->pd == active->pd && active->route.num_paths == 1);
	MINUS_WITH(rdma_get_request(active, &passive), EINVAL);
	CHECK(!pthread_create(&thread, NULL, ask, active));
	CHECK(!rdma_get_request(listening, &passive));
	CHECK(passive->qp && passive->qp->pd == pd && passive->pd == pd && passive->channel != listening->channel);
	CHECK(passive->event->param.conn.private_data_len == 56);
	CHECK(!rdma_accept(passive, NULL));
	CHECK(!pthread_join(thread, NULL));
	CHECK(!rdma_migrate_id(passive, server));
	CHECK(!passive->event && passive->channel == server);
	CHECK(!rdma_disconnect(active) && active->event->event == RDMA_CM_EVENT_DISCONNECTED);
	event = next_event(server, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(event->id == passive);
	CHECK(!rdma_ack_cm_event(event));
	rdma_destroy_ep(active);
	rdma_destroy_ep(passive);
	rdma_destroy_ep(listening);
	CHECK(!ibv_dealloc_pd(pd));
}

static void synchronous(void)
{
	struct rdma_cm_id *id = new_id(NULL, RDMA_PS_TCP), *refused = NULL;
	struct sockaddr_in to = local(1);
	struct rdma_conn_param param = { .qp_num = 5 };
	CHECK(id->channel && !id->event);
	CHECK(!rdma_resolve_addr(id, NULL, SA(&to), 100));
	CHECK(id->event->event == RDMA_CM_EVENT_ADDR_RESOLVED && id->verbs);
	CHECK(!rdma_resolve_route(id, 100));
	CHECK(id->event->event == RDMA_CM_EVENT_ROUTE_RESOLVED);
	MINUS_WITH(rdma_connect(id, &param), ECONNREFUSED);
	CHECK(id->event->event == RDMA_CM_EVENT_REJECTED && id->event->status == 8);
	MINUS_WITH(rdma_get_request(id, NULL), EINVAL);
	CHECK(!rdma_destroy_id(id) && !refused);
}

int main(void)
{
	for (unsigned i = 0; i < sizeof data; i++)
		data[i] = i + 1;
	server = rdma_create_event_channel();
	client = rdma_create_event_channel();
	CHECK(server && client);
	datagrams();
	groups();
	own_parts();
	endpoints();
	synchronous();
	rdma_destroy_event_channel(server);
	rdma_destroy_event_channel(client);
	return verdict();
}
