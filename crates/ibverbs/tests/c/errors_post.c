/* Posting: the wrong state, the wrong request, no room; bad_wr is the first that was refused. */
#include "errors.h"

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char bytes[4096];
static struct ibv_sge sge[3];

static struct ibv_send_wr good(void)
{
	return (struct ibv_send_wr){
		.sg_list = sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)bytes, mr->rkey },
	};
}

/* Posts one request between two: which one is named as bad tells which were taken. */
static int between(struct ibv_qp *qp, struct ibv_send_wr middle)
{
	struct ibv_send_wr first = good(), last = good(), *bad = NULL;
	first.next = &middle, middle.next = &last, last.next = NULL;
	int error = ibv_post_send(qp, &first, &bad);
	CHECK(!error || bad == &middle, "the wrong request was named");
	for (int taken = error ? 1 : 3; taken; taken--)
		CHECK(next_wc(cq).status == IBV_WC_SUCCESS);
	return error;
}

static void requests(struct ibv_qp *qp)
{
	struct ibv_send_wr wr;
	RETURNS(between(qp, good()), 0);
#define BAD_WR(change) (wr = good(), change, (void)0); RETURNS(between(qp, wr), EINVAL)
	BAD_WR(wr.num_sge = 3);
	BAD_WR(wr.num_sge = -1);
	BAD_WR(wr.sg_list = NULL);
	BAD_WR(wr.opcode = 5000);
	BAD_WR(wr.opcode = IBV_WR_TSO);
	BAD_WR(wr.send_flags |= 1 << 20);
	BAD_WR(wr.send_flags |= IBV_SEND_INLINE);
	(wr = good(), wr.opcode = IBV_WR_RDMA_READ, wr.send_flags |= IBV_SEND_INLINE);
	RETURNS(between(qp, wr), EINVAL);
	/* Keys are checked when the request is carried out. */
	struct ibv_send_wr *bad;
	struct ibv_sge wrong_key = { (uintptr_t)bytes, 8, mr->lkey ^ 0xff00 };
	wr = good(), wr.sg_list = &wrong_key;
	RETURNS(ibv_post_send(qp, &wr, &bad), 0);
	CHECK(next_wc(cq).status == IBV_WC_LOC_PROT_ERR);
	/* In the error state requests are taken, and flushed. */
	wr = good();
	RETURNS(ibv_post_send(qp, &wr, &bad), 0);
	CHECK(next_wc(cq).status == IBV_WC_WR_FLUSH_ERR);
}

static void states(void)
{
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	CHECK(qp);
	struct ibv_send_wr wr = good(), *bad = NULL;
	struct ibv_recv_wr recv = { .sg_list = sge, .num_sge = 1 }, *bad_recv = NULL;
	RETURNS(ibv_post_send(qp, &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	RETURNS(ibv_post_recv(qp, &recv, &bad_recv), EINVAL);
	CHECK(bad_recv == &recv);
	CHECK(!to_init(qp));
	RETURNS(ibv_post_send(qp, &wr, &bad), EINVAL);
	RETURNS(ibv_post_recv(qp, &recv, &bad_recv), 0);
	recv.num_sge = 3, bad_recv = NULL;
	RETURNS(ibv_post_recv(qp, &recv, &bad_recv), EINVAL);
	CHECK(bad_recv == &recv);
	recv.num_sge = 1;
	CHECK(!to_rtr(qp, qp->qp_num, first_gid(qp->context)));
	RETURNS(ibv_post_send(qp, &wr, &bad), EINVAL);
	/* Room for 32; one is there. */
	struct ibv_recv_wr list[40];
	for (int i = 0; i < 40; i++)
		list[i] = (struct ibv_recv_wr){ .next = i < 39 ? &list[i + 1] : NULL, .sg_list = sge, .num_sge = 1 };
	RETURNS(ibv_post_recv(qp, list, &bad_recv), ENOMEM);
	CHECK(bad_recv == &list[31], "request %d", (int)(bad_recv - list));
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	for (int i = 0; i < 32; i++)
		CHECK(next_wc(cq).status == IBV_WC_WR_FLUSH_ERR);
	CHECK(!ibv_destroy_qp(qp));
}

static void room(struct ibv_qp *qp)
{
	/* Nobody answers at that number: nothing completes, so the queue fills up. */
	struct ibv_send_wr list[40], *bad = NULL;
	for (int i = 0; i < 40; i++) {
		list[i] = good();
		list[i].next = i < 39 ? &list[i + 1] : NULL;
	}
	RETURNS(ibv_post_send(qp, list, &bad), ENOMEM);
	CHECK(bad == &list[32], "request %d", (int)(bad - list));
}

/* A failed send has stopped the send queue; nothing else. */
static void ready_again(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	RETURNS(attr.qp_state, IBV_QPS_SQE);
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

static void datagrams(void)
{
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_UD);
	CHECK(qp);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 5 };
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	struct ibv_send_wr wr = good(), *bad = NULL;
	wr.opcode = IBV_WR_SEND, wr.wr.ud.ah = NULL;
	RETURNS(ibv_post_send(qp, &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	/* Operations that UD lacks are accepted, and fail when they are executed; so do messages that are too long. */
	static const enum ibv_wr_opcode lacking[] = { IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_SEND_WITH_INV };
	for (int i = 0; i < 3; i++) {
		wr = good(), wr.opcode = lacking[i], wr.wr.rdma.remote_addr = 1;
		RETURNS(ibv_post_send(qp, &wr, &bad), 0);
		RETURNS(next_wc(cq).status, IBV_WC_LOC_QP_OP_ERR);
		ready_again(qp);
	}
	struct ibv_ah_attr ah_attr = ah_to(first_gid(qp->context));
	struct ibv_sge long_one = { (uintptr_t)bytes, sizeof(bytes), mr->lkey }, list[2] = { long_one, long_one };
	wr = good(), wr.opcode = IBV_WR_SEND, wr.sg_list = list, wr.num_sge = 2, wr.wr.ud.remote_qpn = 1;
	wr.wr.ud.ah = ibv_create_ah(pd, &ah_attr);
	CHECK(wr.wr.ud.ah);
	RETURNS(ibv_post_send(qp, &wr, &bad), 0);
	RETURNS(next_wc(cq).status, IBV_WC_LOC_LEN_ERR);
	CHECK(!ibv_destroy_ah(wr.wr.ud.ah) && !ibv_destroy_qp(qp));
}

/* UC: READ and atomics are not its own. */
static void unreliable(void)
{
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_UC);
	CHECK(qp && !to_init(qp));
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num,
		.ah_attr = ah_to(first_gid(qp->context)),
	};
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	struct ibv_send_wr wr = good(), *bad = NULL;
	wr.opcode = IBV_WR_RDMA_READ;
	RETURNS(ibv_post_send(qp, &wr, &bad), 0);
	RETURNS(next_wc(cq).status, IBV_WC_LOC_QP_OP_ERR);
	ready_again(qp);
	wr = good();
	RETURNS(ibv_post_send(qp, &wr, &bad), 0);
	RETURNS(next_wc(cq).status, IBV_WC_SUCCESS);
	CHECK(!ibv_destroy_qp(qp));
}

static void builders(struct ibv_context *context)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = pd,
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 8 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);
	CHECK(qp);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	CHECK(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
#define BUILD(steps) (ibv_wr_start(ex), steps, ibv_wr_complete(ex))
	RETURNS(BUILD((ibv_wr_send(ex), ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)bytes, 8))), EINVAL);
	connect_rc(qp, qp->qp_num, first_gid(context));
	RETURNS(BUILD((ibv_wr_send(ex), ibv_wr_set_inline_data(ex, bytes, 17))), EINVAL);
	RETURNS(BUILD((ibv_wr_send(ex), ibv_wr_set_inline_data(ex, NULL, 1))), EINVAL);
	RETURNS(BUILD((ibv_wr_send(ex), ibv_wr_set_sge_list(ex, 2, sge))), EINVAL);
	RETURNS(BUILD(ibv_wr_set_sge(ex, 0, 0, 0)), EINVAL);
	/* More than there is room for: none of them is posted. */
	ibv_wr_start(ex);
	for (int i = 0; i < 5; i++) {
		ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)bytes);
		ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)bytes, 8);
	}
	RETURNS(ibv_wr_complete(ex), ENOMEM);
	/* An aborted or refused list leaves nothing to the next one. */
	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 1, 1);
	ibv_wr_abort(ex);
	RETURNS(BUILD((ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)bytes), ibv_wr_set_inline_data(ex, bytes, 8))), 0);
	CHECK(next_wc(cq).status == IBV_WC_SUCCESS);
	struct ibv_wc wc;
	CHECK(ibv_poll_cq(cq, 1, &wc) == 0);
	CHECK(!ibv_destroy_qp(qp));
}

int main(void)
{
	struct ibv_context *context = open_first();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 200, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, bytes, sizeof(bytes), ALL_ACCESS);
	CHECK(pd && cq && mr);
	for (int i = 0; i < 3; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)bytes, 100, mr->lkey };
	states();
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	CHECK(qp);
	connect_rc(qp, qp->qp_num, first_gid(context));
	requests(qp);
	CHECK(!ibv_destroy_qp(qp));
	qp = make_qp(pd, cq, IBV_QPT_RC);
	CHECK(qp);
	connect_rc(qp, 0xfffffe, first_gid(context));
	room(qp);
	CHECK(!ibv_destroy_qp(qp));
	datagrams();
	unreliable();
	builders(context);
	CHECK(!ibv_dereg_mr(mr) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	return verdict();
}
