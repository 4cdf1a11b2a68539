/* Connections, datagrams and multicast through event channels, both ends in one process. */
#include "cm.h"

static struct rdma_event_channel *server, *client;
static char buffer[256];

static struct rdma_cm_id *requested(struct rdma_cm_id *listening, const char *private_data)
{
	struct rdma_cm_event *event = next_event(server, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *id = event->id;
	CHECK(event->listen_id == listening && id != listening && id->channel == server && id->verbs);
	CHECK(id->context == listening->context && id->qp_type == listening->qp_type);
	CHECK(rdma_get_src_port(id) == rdma_get_src_port(listening) && rdma_get_dst_port(id) != 0);
	if (private_data)
		CHECK(!strcmp(event->param.conn.private_data, private_data));
	CHECK(!rdma_ack_cm_event(event));
	return id;
}

static void message(struct rdma_cm_id *from, struct rdma_cm_id *to)
{
	struct ibv_mr *mr = rdma_reg_msgs(from, buffer, sizeof buffer);
	struct ibv_wc wc;
	CHECK(mr);
	memset(buffer, 'a', 64);
	CHECK(!rdma_post_recv(to, to, buffer + 128, 64, mr));
	CHECK(!rdma_post_send(from, from, buffer, 64, mr, 0));
	CHECK(rdma_get_recv_comp(to, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len == 64);
	CHECK(rdma_get_send_comp(from, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(!memcmp(buffer, buffer + 128, 64));
	CHECK(!rdma_dereg_mr(mr));
}

/* A connection whose queue pairs the library moves. */
static void managed(void)
{
	struct rdma_cm_id *listening = listener(server, RDMA_PS_TCP);
	listening->context = buffer;
	struct rdma_cm_id *active = resolved(client, RDMA_PS_TCP, rdma_get_src_port(listening));
	struct rdma_conn_param param = {
		.private_data = "hello", .private_data_len = 6, .responder_resources = RDMA_MAX_RESP_RES,
		.initiator_depth = 3, .retry_count = 5, .rnr_retry_count = 6,
	};
	give_qp(active);
	CHECK(!rdma_connect(active, &param));
	struct rdma_cm_id *passive = requested(listening, "hello");
	give_qp(passive);
	param = (struct rdma_conn_param){
		.private_data = "welcome", .private_data_len = 8, .responder_resources = 3, .initiator_depth = 2,
	};
	CHECK(!rdma_accept(passive, &param));
	CHECK(state_of(passive->qp) == IBV_QPS_RTS);
	struct rdma_cm_event *event = next_event(client, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(!strcmp(event->param.conn.private_data, "welcome") && event->param.conn.private_data_len == 196);
	CHECK(event->param.conn.qp_num == passive->qp->qp_num);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(state_of(active->qp) == IBV_QPS_RTS);
	pass(server, RDMA_CM_EVENT_ESTABLISHED);
	MINUS_WITH(rdma_notify(passive, IBV_EVENT_COMM_EST), EISCONN);
	MINUS_WITH(rdma_notify(passive, IBV_EVENT_QP_FATAL), EINVAL);
	message(active, passive);
	message(passive, active);
	CHECK(!rdma_disconnect(active));
	CHECK(state_of(active->qp) == IBV_QPS_ERR);
	pass(server, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(!rdma_disconnect(passive));
	pass(client, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(active);
	rdma_destroy_qp(passive);
	CHECK(!rdma_destroy_id(active) && !rdma_destroy_id(passive) && !rdma_destroy_id(listening));
}

/* One whose queue pairs are the program's own. */
static struct ibv_qp *own_qp(struct rdma_cm_id *id, struct ibv_cq **cq)
{
	struct ibv_qp_init_attr attr = small_qp(IBV_QPT_RC);
	*cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = *cq;
	struct ibv_qp *qp = ibv_create_qp(id->pd, &attr);
	CHECK(*cq && qp);
	return qp;
}

static void ready(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	int mask;
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
		attr.qp_state = state;
		CHECK(!rdma_init_qp_attr(id, &attr, &mask));
		CHECK(!ibv_modify_qp(qp, &attr, mask));
	}
}

static void unmanaged(void)
{
	struct rdma_cm_id *listening = listener(server, RDMA_PS_TCP);
	struct rdma_cm_id *active = resolved(client, RDMA_PS_TCP, rdma_get_src_port(listening));
	struct ibv_cq *cq[2];
	struct ibv_ece ece = { .vendor_id = 1 };
	struct ibv_qp *qp = own_qp(active, &cq[0]);
	struct rdma_conn_param param = { .qp_num = qp->qp_num, .initiator_depth = 1, .responder_resources = 1 };
	CHECK(!rdma_set_local_ece(active, &ece));
	CHECK(!rdma_connect(active, &param));
	struct rdma_cm_id *passive = requested(listening, NULL);
	struct ibv_qp *other = own_qp(passive, &cq[1]);
	CHECK(!rdma_get_remote_ece(passive, &ece));
	ready(passive, other);
	param.qp_num = other->qp_num;
	CHECK(!rdma_accept(passive, &param));
	struct rdma_cm_event *event = next_event(client, RDMA_CM_EVENT_CONNECT_RESPONSE);
	CHECK(event->param.conn.qp_num == other->qp_num);
	CHECK(!rdma_ack_cm_event(event));
	ready(active, qp);
	CHECK(!rdma_establish(active));
	pass(server, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(!is_pending(client));
	CHECK(!rdma_disconnect(passive));
	pass(client, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(!rdma_destroy_id(active) && !rdma_destroy_id(passive) && !rdma_destroy_id(listening));
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_qp(other) && !ibv_destroy_cq(cq[0]) && !ibv_destroy_cq(cq[1]));
}

static void rejected(void)
{
	struct rdma_cm_id *listening = listener(server, RDMA_PS_TCP);
	struct rdma_cm_id *active = resolved(client, RDMA_PS_TCP, rdma_get_src_port(listening));
	struct rdma_conn_param param = { .retry_count = 7 };
	give_qp(active);
	CHECK(!rdma_connect(active, &param));
	struct rdma_cm_id *passive = requested(listening, NULL);
	CHECK(!rdma_reject(passive, "no", 3));
	struct rdma_cm_event *event = next_event(client, RDMA_CM_EVENT_REJECTED);
	CHECK(event->status == 28 && !strcmp(event->param.conn.private_data, "no"));
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!rdma_destroy_id(passive));
	rdma_destroy_qp(active);
	CHECK(!rdma_destroy_id(active));
	/* A listener that is destroyed rejects the requests that nobody has fetched. */
	active = resolved(client, RDMA_PS_TCP, rdma_get_src_port(listening));
	give_qp(active);
	CHECK(!rdma_connect(active, &param));
	struct pollfd entry = { .fd = server->fd, .events = POLLIN };
	CHECK(poll(&entry, 1, 10000) == 1);
	CHECK(!rdma_destroy_id(listening));
	CHECK(!is_pending(server));
	pass(client, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_qp(active);
	CHECK(!rdma_destroy_id(active));
}

static void datagrams(void)
{
	struct rdma_cm_id *listening = listener(server, RDMA_PS_UDP);
	struct rdma_cm_id *active = resolved(client, RDMA_PS_UDP, rdma_get_src_port(listening));
	struct rdma_conn_param param = { .private_data = "who", .private_data_len = 4 };
	struct ibv_wc wc;
	give_qp(active);
	CHECK(state_of(active->qp) == IBV_QPS_RTS);
	CHECK(!rdma_connect(active, &param));
	struct rdma_cm_id *passive = requested(listening, "who");
	give_qp(passive);
	param = (struct rdma_conn_param){ .private_data = "me", .private_data_len = 3, .qp_num = passive->qp->qp_num };
	CHECK(!rdma_accept(passive, &param));
	struct rdma_cm_event *event = next_event(client, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(event->param.ud.qkey == RDMA_UDP_QKEY && event->param.ud.qp_num == passive->qp->qp_num);
	CHECK(!strcmp(event->param.ud.private_data, "me") && event->param.ud.ah_attr.is_global);
	struct ibv_ah *ah = ibv_create_ah(active->pd, &event->param.ud.ah_attr);
	CHECK(ah);
	CHECK(!rdma_ack_cm_event(event));
	struct ibv_mr *mr = rdma_reg_msgs(active, buffer, sizeof buffer);
	CHECK(!rdma_post_recv(passive, NULL, buffer + 128, 104, mr));
	CHECK(!rdma_post_ud_send(active, NULL, buffer, 64, mr, 0, ah, passive->qp->qp_num));
	CHECK(rdma_get_recv_comp(passive, &wc) == 1 && wc.byte_len == 104 && wc.src_qp == active->qp->qp_num);
	CHECK(!rdma_dereg_mr(mr) && !ibv_destroy_ah(ah));
	rdma_destroy_qp(active);
	rdma_destroy_qp(passive);
	CHECK(!rdma_destroy_id(active) && !rdma_destroy_id(passive) && !rdma_destroy_id(listening));
}

static void multicast(void)
{
	struct rdma_cm_id *id = new_id(client, RDMA_PS_UDP);
	struct sockaddr_in mine = local(0), group = local(0);
	struct ibv_wc wc;
	group.sin_addr.s_addr = inet_addr("239.9.8.7");
	CHECK(!rdma_bind_addr(id, SA(&mine)));
	give_qp(id);
	MINUS_WITH(rdma_join_multicast(id, SA(&mine), NULL), EINVAL);
	CHECK(!rdma_join_multicast(id, SA(&group), &group));
	struct rdma_cm_event *event = next_event(client, RDMA_CM_EVENT_MULTICAST_JOIN);
	CHECK(event->param.ud.private_data == &group && event->param.ud.qp_num == 0xffffff);
	struct ibv_ah *ah = ibv_create_ah(id->pd, &event->param.ud.ah_attr);
	CHECK(ah);
	CHECK(!rdma_ack_cm_event(event));
	struct ibv_mr *mr = rdma_reg_msgs(id, buffer, sizeof buffer);
	CHECK(!rdma_post_recv(id, NULL, buffer + 128, 104, mr));
	CHECK(!rdma_post_ud_send(id, NULL, buffer, 64, mr, 0, ah, 0xffffff));
	CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.byte_len == 104);
	CHECK(!rdma_leave_multicast(id, SA(&group)));
	MINUS_WITH(rdma_leave_multicast(id, SA(&group)), EADDRNOTAVAIL);
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_RESERVED, .addr = SA(&group),
	};
	MINUS_WITH(rdma_join_multicast_ex(id, &attr, NULL), EINVAL);
	attr.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
	CHECK(!rdma_join_multicast_ex(id, &attr, NULL));
	pass(client, RDMA_CM_EVENT_MULTICAST_JOIN);
	CHECK(!rdma_dereg_mr(mr) && !ibv_destroy_ah(ah));
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id));
}

static void migrated(void)
{
	struct rdma_cm_id *id = new_id(client, RDMA_PS_TCP);
	struct sockaddr_in to = local(9);
	CHECK(!rdma_resolve_addr(id, NULL, SA(&to), 1000));
	CHECK(is_pending(client));
	CHECK(!rdma_migrate_id(id, server));
	CHECK(id->channel == server && !is_pending(client));
	pass(server, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_migrate_id(id, NULL));
	CHECK(id->channel != server);
	CHECK(!rdma_resolve_route(id, 1000));
	CHECK(id->event && id->event->event == RDMA_CM_EVENT_ROUTE_RESOLVED);
	MINUS_WITH(rdma_migrate_id(id, NULL), EINVAL);
	CHECK(!rdma_migrate_id(id, client));
	CHECK(!id->event && id->channel == client);
	CHECK(!rdma_destroy_id(id));
}

static struct rdma_cm_event *held;

static void *acknowledge_late(void *unused)
{
	usleep(50000);
	held->status = 77;
	CHECK(!rdma_ack_cm_event(held));
	return unused;
}

/* Destroying an id waits until its events are acknowledged. */
static void acknowledged(void)
{
	struct rdma_cm_id *id = new_id(client, RDMA_PS_TCP);
	struct sockaddr_in to = local(9);
	pthread_t thread;
	CHECK(!rdma_resolve_addr(id, NULL, SA(&to), 1000));
	held = next_event(client, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!pthread_create(&thread, NULL, acknowledge_late, NULL));
	CHECK(!rdma_destroy_id(id));
	CHECK(!pthread_join(thread, NULL));
}

int main(void)
{
	server = rdma_create_event_channel();
	client = rdma_create_event_channel();
	CHECK(server && client);
	managed();
	unmanaged();
	rejected();
	datagrams();
	multicast();
	migrated();
	acknowledged();
	rdma_destroy_event_channel(server);
	rdma_destroy_event_channel(client);
	return verdict();
}
