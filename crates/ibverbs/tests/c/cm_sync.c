/* Synchronous ids and endpoints: a server and a client thread of one process. */
#include <semaphore.h>
#include "cm.h"
#include <infiniband/verbs.h>

static char port[8];
static char inbox[64], outbox[64];

static struct rdma_addrinfo *information(int flags, int ps, int qp_type)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = ps, .ai_qp_type = qp_type }, *res;
	CHECK(!rdma_getaddrinfo("127.0.0.1", port, &hints, &res));
	return res;
}

static struct rdma_cm_id *listening_endpoint(struct ibv_qp_init_attr *attr, int ps, int qp_type)
{
	struct rdma_cm_id *id;
	strcpy(port, "0");
	struct rdma_addrinfo *res = information(RAI_PASSIVE, ps, qp_type);
	CHECK(!rdma_create_ep(&id, res, NULL, attr));
	rdma_freeaddrinfo(res);
	CHECK(!rdma_listen(id, 0));
	snprintf(port, sizeof port, "%u", ntohs(rdma_get_src_port(id)));
	return id;
}

static void *serve(void *argument)
{
	struct rdma_cm_id *listening = argument, *id;
	struct ibv_wc wc;
	CHECK(!rdma_get_request(listening, &id));
	CHECK(id->qp && id->event && id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(!strcmp(id->event->param.conn.private_data, "ask"));
	struct ibv_mr *mr = rdma_reg_msgs(id, inbox, sizeof inbox);
	CHECK(mr && !rdma_post_recv(id, NULL, inbox, sizeof inbox, mr));
	CHECK(!rdma_accept(id, NULL));
	CHECK(id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(!rdma_disconnect(id));
	CHECK(!rdma_dereg_mr(mr));
	rdma_destroy_ep(id);
	return NULL;
}

static void connected(void)
{
	struct ibv_qp_init_attr attr = small_qp(IBV_QPT_RC);
	struct rdma_conn_param param = { .private_data = "ask", .private_data_len = 4, .retry_count = 7 };
	struct rdma_cm_id *listening = listening_endpoint(&attr, RDMA_PS_TCP, IBV_QPT_RC), *id;
	struct ibv_wc wc;
	pthread_t thread;
	CHECK(!pthread_create(&thread, NULL, serve, listening));
	struct rdma_addrinfo *res = information(0, RDMA_PS_TCP, IBV_QPT_RC);
	CHECK(!rdma_create_ep(&id, res, NULL, &attr));
	rdma_freeaddrinfo(res);
	CHECK(id->qp && id->route.num_paths == 1 && id->event->event == RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(!rdma_connect(id, &param));
	CHECK(id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	struct ibv_mr *mr = rdma_reg_msgs(id, outbox, sizeof outbox);
	memset(outbox, 'm', sizeof outbox);
	CHECK(mr && !rdma_post_send(id, NULL, outbox, sizeof outbox, mr, 0));
	CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(!rdma_disconnect(id));
	CHECK(id->event->event == RDMA_CM_EVENT_DISCONNECTED);
	CHECK(!pthread_join(thread, NULL));
	CHECK(!memcmp(inbox, outbox, sizeof inbox));
	CHECK(!rdma_dereg_mr(mr));
	rdma_destroy_ep(id);
	rdma_destroy_ep(listening);
}

static void *refuse(void *argument)
{
	struct rdma_cm_id *id;
	CHECK(!rdma_get_request(argument, &id));
	CHECK(!rdma_reject(id, NULL, 0));
	rdma_destroy_ep(id);
	return NULL;
}

static void refused(void)
{
	struct ibv_qp_init_attr attr = small_qp(IBV_QPT_RC);
	struct rdma_cm_id *listening = listening_endpoint(NULL, RDMA_PS_TCP, IBV_QPT_RC), *id;
	pthread_t thread;
	CHECK(!pthread_create(&thread, NULL, refuse, listening));
	struct rdma_addrinfo *res = information(0, RDMA_PS_TCP, IBV_QPT_RC);
	CHECK(!rdma_create_ep(&id, res, NULL, &attr));
	MINUS_WITH(rdma_connect(id, NULL), ECONNREFUSED);
	CHECK(id->event && id->event->event == RDMA_CM_EVENT_REJECTED && id->event->status == 28);
	CHECK(!pthread_join(thread, NULL));
	rdma_destroy_ep(id);
	rdma_destroy_ep(listening);
	/* Now nobody listens there. */
	CHECK(!rdma_create_ep(&id, res, NULL, &attr));
	MINUS_WITH(rdma_connect(id, NULL), ECONNREFUSED);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(res);
}

/* The message has come: who disconnects before takes its queue pair away from under it. */
static sem_t received;

static void *serve_xrc(void *argument)
{
	struct rdma_cm_id *id;
	CHECK(!rdma_get_request(argument, &id));
	CHECK(id->qp && id->qp->qp_type == IBV_QPT_XRC_RECV);
	CHECK(!rdma_accept(id, NULL));
	CHECK(!sem_wait(&received));
	CHECK(!rdma_disconnect(id));
	rdma_destroy_ep(id);
	return NULL;
}

/* An extended reliable connection: the message goes to a shared receive queue of the listener's. */
static void extended(void)
{
	struct ibv_qp_init_attr attr = small_qp(IBV_QPT_XRC_RECV);
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct rdma_cm_id *listening = listening_endpoint(&attr, RDMA_PS_IB, IBV_QPT_XRC_RECV), *id;
	struct ibv_wc wc;
	uint32_t number;
	pthread_t thread;
	CHECK(!rdma_create_srq(listening, NULL, &srq));
	CHECK(listening->srq && listening->recv_cq && !ibv_get_srq_num(listening->srq, &number));
	MINUS_WITH(rdma_create_srq(listening, NULL, &srq), EINVAL);
	struct ibv_mr *mr = rdma_reg_msgs(listening, inbox, sizeof inbox);
	memset(inbox, 0, sizeof inbox);
	CHECK(mr && !rdma_post_recv(listening, NULL, inbox, sizeof inbox, mr));
	CHECK(!sem_init(&received, 0, 0));
	CHECK(!pthread_create(&thread, NULL, serve_xrc, listening));

	attr = small_qp(IBV_QPT_XRC_SEND);
	struct rdma_addrinfo *res = information(0, RDMA_PS_IB, IBV_QPT_XRC_SEND);
	CHECK(!rdma_create_ep(&id, res, NULL, &attr));
	rdma_freeaddrinfo(res);
	CHECK(!rdma_connect(id, NULL));
	struct ibv_sge sge = { .addr = (uintptr_t)outbox, .length = 16 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE }, *bad;
	wr.qp_type.xrc.remote_srqn = number;
	CHECK(!ibv_post_send(id->qp, &wr, &bad));
	CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(rdma_get_recv_comp(listening, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len == 16);
	CHECK(!memcmp(inbox, outbox, 16));
	CHECK(!sem_post(&received));
	CHECK(!rdma_disconnect(id));
	CHECK(!pthread_join(thread, NULL));
	rdma_destroy_ep(id);
	CHECK(!rdma_dereg_mr(mr));
	rdma_destroy_ep(listening);
}

static void endpoints_that_cannot_be(void)
{
	struct ibv_qp_init_attr attr = small_qp(IBV_QPT_RC);
	struct rdma_cm_id *id;
	struct rdma_addrinfo nothing = { .ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_RC };
	MINUS_WITH(rdma_create_ep(&id, NULL, NULL, &attr), EINVAL);
	MINUS_WITH(rdma_create_ep(&id, &nothing, NULL, &attr), EINVAL);
	nothing.ai_port_space = 3;
	MINUS_WITH(rdma_create_ep(&id, &nothing, NULL, &attr), EINVAL);
	rdma_destroy_ep(NULL);
}

int main(void)
{
	connected();
	refused();
	extended();
	endpoints_that_cannot_be();
	return verdict();
}
