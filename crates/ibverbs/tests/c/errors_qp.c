/* Queue pairs, shared receive queues, XRC domains: refused calls that make and change them. */
#include "errors.h"
#include <fcntl.h>

static struct ibv_context *context, *other;
static struct ibv_pd *pd;
static struct ibv_cq *cq, *foreign_cq;
static struct ibv_device_attr limits;

static struct ibv_qp_init_attr good_qp(void)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
}

static void creation(void)
{
	struct ibv_qp_init_attr attr;
#define BAD_QP(change, value) (attr = good_qp(), change, (void)0); NULL_WITH(ibv_create_qp(pd, &attr), value)
	BAD_QP(attr.send_cq = NULL, EINVAL);
	BAD_QP(attr.recv_cq = NULL, EINVAL);
	BAD_QP(attr.send_cq = foreign_cq, EINVAL);
	BAD_QP(attr.recv_cq = foreign_cq, EINVAL);
	BAD_QP(attr.qp_type = 0, EINVAL);
	BAD_QP(attr.qp_type = 77, EINVAL);
	BAD_QP(attr.qp_type = IBV_QPT_RAW_PACKET, EOPNOTSUPP);
	BAD_QP(attr.qp_type = IBV_QPT_XRC_RECV, EINVAL);
	BAD_QP(attr.cap.max_send_wr = limits.max_qp_wr + 1, EINVAL);
	BAD_QP(attr.cap.max_recv_wr = UINT32_MAX, EINVAL);
	BAD_QP(attr.cap.max_send_sge = limits.max_sge + 1, EINVAL);
	BAD_QP(attr.cap.max_recv_sge = UINT32_MAX, EINVAL);
	BAD_QP(attr.cap.max_inline_data = UINT32_MAX, EINVAL);
	NULL_WITH(ibv_create_qp(NULL, &attr), EINVAL);

	struct ibv_qp_init_attr_ex extended = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = good_qp().cap, .pd = pd,
	};
	NULL_WITH(ibv_create_qp_ex(context, &extended), EINVAL);
	extended.comp_mask = IBV_QP_INIT_ATTR_PD | 1 << 25;
	NULL_WITH(ibv_create_qp_ex(context, &extended), EINVAL);
	extended.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	extended.send_ops_flags = IBV_QP_EX_WITH_TSO;
	NULL_WITH(ibv_create_qp_ex(context, &extended), EOPNOTSUPP);
	extended.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	extended.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	NULL_WITH(ibv_create_qp_ex(context, &extended), EOPNOTSUPP);
	extended.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB | IBV_QP_CREATE_SCATTER_FCS;
	NULL_WITH(ibv_create_qp_ex(context, &extended), EOPNOTSUPP);
	extended.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	struct ibv_qp *quiet = ibv_create_qp_ex(context, &extended);
	CHECK(quiet && !ibv_destroy_qp(quiet));
	extended.create_flags = 0;
	extended.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	extended.qp_type = IBV_QPT_XRC_RECV;
	NULL_WITH(ibv_create_qp_ex(context, &extended), EINVAL);
}

static void states(void)
{
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	union ibv_gid gid = first_gid(context);
	CHECK(qp);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	RETURNS(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
	RETURNS(ibv_modify_qp(qp, &attr, init & ~IBV_QP_PORT), EINVAL);
	RETURNS(ibv_modify_qp(qp, &attr, init | IBV_QP_QKEY), EINVAL);
	RETURNS(ibv_modify_qp(qp, &attr, init | IBV_QP_SQ_PSN), EINVAL);
	RETURNS(ibv_modify_qp(qp, &attr, init | 1 << 30), EINVAL);
	attr.port_num = 2;
	RETURNS(ibv_modify_qp(qp, &attr, init), EINVAL);
	attr.port_num = 1, attr.pkey_index = 999;
	RETURNS(ibv_modify_qp(qp, &attr, init), EINVAL);
	attr.pkey_index = 0;
	/* Out of order. */
	RETURNS(to_rtr(qp, 1, gid), EINVAL);
	RETURNS(to_rts(qp), EINVAL);
	CHECK(qp->state == IBV_QPS_RESET);
	CHECK(!to_init(qp) && qp->state == IBV_QPS_INIT);
	RETURNS(to_rts(qp), EINVAL);

	const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const struct ibv_qp_attr good = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = 1, .ah_attr = ah_to(gid),
		.max_dest_rd_atomic = 1,
	};
#define BAD_RTR(change) (attr = good, change, (void)0); RETURNS(ibv_modify_qp(qp, &attr, rtr), EINVAL)
	BAD_RTR(attr.path_mtu = 0);
	BAD_RTR(attr.path_mtu = 6);
	if (limits.max_qp_rd_atom < 255) {
		BAD_RTR(attr.max_dest_rd_atomic = limits.max_qp_rd_atom + 1);
	}
	BAD_RTR(attr.min_rnr_timer = 32);
	BAD_RTR(attr.ah_attr.is_global = 0);
	BAD_RTR(attr.ah_attr.port_num = 3);
	BAD_RTR(attr.ah_attr.grh.sgid_index = 250);
	BAD_RTR(attr.qp_state = 99);
	attr = good;
	RETURNS(ibv_modify_qp(qp, &attr, rtr & ~IBV_QP_DEST_QPN), EINVAL);
	RETURNS(ibv_modify_qp(qp, &attr, rtr | IBV_QP_TIMEOUT), EINVAL);
	/* The state it is said to be in is another one. */
	attr.cur_qp_state = IBV_QPS_RTS;
	RETURNS(ibv_modify_qp(qp, &attr, rtr | IBV_QP_CUR_STATE), EINVAL);
	CHECK(!to_rtr(qp, 1, gid) && qp->state == IBV_QPS_RTR);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 32 };
	const int rts = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	RETURNS(ibv_modify_qp(qp, &attr, rts), EINVAL);
	attr.timeout = 1, attr.retry_cnt = 8;
	RETURNS(ibv_modify_qp(qp, &attr, rts), EINVAL);
	attr.retry_cnt = 1, attr.rnr_retry = 8;
	RETURNS(ibv_modify_qp(qp, &attr, rts), EINVAL);
	attr.rnr_retry = 1, attr.max_rd_atomic = limits.max_qp_init_rd_atom + 1;
	if (limits.max_qp_init_rd_atom < 255)
		RETURNS(ibv_modify_qp(qp, &attr, rts), EINVAL);
	CHECK(!to_rts(qp) && qp->state == IBV_QPS_RTS);
	attr.qp_state = IBV_QPS_INIT;
	RETURNS(ibv_modify_qp(qp, &attr, init), EINVAL);
	/* To reset or error from anywhere. */
	attr.qp_state = IBV_QPS_ERR;
	RETURNS(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	RETURNS(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
	attr.qp_state = IBV_QPS_RESET;
	RETURNS(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	struct ibv_qp_init_attr told;
	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &told) && attr.qp_state == IBV_QPS_RESET);
	CHECK(told.send_cq == cq && told.recv_cq == cq && told.qp_type == IBV_QPT_RC && told.sq_sig_all == 1);
	CHECK(told.cap.max_send_wr >= 32 && told.cap.max_inline_data >= 64);
	CHECK(!ibv_destroy_qp(qp));
}

static void shared_receive_queues(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 0, .max_sge = 1 } };
	NULL_WITH(ibv_create_srq(pd, &attr), EINVAL);
	attr.attr.max_wr = limits.max_srq_wr + 1;
	NULL_WITH(ibv_create_srq(pd, &attr), EINVAL);
	attr.attr.max_wr = 4, attr.attr.max_sge = limits.max_srq_sge + 1;
	NULL_WITH(ibv_create_srq(pd, &attr), EINVAL);
	attr.attr.max_sge = 1;
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);
	CHECK(srq);
	struct ibv_srq_attr change = { .max_wr = 4, .srq_limit = 5 };
	RETURNS(ibv_modify_srq(srq, &change, IBV_SRQ_LIMIT), EINVAL);
	RETURNS(ibv_modify_srq(srq, &change, 1 << 9), EINVAL);
	change.max_wr = limits.max_srq_wr + 1;
	RETURNS(ibv_modify_srq(srq, &change, IBV_SRQ_MAX_WR), EINVAL);
	change.srq_limit = 2;
	RETURNS(ibv_modify_srq(srq, &change, IBV_SRQ_LIMIT), 0);
	CHECK(!ibv_query_srq(srq, &change) && change.srq_limit == 2 && change.max_wr >= 4);
	uint32_t number;
	RETURNS(ibv_get_srq_num(srq, &number), EOPNOTSUPP);

	struct ibv_qp_init_attr with = good_qp();
	with.srq = srq;
	struct ibv_qp *qp = ibv_create_qp(pd, &with);
	CHECK(qp);
	RETURNS(ibv_destroy_srq(srq), EBUSY);
	struct ibv_recv_wr wr = { 0 }, *bad = NULL;
	CHECK(!to_init(qp));
	RETURNS(ibv_post_recv(qp, &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	/* A queue of another context. */
	struct ibv_pd *foreign = ibv_alloc_pd(other);
	struct ibv_qp_init_attr wrong_srq = good_qp();
	wrong_srq.srq = srq, wrong_srq.send_cq = wrong_srq.recv_cq = foreign_cq;
	NULL_WITH(ibv_create_qp(foreign, &wrong_srq), EINVAL);
	CHECK(!ibv_dealloc_pd(foreign));
	RETURNS(ibv_dealloc_pd(pd), EBUSY);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_srq(srq));

	struct ibv_srq_init_attr_ex extended = { .attr = { .max_wr = 4, .max_sge = 1 } };
	NULL_WITH(ibv_create_srq_ex(context, &extended), EINVAL);
	extended.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE, extended.pd = pd;
	extended.srq_type = IBV_SRQT_XRC;
	NULL_WITH(ibv_create_srq_ex(context, &extended), EINVAL);
	extended.srq_type = IBV_SRQT_TM;
	NULL_WITH(ibv_create_srq_ex(context, &extended), EOPNOTSUPP);
}

/* The queue pair lives as long as a handle of it; the first handle may be destroyed before. */
static void second_handle(struct ibv_xrcd *xrcd, struct ibv_qp_open_attr open)
{
	struct ibv_qp_init_attr_ex target = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd,
	};
	struct ibv_qp *first = ibv_create_qp_ex(context, &target);
	CHECK(first);
	open.qp_num = first->qp_num;
	struct ibv_qp *second = ibv_open_qp(context, &open);
	CHECK(second && second->qp_num == first->qp_num);
	CHECK(!ibv_destroy_qp(first));
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	CHECK(!ibv_query_qp(second, &attr, IBV_QP_STATE, &init));
	NULL_WITH(ibv_open_qp(context, &open), EINVAL);
	RETURNS(ibv_close_xrcd(xrcd), EBUSY);
	CHECK(!ibv_destroy_qp(second));
}

static void xrc(void)
{
	struct ibv_xrcd_init_attr attr = { .fd = -1, .oflags = O_CREAT };
	NULL_WITH(ibv_open_xrcd(context, &attr), EINVAL);
	attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	attr.oflags = 0;
	NULL_WITH(ibv_open_xrcd(context, &attr), EINVAL);
	attr.oflags = O_APPEND | O_CREAT;
	NULL_WITH(ibv_open_xrcd(context, &attr), EINVAL);
	attr.oflags = O_CREAT, attr.fd = 9999;
	NULL_WITH(ibv_open_xrcd(context, &attr), EBADF);
	attr.fd = -1;
	struct ibv_xrcd *xrcd = ibv_open_xrcd(context, &attr);
	CHECK(xrcd);
	struct ibv_srq_init_attr_ex with = {
		.attr = { .max_wr = 4, .max_sge = 1 }, .pd = pd, .xrcd = xrcd, .cq = cq, .srq_type = IBV_SRQT_XRC,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	with.cq = foreign_cq;
	NULL_WITH(ibv_create_srq_ex(context, &with), EINVAL);
	with.cq = cq;
	NULL_WITH(ibv_create_srq_ex(other, &with), EINVAL);
	struct ibv_srq *srq = ibv_create_srq_ex(context, &with);
	CHECK(srq);
	uint32_t number;
	CHECK(!ibv_get_srq_num(srq, &number));
	RETURNS(ibv_close_xrcd(xrcd), EBUSY);
	RETURNS(ibv_destroy_cq(cq), EBUSY);
	struct ibv_qp_init_attr_ex target = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd,
	};
	NULL_WITH(ibv_create_qp_ex(other, &target), EINVAL);
	struct ibv_qp_open_attr open = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE, .xrcd = xrcd,
		.qp_type = IBV_QPT_XRC_RECV, .qp_num = 0xffffff,
	};
	NULL_WITH(ibv_open_qp(context, &open), EINVAL);
	second_handle(xrcd, open);
	CHECK(!ibv_destroy_srq(srq) && !ibv_close_xrcd(xrcd));
}

int main(void)
{
	context = open_first(), other = open_first();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	foreign_cq = ibv_create_cq(other, 64, NULL, NULL, 0);
	CHECK(pd && cq && foreign_cq && !ibv_query_device(context, &limits));
	creation();
	states();
	shared_receive_queues();
	xrc();
	CHECK(!ibv_destroy_cq(cq) && !ibv_destroy_cq(foreign_cq) && !ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context) && !ibv_close_device(other));
	return verdict();
}
