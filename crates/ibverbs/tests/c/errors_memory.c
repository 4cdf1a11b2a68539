/* Regions, windows, device memory, imports: refused calls. */
#include "errors.h"

static struct ibv_context *context, *other;
static struct ibv_pd *pd, *foreign;
static char bytes[8192];

/* The header's macro picks the function by whether the flags are constant. */
static struct ibv_mr *reg(void *addr, size_t length, int access)
{
	return ibv_reg_mr(pd, addr, length, access);
}

static void regions(void)
{
	NULL_WITH(reg(bytes, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	NULL_WITH(reg(NULL, 4096, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	NULL_WITH(reg((void *)(uintptr_t)(UINT64_MAX - 100), 4096, 0), EINVAL);
	NULL_WITH(reg(bytes, 16, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	NULL_WITH(reg(bytes, 16, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
	NULL_WITH(reg(bytes, 16, 1 << 18), EINVAL);
	NULL_WITH(ibv_reg_mr_iova2(NULL, bytes, 16, 0, 0), EINVAL);
	struct ibv_mr *mr = reg(bytes, sizeof(bytes), ALL_ACCESS);
	CHECK(mr && mr->addr == bytes && mr->length == sizeof(bytes) && mr->pd == pd && mr->context == context);
	/* Optional flags that are not known are ignored. */
	struct ibv_mr *relaxed = reg(bytes, 16, IBV_ACCESS_RELAXED_ORDERING | 1 << 29);
	CHECK(relaxed && !ibv_dereg_mr(relaxed));
	RETURNS(ibv_dealloc_pd(pd), EBUSY);
	RETURNS(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	RETURNS(ibv_rereg_mr(mr, 1 << 9, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	RETURNS(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, bytes, 0, 0), IBV_REREG_MR_ERR_INPUT);
	RETURNS(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 16, 0), IBV_REREG_MR_ERR_INPUT);
	RETURNS(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	RETURNS(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 1 << 18), IBV_REREG_MR_ERR_INPUT);

	struct ibv_sge part = { (uintptr_t)bytes, 16, mr->lkey };
	RETURNS(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 1), EINVAL);
	RETURNS(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1 << 7, &part, 1), EINVAL);
	RETURNS(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &part, 0), EINVAL);
	RETURNS(ibv_advise_mr(pd, 55, 0, &part, 1), EOPNOTSUPP);
	part.length = sizeof(bytes) + 1;
	RETURNS(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1, &part, 1), EFAULT);
	part.lkey ^= 0xff00;
	RETURNS(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 1, &part, 1), ENOENT);
	CHECK(!ibv_dereg_mr(mr));
}

static void windows(void)
{
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	struct ibv_mr *plain = reg(bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *mr = reg(bytes, sizeof(bytes), ALL_ACCESS | IBV_ACCESS_MW_BIND);
	CHECK(cq && qp && mr && plain);
	connect_rc(qp, qp->qp_num, first_gid(context));
	NULL_WITH(ibv_alloc_mw(pd, 0), EINVAL);
	NULL_WITH(ibv_alloc_mw(pd, 3), EINVAL);
	struct ibv_mw *one = ibv_alloc_mw(pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	CHECK(one && two && one->pd == pd && one->type == IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = mr, .addr = (uintptr_t)bytes, .length = 64, .mw_access_flags = IBV_ACCESS_REMOTE_READ },
	};
	RETURNS(ibv_bind_mw(qp, two, &bind), EINVAL);
	bind.bind_info.mr = NULL;
	RETURNS(ibv_bind_mw(qp, one, &bind), EINVAL);
	bind.bind_info.mr = mr, bind.bind_info.mw_access_flags = 1 << 18;
	RETURNS(ibv_bind_mw(qp, one, &bind), EINVAL);
	bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	uint32_t before = one->rkey;
	RETURNS(ibv_bind_mw(qp, one, &bind), 0);
	CHECK(next_wc(cq).status == IBV_WC_SUCCESS);
	CHECK(one->rkey != before && one->rkey >> 8 == before >> 8);
	/* The right to bind is checked when the bind is carried out. */
	struct ibv_qp *victim = make_qp(pd, cq, IBV_QPT_RC);
	CHECK(victim);
	connect_rc(victim, victim->qp_num, first_gid(context));
	struct ibv_mw *unbound = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	CHECK(unbound);
	bind.bind_info.mr = plain;
	RETURNS(ibv_bind_mw(victim, unbound, &bind), 0);
	RETURNS(next_wc(cq).status, IBV_WC_MW_BIND_ERR);
	CHECK(!ibv_dealloc_mw(unbound) && !ibv_destroy_qp(victim));
	/* A region with windows on it stays. */
	RETURNS(ibv_dereg_mr(mr), EBUSY);
	RETURNS(ibv_dealloc_pd(pd), EBUSY);
	CHECK(!ibv_dealloc_mw(one) && !ibv_dealloc_mw(two));
	CHECK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(plain) && !ibv_destroy_qp(qp) && !ibv_destroy_cq(cq));
}

static void device_memory(void)
{
	struct ibv_device_attr_ex limits;
	CHECK(!ibv_query_device_ex(context, NULL, &limits));
	struct ibv_alloc_dm_attr attr = { .length = 0 };
	NULL_WITH(ibv_alloc_dm(context, &attr), EINVAL);
	attr.length = limits.max_dm_size + 1;
	NULL_WITH(ibv_alloc_dm(context, &attr), ENOMEM);
	attr.length = 64, attr.comp_mask = 1;
	NULL_WITH(ibv_alloc_dm(context, &attr), EINVAL);
	attr.comp_mask = 0;
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr);
	CHECK(dm);
	RETURNS(ibv_memcpy_to_dm(dm, 61, bytes, 4), EINVAL);
	RETURNS(ibv_memcpy_to_dm(dm, 64, bytes, 4), EINVAL);
	RETURNS(ibv_memcpy_to_dm(dm, 60, bytes, 8), EINVAL);
	RETURNS(ibv_memcpy_from_dm(bytes, dm, UINT64_MAX - 3, 8), EINVAL);
	/* Nothing at all may be copied from nowhere. */
	RETURNS(ibv_memcpy_to_dm(dm, 0, NULL, 0), 0);
	RETURNS(ibv_memcpy_from_dm(NULL, dm, 64, 0), 0);
	RETURNS(ibv_memcpy_to_dm(dm, 0, NULL, 4), EINVAL);
	NULL_WITH(ibv_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	NULL_WITH(ibv_reg_dm_mr(pd, dm, 32, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED), EINVAL);
	NULL_WITH(ibv_reg_dm_mr(pd, dm, UINT64_MAX, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED), EINVAL);
	struct ibv_mr *mr = ibv_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
	CHECK(mr);
	RETURNS(ibv_free_dm(dm), EBUSY);
	CHECK(!ibv_dereg_mr(mr) && !ibv_free_dm(dm));
}

static void imports(void)
{
	CHECK(!ibv_import_device(-1));
	CHECK(!ibv_import_device(0));
	NULL_WITH(ibv_import_pd(context, 0xfffffff0), ENOENT);
	NULL_WITH(ibv_import_mr(pd, 0xfffffff0), ENOENT);
	NULL_WITH(ibv_import_dm(context, 0xfffffff0), ENOENT);
	/* Handles of another context mean nothing here. */
	NULL_WITH(ibv_import_pd(context, foreign->handle), ENOENT);
}

int main(void)
{
	context = open_first(), other = open_first();
	pd = ibv_alloc_pd(context), foreign = ibv_alloc_pd(other);
	CHECK(pd && foreign);
	regions();
	windows();
	device_memory();
	imports();
	CHECK(!ibv_dealloc_pd(pd) && !ibv_dealloc_pd(foreign));
	CHECK(!ibv_close_device(context) && !ibv_close_device(other));
	return verdict();
}
