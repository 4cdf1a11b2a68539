/* Events of completion queues: the events of an armed queue, and the counts of acknowledged events. */
#include "errors.h"
#include <poll.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static char bytes[4096];

enum { NOW_MS = 0, A_WHILE_MS = 60000 };

static int has_event(struct ibv_comp_channel *channel, int patience_ms)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	return poll(&fd, 1, patience_ms);
}

static void take_event(struct ibv_comp_channel *channel, struct ibv_cq *of)
{
	struct ibv_cq *cq;
	void *cookie;
	CHECK(has_event(channel, A_WHILE_MS) == 1);
	CHECK(!ibv_get_cq_event(channel, &cq, &cookie) && cq == of);
	ibv_ack_cq_events(cq, 1);
}

static void write_some(struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)bytes, 64, mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { (uintptr_t)bytes + 1024, mr->rkey },
	}, *bad;
	CHECK(!ibv_post_send(qp, &wr, &bad));
}

/* Waits until the WRITEs are done, without polling their queue: other work continues meanwhile. */
static void settle(struct ibv_cq *other, struct ibv_qp *loop)
{
	for (int i = 0; i < 200; i++) {
		write_some(loop);
		CHECK(next_wc(other).status == IBV_WC_SUCCESS);
		usleep(1000);
	}
}

static int drain(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int count = 0;
	while (ibv_poll_cq(cq, 1, &wc) == 1) {
		CHECK(wc.status == IBV_WC_SUCCESS);
		count++;
	}
	return count;
}

/* ibv_req_notify_cq(3): an event "upon the addition of a new CQ entry". */
static void arming(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, channel, 0), *other = ibv_create_cq(context, 64, NULL, NULL, 0);
	CHECK(channel && cq && other);
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC), *loop = make_qp(pd, other, IBV_QPT_RC);
	CHECK(qp && loop);
	connect_rc(qp, qp->qp_num, first_gid(context));
	connect_rc(loop, loop->qp_num, first_gid(context));

	CHECK(!ibv_req_notify_cq(cq, 0));
	write_some(qp);
	take_event(channel, cq);
	write_some(qp);
	write_some(qp);
	settle(other, loop);
	RETURNS(has_event(channel, NOW_MS), 0);
	CHECK(!ibv_req_notify_cq(cq, 0));
	settle(other, loop);
	RETURNS(has_event(channel, NOW_MS), 0);
	RETURNS(drain(cq), 3);
	RETURNS(has_event(channel, NOW_MS), 0);
	write_some(qp);
	take_event(channel, cq);
	RETURNS(drain(cq), 1);
	CHECK(!ibv_req_notify_cq(cq, 1));
	write_some(qp);
	settle(other, loop);
	RETURNS(has_event(channel, NOW_MS), 0);

	/* The program's own count of acknowledged events. */
	RETURNS(cq->comp_events_completed, 2);
	ibv_ack_cq_events(cq, 0);
	RETURNS(cq->comp_events_completed, 2);
	CHECK(!ibv_req_notify_cq(cq, 0));
	write_some(qp);
	take_event(channel, cq);
	RETURNS(cq->comp_events_completed, 3);
	CHECK(cq->async_events_completed == 0 && qp->events_completed == 0);

	/* A queue without a channel has no events; kernel and drivers still arm it. */
	RETURNS(ibv_req_notify_cq(other, 0), 0);
	RETURNS(ibv_req_notify_cq(other, 1), 0);
	write_some(loop);
	CHECK(next_wc(other).status == IBV_WC_SUCCESS);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_qp(loop) && !ibv_destroy_cq(cq) && !ibv_destroy_cq(other));
	CHECK(!ibv_destroy_comp_channel(channel));
}

/* UCX polls, finds nothing, arms, and sleeps without another poll. */
static void found_empty(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, channel, 0), *other = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC), *loop = make_qp(pd, other, IBV_QPT_RC);
	CHECK(channel && cq && other && qp && loop);
	connect_rc(qp, qp->qp_num, first_gid(context));
	connect_rc(loop, loop->qp_num, first_gid(context));
	RETURNS(drain(cq), 0);
	write_some(qp);
	settle(other, loop);
	CHECK(!ibv_req_notify_cq(cq, 0));
	take_event(channel, cq);
	RETURNS(drain(cq), 1);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_qp(loop) && !ibv_destroy_cq(cq) && !ibv_destroy_cq(other));
	CHECK(!ibv_destroy_comp_channel(channel));
}

/* A batch ends before a completion whose event was not fetched: the program finds it when it has the event. */
static void batches(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq_init_attr_ex attr = { .cqe = 64, .channel = channel };
	struct ibv_cq_ex *extended = ibv_create_cq_ex(context, &attr);
	struct ibv_cq *cq = ibv_cq_ex_to_cq(extended), *other = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC), *loop = make_qp(pd, other, IBV_QPT_RC);
	CHECK(channel && cq && other && qp && loop);
	connect_rc(qp, qp->qp_num, first_gid(context));
	connect_rc(loop, loop->qp_num, first_gid(context));
	struct ibv_poll_cq_attr poll_attr = { 0 };
	CHECK(!ibv_req_notify_cq(cq, 0));
	write_some(qp);
	take_event(channel, cq);
	CHECK(!ibv_req_notify_cq(cq, 0));
	write_some(qp);
	CHECK(has_event(channel, A_WHILE_MS) == 1);
	RETURNS(ibv_start_poll(extended, &poll_attr), 0);
	RETURNS(ibv_next_poll(extended), ENOENT);
	ibv_end_poll(extended);
	take_event(channel, cq);
	RETURNS(ibv_start_poll(extended, &poll_attr), 0);
	RETURNS(ibv_next_poll(extended), ENOENT);
	ibv_end_poll(extended);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_qp(loop) && !ibv_destroy_cq(cq) && !ibv_destroy_cq(other));
	CHECK(!ibv_destroy_comp_channel(channel));
}

static void take_async(enum ibv_event_type type)
{
	struct ibv_async_event event;
	struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
	CHECK(poll(&fd, 1, A_WHILE_MS) == 1);
	CHECK(!ibv_get_async_event(context, &event));
	RETURNS(event.event_type, type);
	ibv_ack_async_event(&event);
}

/* Counts of asynchronous events: of a shared receive queue, a queue pair, a completion queue. */
static void asynchronous(void)
{
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
	CHECK(cq && srq);
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = 8, .max_send_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);
	CHECK(qp);
	connect_rc(qp, qp->qp_num, first_gid(context));
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	CHECK(!ibv_modify_qp(qp, &error, IBV_QP_STATE));
	take_async(IBV_EVENT_QP_LAST_WQE_REACHED);
	RETURNS(qp->events_completed, 1);
	/* Two flushed requests, and room for one. */
	write_some(qp);
	write_some(qp);
	take_async(IBV_EVENT_CQ_ERR);
	RETURNS(cq->async_events_completed, 1);
	CHECK(!ibv_destroy_qp(qp));

	struct ibv_cq *wide = ibv_create_cq(context, 64, NULL, NULL, 0);
	CHECK(wide);
	attr.send_cq = attr.recv_cq = wide;
	qp = ibv_create_qp(pd, &attr);
	CHECK(qp);
	connect_rc(qp, qp->qp_num, first_gid(context));
	struct ibv_sge sge = { (uintptr_t)bytes, 64, mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	CHECK(!ibv_post_srq_recv(srq, &recv, &bad_recv));
	struct ibv_srq_attr limit = { .srq_limit = 1 };
	CHECK(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	struct ibv_send_wr send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	CHECK(!ibv_post_send(qp, &send, &bad));
	take_async(IBV_EVENT_SRQ_LIMIT_REACHED);
	RETURNS(srq->events_completed, 1);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_srq(srq) && !ibv_destroy_cq(cq) && !ibv_destroy_cq(wide));
}

int main(void)
{
	context = open_first();
	RETURNS(ibv_get_device_index(context->device), -1);
	pd = ibv_alloc_pd(context);
	mr = pd ? ibv_reg_mr(pd, bytes, sizeof(bytes), ALL_ACCESS) : NULL;
	CHECK(mr);
	arming();
	found_empty();
	batches();
	asynchronous();
	CHECK(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	return verdict();
}
