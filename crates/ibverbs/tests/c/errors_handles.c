/* Objects whose handle the program has changed: the kernel knows no object by that number. Afterwards they are whole. */
#include "errors.h"
#include <fcntl.h>

/* With a wrong handle in the object the call is refused. */
#define WRONG(object, check) \
	do { \
		(object)->handle += 1000000; \
		check; \
		(object)->handle -= 1000000; \
	} while (0)
#define WRONG_RETURNS(object, call) WRONG(object, RETURNS(call, ENOENT))
#define WRONG_NULL(object, call) WRONG(object, NULL_WITH(call, ENOENT))

static struct ibv_context *context;
static char bytes[4096];

static void domains(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_ah_attr ah_attr = ah_to(first_gid(context));
	struct ibv_parent_domain_init_attr parent = { .pd = pd };
	struct ibv_alloc_dm_attr dm_attr = { .length = 64 };
	WRONG_NULL(pd, ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE));
	WRONG_NULL(pd, ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	WRONG_NULL(pd, ibv_create_srq(pd, &srq_attr));
	WRONG_NULL(pd, ibv_create_ah(pd, &ah_attr));
	WRONG_NULL(pd, ibv_alloc_parent_domain(context, &parent));
	WRONG_NULL(pd, ibv_alloc_null_mr(pd));
	WRONG_NULL(pd, make_qp(pd, cq, IBV_QPT_RC));
	WRONG_NULL(cq, make_qp(pd, cq, IBV_QPT_RC));
	struct ibv_dm *dm = ibv_alloc_dm(context, &dm_attr);
	CHECK(dm);
	WRONG_NULL(pd, ibv_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED));
	WRONG_NULL(dm, ibv_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED));
	WRONG_RETURNS(dm, ibv_free_dm(dm));
	CHECK(!ibv_free_dm(dm));
	WRONG_RETURNS(pd, ibv_dealloc_pd(pd));
}

static void completion_queues(void)
{
	struct ibv_cq_init_attr_ex extended = { .cqe = 8 };
	struct ibv_modify_cq_attr moderation = { .attr_mask = IBV_CQ_ATTR_MODERATE };
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	struct ibv_cq_ex *ex = ibv_create_cq_ex(context, &extended);
	CHECK(cq && ex);
	WRONG_RETURNS(cq, ibv_resize_cq(cq, 16));
	WRONG_RETURNS(cq, ibv_modify_cq(cq, &moderation));
	WRONG_RETURNS(cq, ibv_destroy_cq(cq));
	WRONG_RETURNS(ex, ibv_destroy_cq(ibv_cq_ex_to_cq(ex)));
	CHECK(!ibv_destroy_cq(cq) && !ibv_destroy_cq(ibv_cq_ex_to_cq(ex)));
}

static void memory(struct ibv_pd *pd)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	CHECK(mr && mw);
	WRONG(mr, CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0)); CHECK(errno == ENOENT));
	WRONG(pd, CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0)); CHECK(errno == ENOENT));
	WRONG_RETURNS(mr, ibv_dereg_mr(mr));
	WRONG_RETURNS(mw, ibv_dealloc_mw(mw));
	CHECK(!ibv_dealloc_mw(mw) && !ibv_dereg_mr(mr));
}

static void queues(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = 1 };
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
	CHECK(srq);
	WRONG_RETURNS(srq, ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	WRONG_RETURNS(srq, ibv_query_srq(srq, &limit));
	WRONG_RETURNS(srq, ibv_destroy_srq(srq));
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_UD, .cap = { .max_send_wr = 1, .max_send_sge = 1 },
	};
	WRONG_NULL(srq, ibv_create_qp(pd, &attr));
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);
	struct ibv_qp_attr state = { .qp_state = IBV_QPS_RESET };
	union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 1 } };
	CHECK(qp);
	WRONG_RETURNS(qp, to_init(qp));
	WRONG_RETURNS(qp, ibv_query_qp(qp, &state, IBV_QP_STATE, &attr));
	WRONG_RETURNS(qp, ibv_attach_mcast(qp, &group, 0));
	WRONG_RETURNS(qp, ibv_detach_mcast(qp, &group, 0));
	WRONG_RETURNS(qp, ibv_destroy_qp(qp));
	struct ibv_ah_attr ah_attr = ah_to(first_gid(context));
	struct ibv_ah *ah = ibv_create_ah(pd, &ah_attr);
	CHECK(ah);
	WRONG_RETURNS(ah, ibv_destroy_ah(ah));
	CHECK(!ibv_destroy_ah(ah) && !ibv_destroy_qp(qp) && !ibv_destroy_srq(srq));
}

int main(void)
{
	context = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	CHECK(pd && cq);
	domains(pd, cq);
	completion_queues();
	memory(pd);
	queues(pd, cq);
	CHECK(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	return verdict();
}
