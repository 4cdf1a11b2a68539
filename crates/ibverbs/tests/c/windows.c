/* Keys of type 2 windows, and the fate of an invalidate or a WRITE with immediate data that is refused. */
#include "errors.h"

static struct ibv_context *context;
static struct ibv_pd *pd, *other_pd;
static struct ibv_mr *mr;
static char bytes[8192];

/* Two queue pairs that are connected: `a` sends, `b` has two receives. */
struct pair {
	struct ibv_cq *a_cq, *b_cq;
	struct ibv_qp *a, *b;
};

static struct pair connected(void)
{
	struct pair p = { ibv_create_cq(context, 64, NULL, NULL, 0), ibv_create_cq(context, 64, NULL, NULL, 0), NULL, NULL };
	CHECK(p.a_cq && p.b_cq);
	p.a = make_qp(pd, p.a_cq, IBV_QPT_RC), p.b = make_qp(pd, p.b_cq, IBV_QPT_RC);
	CHECK(p.a && p.b);
	connect_rc(p.a, p.b->qp_num, first_gid(context));
	connect_rc(p.b, p.a->qp_num, first_gid(context));
	struct ibv_sge sge = { (uintptr_t)bytes + 4096, 64, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1 }, *bad;
	CHECK(!ibv_post_recv(p.b, &wr, &bad) && !ibv_post_recv(p.b, &wr, &bad));
	return p;
}

static void end(struct pair p)
{
	CHECK(!ibv_destroy_qp(p.a) && !ibv_destroy_qp(p.b) && !ibv_destroy_cq(p.a_cq) && !ibv_destroy_cq(p.b_cq));
}

static struct ibv_send_wr bind_wr(struct ibv_mw *mw, uint32_t rkey)
{
	return (struct ibv_send_wr){
		.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { mw, rkey, { mr, (uintptr_t)bytes, 4096, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE } },
	};
}

static enum ibv_wc_status post_one(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad;
	CHECK(!ibv_post_send(qp, &wr, &bad));
	return next_wc(cq).status;
}

/* A type 2 window that `qp` has bound. */
static struct ibv_mw *bound(struct ibv_qp *qp, struct ibv_cq *cq)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	CHECK(mw);
	RETURNS(post_one(qp, cq, bind_wr(mw, ibv_inc_rkey(mw->rkey))), IBV_WC_SUCCESS);
	return mw;
}

static enum ibv_wc_status write_by(struct pair p, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)bytes + 100, 8, mr->lkey };
	return post_one(p.a, p.a_cq, (struct ibv_send_wr){
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)bytes, rkey },
	});
}

/* The program chooses only the low byte of a bind's key; the window's structure shows the whole key. */
static void keys(void)
{
	struct pair p = connected();
	const uint32_t chosen[] = { 0x411, 0xffffff12, 0x13 };
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	CHECK(mw);
	for (int i = 0; i < 3; i++) {
		uint32_t key = (mw->rkey & ~0xffu) | (chosen[i] & 0xff);
		RETURNS(post_one(p.b, p.b_cq, bind_wr(mw, chosen[i])), IBV_WC_SUCCESS);
		RETURNS(mw->rkey, key);
		RETURNS(write_by(p, key), IBV_WC_SUCCESS);
		struct ibv_send_wr inv = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = key, .send_flags = IBV_SEND_SIGNALED };
		RETURNS(post_one(p.b, p.b_cq, inv), IBV_WC_SUCCESS);
	}
	/* A bind that is refused when it is posted changes nothing. */
	struct ibv_qp *reset = make_qp(pd, p.a_cq, IBV_QPT_RC);
	struct ibv_send_wr wr = bind_wr(mw, 0x77), *bad;
	uint32_t before = mw->rkey;
	CHECK(reset);
	RETURNS(ibv_post_send(reset, &wr, &bad), EINVAL);
	RETURNS(mw->rkey, before);
	CHECK(!ibv_dealloc_mw(mw) && !ibv_destroy_qp(reset));
	end(p);
}

static void builders(void)
{
	struct pair p = connected();
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = p.a_cq, .recv_cq = p.a_cq, .qp_type = IBV_QPT_RC, .pd = pd,
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_BIND_MW,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	CHECK(qp && mw);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_mw_bind_info info = { mr, (uintptr_t)bytes, 64, IBV_ACCESS_REMOTE_READ };
	uint32_t before = mw->rkey, key = (before & ~0xffu) | 0x42;
	connect_rc(qp, qp->qp_num, first_gid(context));
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(ex);
	ibv_wr_bind_mw(ex, mw, 0x11, &info);
	ibv_wr_abort(ex);
	RETURNS(mw->rkey, before);
	ibv_wr_start(ex);
	ibv_wr_bind_mw(ex, mw, 0xabcd42, &info);
	RETURNS(ibv_wr_complete(ex), 0);
	RETURNS(mw->rkey, key);
	RETURNS(next_wc(p.a_cq).status, IBV_WC_SUCCESS);
	CHECK(!ibv_dealloc_mw(mw) && !ibv_destroy_qp(qp));
	end(p);
}

/* A SEND that invalidates: its status, and that of the receive. */
static void send_invalidates(struct pair p, uint32_t rkey, enum ibv_wc_status sender, enum ibv_wc_status receiver)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = rkey, .send_flags = IBV_SEND_SIGNALED,
	};
	RETURNS(post_one(p.a, p.a_cq, wr), sender);
	RETURNS(next_wc(p.b_cq).status, receiver);
	if (receiver != IBV_WC_SUCCESS)
		RETURNS(next_wc(p.b_cq).status, IBV_WC_WR_FLUSH_ERR);
	end(p);
}

static void remote_invalidates(void)
{
	struct pair p = connected(), x = connected();
	struct ibv_mw *good = bound(p.b, p.b_cq), *foreign = bound(x.b, x.b_cq);
	struct ibv_mw *one = ibv_alloc_mw(pd, IBV_MW_TYPE_1), *unbound = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_mw *elsewhere = ibv_alloc_mw(other_pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED, .bind_info = { mr, (uintptr_t)bytes, 64, IBV_ACCESS_REMOTE_READ },
	};
	CHECK(one && unbound && elsewhere && !ibv_bind_mw(x.b, one, &bind));
	RETURNS(next_wc(x.b_cq).status, IBV_WC_SUCCESS);
	send_invalidates(p, good->rkey, IBV_WC_SUCCESS, IBV_WC_SUCCESS);
	const uint32_t bad[] = {
		0x12345678, mr->rkey, one->rkey, foreign->rkey, elsewhere->rkey, unbound->rkey, good->rkey,
	};
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		send_invalidates(connected(), bad[i], IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR);
	/* The window of another queue pair is as it was. */
	RETURNS(write_by(x, foreign->rkey), IBV_WC_SUCCESS);
	CHECK(!ibv_dealloc_mw(good) && !ibv_dealloc_mw(foreign) && !ibv_dealloc_mw(one));
	CHECK(!ibv_dealloc_mw(unbound) && !ibv_dealloc_mw(elsewhere));
	end(x);
}

static void local_invalidates(void)
{
	struct pair x = connected();
	struct ibv_mw *foreign = bound(x.b, x.b_cq), *unbound = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	CHECK(unbound);
	const uint32_t bad[] = { 0x12345678, mr->rkey, foreign->rkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED };
	for (int i = 0; i < 3; i++) {
		struct pair p = connected();
		wr.invalidate_rkey = bad[i];
		RETURNS(post_one(p.a, p.a_cq, wr), IBV_WC_MW_BIND_ERR);
		end(p);
	}
	wr.invalidate_rkey = unbound->rkey;
	RETURNS(post_one(x.a, x.a_cq, wr), IBV_WC_SUCCESS);
	RETURNS(write_by(x, foreign->rkey), IBV_WC_SUCCESS);
	CHECK(!ibv_dealloc_mw(foreign) && !ibv_dealloc_mw(unbound));
	end(x);
}

/* The receive of a WRITE with immediate data that may not be done is a local access error. */
static void refused_write(void)
{
	struct pair p = connected();
	struct ibv_sge sge = { (uintptr_t)bytes, 8, mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)bytes, 0x12345678 },
	};
	RETURNS(post_one(p.a, p.a_cq, wr), IBV_WC_REM_ACCESS_ERR);
	RETURNS(next_wc(p.b_cq).status, IBV_WC_LOC_ACCESS_ERR);
	RETURNS(next_wc(p.b_cq).status, IBV_WC_WR_FLUSH_ERR);
	end(p);
}

int main(void)
{
	context = open_first();
	pd = ibv_alloc_pd(context), other_pd = ibv_alloc_pd(context);
	CHECK(pd && other_pd);
	mr = ibv_reg_mr(pd, bytes, sizeof(bytes), ALL_ACCESS | IBV_ACCESS_MW_BIND);
	CHECK(mr);
	keys();
	builders();
	remote_invalidates();
	local_invalidates();
	refused_write();
	CHECK(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_dealloc_pd(other_pd) && !ibv_close_device(context));
	return verdict();
}
