/*
 * Objects of every kind: null and bad arguments, busy ones, wrong order, limits. The column "expected" has the results of
 * rdma-core, the kernel's uverbs and its rxe. Where drivers differ, docs/verbs.md has the result of this device.
 */
#include "table.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

static struct ibv_context *context, *other;
static struct ibv_pd *pd, *foreign_pd;
static struct ibv_cq *cq;
static struct ibv_device_attr limits;
static union ibv_gid gid;
static unsigned char bytes[4 * PAGE] __attribute__((aligned(PAGE)));

/* The header's macro picks the function by whether the flags are constant. */
static struct ibv_mr *reg(void *addr, size_t length, int access)
{
	return ibv_reg_mr(pd, addr, length, access);
}

static void *map(int rights)
{
	void *found = mmap(NULL, PAGE, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(found != MAP_FAILED);
	return found;
}

static struct ibv_qp *qp_of(enum ibv_qp_type type)
{
	struct ibv_qp *qp = make_qp(pd, cq, type);
	CHECK(qp);
	return qp;
}

static struct ibv_srq *srq_of(uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = max_wr, .max_sge = max_sge } };
	return ibv_create_srq(pd, &attr);
}

static void devices(void)
{
	struct ibv_device_attr attr;
	struct ibv_device_attr_ex extended;
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	struct ibv_values_ex values = { .comp_mask = 1 << 20 };
	MAKES(ibv_get_device_list, "no counter", 0, ibv_get_device_list(NULL));
	MAKES(ibv_open_device, "null", EINVAL, ibv_open_device(NULL));
	FAILS(ibv_close_device, "null", EINVAL, ibv_close_device(NULL));
	GIVES(ibv_query_device, "null", EINVAL, ibv_query_device(NULL, &attr));
	GIVES(ibv_query_device, "no room", EINVAL, ibv_query_device(context, NULL));
	GIVES(ibv_query_device, "good", 0, ibv_query_device(context, &attr));
	GIVES(ibv_query_device_ex, "unknown mask", EINVAL, ibv_query_device_ex(context, &input, &extended));
	input.comp_mask = 0;
	GIVES(ibv_query_device_ex, "good", 0, ibv_query_device_ex(context, &input, &extended));
	GIVES(ibv_query_device_ex, "no input", 0, ibv_query_device_ex(context, NULL, &extended));
	GIVES(ibv_query_rt_values_ex, "unknown mask", EINVAL, ibv_query_rt_values_ex(context, &values));
	values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	GIVES(ibv_query_rt_values_ex, "good", 0, ibv_query_rt_values_ex(context, &values));
	GIVES(ibv_query_rt_values_ex, "what it tells", IBV_VALUES_MASK_RAW_CLOCK, values.comp_mask);
}

static void ports(void)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry entry, entries[300];
	union ibv_gid found;
	__be16 pkey;
	GIVES(ibv_query_port, "good", 0, ibv_query_port(context, 1, &port));
	static const uint8_t BAD[] = { 0, 2, 3, 128, 255 };
	for (size_t i = 0; i < sizeof(BAD); i++) {
		uint8_t number = BAD[i];
		struct ibv_port_attr unused;
		GIVES(ibv_query_port, "bad port", EINVAL, ibv_query_port(context, number, &unused));
		GIVES(ibv_query_gid, "bad port", -1, ibv_query_gid(context, number, 0, &found));
		GIVES(ibv_query_gid_ex, "bad port", EINVAL, ibv_query_gid_ex(context, number, 0, &entry, 0));
		GIVES(ibv_query_pkey, "bad port", -1, ibv_query_pkey(context, number, 0, &pkey));
		GIVES(ibv_get_pkey_index, "bad port", -1, ibv_get_pkey_index(context, number, htobe16(0xffff)));
	}
	static const int INDEX[] = { -1, -100, INT32_MAX, INT32_MIN };
	for (size_t i = 0; i < sizeof(INDEX) / sizeof(*INDEX); i++) {
		GIVES(ibv_query_gid, "bad index", -1, ibv_query_gid(context, 1, INDEX[i], &found));
		GIVES(ibv_query_pkey, "bad index", -1, ibv_query_pkey(context, 1, INDEX[i], &pkey));
		GIVES(ibv_query_gid_ex, "bad index", EINVAL, ibv_query_gid_ex(context, 1, INDEX[i], &entry, 0));
	}
	GIVES(ibv_query_gid, "one beyond", -1, ibv_query_gid(context, 1, port.gid_tbl_len, &found));
	GIVES(ibv_query_pkey, "one beyond", -1, ibv_query_pkey(context, 1, port.pkey_tbl_len, &pkey));
	GIVES(ibv_query_pkey, "good", 0, ibv_query_pkey(context, 1, 0, &pkey));
	GIVES(ibv_query_pkey, "what it tells", htobe16(0xffff), pkey);
	GIVES(ibv_get_pkey_index, "none such", -1, ibv_get_pkey_index(context, 1, htobe16(7)));
	GIVES(ibv_query_gid_ex, "unknown flag", EINVAL, ibv_query_gid_ex(context, 1, 0, &entry, 2));
	GIVES(ibv_query_gid_ex, "empty entry", ENODATA, ibv_query_gid_ex(context, 1, port.gid_tbl_len - 1, &entry, 0));
	GIVES(ibv_query_gid_ex, "good", 0, ibv_query_gid_ex(context, 1, 0, &entry, 0));
	GIVES(ibv_query_gid_ex, "what it tells", IBV_GID_TYPE_ROCE_V2, entry.gid_type);
	GIVES(ibv_query_gid_table, "no room", -EINVAL, ibv_query_gid_table(context, entries, 0, 0));
	GIVES(ibv_query_gid_table, "unknown flag", -EINVAL, ibv_query_gid_table(context, entries, 300, 1));
	GIVES(ibv_query_gid_table, "good", 1, ibv_query_gid_table(context, entries, 300, 0) >= 1);
}

static void domains(void)
{
	GIVES(ibv_dealloc_pd, "null", EINVAL, ibv_dealloc_pd(NULL));
	MAKES(ibv_alloc_pd, "null", EINVAL, ibv_alloc_pd(NULL));
	struct ibv_pd *own = ibv_alloc_pd(context), *keep = pd;
	CHECK(own);
	pd = own;
	struct ibv_mr *mr = reg(bytes, PAGE, 0);
	GIVES(ibv_dealloc_pd, "with a region", EBUSY, ibv_dealloc_pd(own));
	CHECK(mr && !ibv_dereg_mr(mr));
	struct ibv_mw *mw = ibv_alloc_mw(own, IBV_MW_TYPE_1);
	GIVES(ibv_dealloc_pd, "with a window", EBUSY, ibv_dealloc_pd(own));
	CHECK(mw && !ibv_dealloc_mw(mw));
	struct ibv_srq *srq = srq_of(1, 1);
	GIVES(ibv_dealloc_pd, "with a shared receive queue", EBUSY, ibv_dealloc_pd(own));
	CHECK(srq && !ibv_destroy_srq(srq));
	static const enum ibv_qp_type TYPE[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	for (int i = 0; i < 3; i++) {
		struct ibv_qp *qp = qp_of(TYPE[i]);
		GIVES(ibv_dealloc_pd, "with a queue pair", EBUSY, ibv_dealloc_pd(own));
		GIVES(ibv_destroy_cq, "with a queue pair", EBUSY, ibv_destroy_cq(cq));
		CHECK(!ibv_destroy_qp(qp));
	}
	struct ibv_ah_attr ah_attr = ah_to(gid);
	struct ibv_ah *ah = ibv_create_ah(own, &ah_attr);
	GIVES(ibv_dealloc_pd, "with an address handle", EBUSY, ibv_dealloc_pd(own));
	CHECK(ah && !ibv_destroy_ah(ah));
	struct ibv_mr *null_mr = ibv_alloc_null_mr(own);
	GIVES(ibv_dealloc_pd, "with the null region", EBUSY, ibv_dealloc_pd(own));
	CHECK(null_mr && !ibv_dereg_mr(null_mr));
	struct ibv_alloc_dm_attr dm_attr = { .length = 64 };
	struct ibv_dm *dm = ibv_alloc_dm(context, &dm_attr);
	CHECK(dm);
	mr = ibv_reg_dm_mr(own, dm, 0, 64, IBV_ACCESS_ZERO_BASED);
	GIVES(ibv_dealloc_pd, "with device memory", EBUSY, ibv_dealloc_pd(own));
	GIVES(ibv_free_dm, "with a region", EBUSY, ibv_free_dm(dm));
	CHECK(mr && !ibv_dereg_mr(mr));
	GIVES(ibv_free_dm, "good", 0, ibv_free_dm(dm));
	GIVES(ibv_dealloc_pd, "good", 0, ibv_dealloc_pd(own));
	pd = keep;
}

static void completion_queues(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	CHECK(channel);
	MAKES(ibv_create_comp_channel, "null", EINVAL, ibv_create_comp_channel(NULL));
	GIVES(ibv_destroy_comp_channel, "null", EINVAL, ibv_destroy_comp_channel(NULL));
	MAKES(ibv_create_cq, "null", EINVAL, ibv_create_cq(NULL, 1, NULL, NULL, 0));
	static const int CQE[] = { 0, -1, INT32_MIN, INT32_MAX };
	for (int i = 0; i < 4; i++)
		MAKES(ibv_create_cq, "bad number of entries", EINVAL, ibv_create_cq(context, CQE[i], NULL, NULL, 0));
	MAKES(ibv_create_cq, "one beyond max_cqe", EINVAL, ibv_create_cq(context, limits.max_cqe + 1, NULL, NULL, 0));
	static const int VECTOR[] = { -1, INT32_MIN, INT32_MAX };
	for (int i = 0; i < 3; i++)
		MAKES(ibv_create_cq, "bad vector", EINVAL, ibv_create_cq(context, 1, NULL, NULL, VECTOR[i]));
	struct ibv_cq *own = ibv_create_cq(context, 4, NULL, channel, 0);
	CHECK(own);
	GIVES(ibv_destroy_comp_channel, "with a queue", EBUSY, ibv_destroy_comp_channel(channel));
	GIVES(ibv_destroy_cq, "null", EINVAL, ibv_destroy_cq(NULL));
	GIVES(ibv_resize_cq, "null", EINVAL, ibv_resize_cq(NULL, 8));
	GIVES(ibv_resize_cq, "0", EINVAL, ibv_resize_cq(own, 0));
	GIVES(ibv_resize_cq, "negative", EINVAL, ibv_resize_cq(own, -5));
	GIVES(ibv_resize_cq, "one beyond max_cqe", EINVAL, ibv_resize_cq(own, limits.max_cqe + 1));
	GIVES(ibv_resize_cq, "good", 0, ibv_resize_cq(own, 64));
	GIVES(ibv_resize_cq, "smaller", 0, ibv_resize_cq(own, 2));
	GIVES(ibv_req_notify_cq, "good", 0, ibv_req_notify_cq(own, 0));
	GIVES(ibv_req_notify_cq, "solicited", 0, ibv_req_notify_cq(own, 1));
	struct ibv_wc wc[4];
	GIVES(ibv_poll_cq, "nothing asked for", 0, ibv_poll_cq(own, 0, wc));
	GIVES(ibv_poll_cq, "empty", 0, ibv_poll_cq(own, 4, wc));
	GIVES(ibv_destroy_cq, "good", 0, ibv_destroy_cq(own));
	GIVES(ibv_destroy_comp_channel, "good", 0, ibv_destroy_comp_channel(channel));
	/* Three entries stay. */
	own = ibv_create_cq(context, 8, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(pd, own, IBV_QPT_RC);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_recv_wr wr = { 0 }, *bad;
	CHECK(own && qp && !to_init(qp));
	for (int i = 0; i < 3; i++)
		CHECK(!ibv_post_recv(qp, &wr, &bad));
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	GIVES(ibv_resize_cq, "smaller than what waits there", EINVAL, ibv_resize_cq(own, 2));
	GIVES(ibv_poll_cq, "more than there is room for", 3, ibv_poll_cq(own, 4, wc));
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(own));

	struct ibv_cq_init_attr_ex extended = { .cqe = 4 };
	struct { const char *what; int expected; uint64_t wc_flags; uint32_t mask, flags, cqe; } row[] = {
		{ "good", 0, IBV_WC_STANDARD_FLAGS, 0, 0, 4 },
		{ "unknown mask", EINVAL, 0, 1 << 15, 0, 4 },
		{ "unknown completion flag", EOPNOTSUPP, 1ull << 50, 0, 0, 4 },
		{ "unknown flag", EOPNOTSUPP, 0, IBV_CQ_INIT_ATTR_MASK_FLAGS, 1 << 15, 4 },
		{ "one thread", 0, 0, IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CREATE_CQ_ATTR_SINGLE_THREADED, 4 },
		{ "overrun ignored", EOPNOTSUPP, 0, IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN, 4 },
		{ "no entries", EINVAL, 0, 0, 0, 0 },
		{ "too many entries", EINVAL, 0, 0, 0, UINT32_MAX },
	};
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		extended.wc_flags = row[i].wc_flags, extended.comp_mask = row[i].mask;
		extended.flags = row[i].flags, extended.cqe = row[i].cqe;
		errno = 0;
		struct ibv_cq_ex *made = ibv_create_cq_ex(context, &extended);
		one_row(__LINE__, "ibv_create_cq_ex", row[i].what, made ? 0 : errno, row[i].expected);
		CHECK(!made || !ibv_destroy_cq(ibv_cq_ex_to_cq(made)));
	}
	struct ibv_modify_cq_attr change = { .attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = { 1, 1 } };
	GIVES(ibv_modify_cq, "moderation", 0, ibv_modify_cq(cq, &change));
	change.attr_mask = 1 << 20;
	GIVES(ibv_modify_cq, "unknown attribute", EINVAL, ibv_modify_cq(cq, &change));
}

static void regions(void)
{
	void *readable = map(PROT_READ), *nothing = map(PROT_NONE), *gone = map(PROT_READ);
	CHECK(!munmap(gone, PAGE));
	MAKES(ibv_reg_mr, "no domain", EINVAL, ibv_reg_mr_iova2(NULL, bytes, 8, (uintptr_t)bytes, 0));
	const int W = IBV_ACCESS_LOCAL_WRITE;
	struct { const char *what; int expected; void *addr; size_t len; int access; } row[] = {
		{ "good", 0, bytes, PAGE, W },
		{ "one byte", 0, bytes + 5, 1, W },
		{ "no bytes", 0, bytes, 0, W },
		{ "no bytes within a page", 0, bytes + 7, 0, W },
		{ "null", EFAULT, NULL, PAGE, W },
		{ "not mapped", EFAULT, gone, PAGE, W },
		{ "mapped in part", EFAULT, nothing, 2, 0 },
		{ "not readable", EFAULT, nothing, PAGE, 0 },
		{ "not writable", EFAULT, readable, PAGE, W },
		{ "not writable, to read", 0, readable, PAGE, 0 },
		{ "not writable, for peers to read", 0, readable, PAGE, IBV_ACCESS_REMOTE_READ },
		{ "around the end", EINVAL, (void *)(UINTPTR_MAX - 10), PAGE, W },
		{ "all addresses", EINVAL, bytes, SIZE_MAX, W },
		{ "remote write without local write", EINVAL, bytes, 8, IBV_ACCESS_REMOTE_WRITE },
		{ "remote atomics without local write", EINVAL, bytes, 8, IBV_ACCESS_REMOTE_ATOMIC },
		{ "remote write", 0, bytes, 8, W | IBV_ACCESS_REMOTE_WRITE },
		{ "remote atomics", 0, bytes, 8, W | IBV_ACCESS_REMOTE_ATOMIC },
		{ "windows", 0, bytes, 8, W | IBV_ACCESS_MW_BIND },
		{ "an unknown flag", EINVAL, bytes, 8, W | 1 << 15 },
		{ "another unknown flag", EINVAL, bytes, 8, 1 << 19 },
		{ "an unknown optional flag", 0, bytes, 8, W | 1 << 25 },
		{ "relaxed ordering", 0, bytes, 8, W | IBV_ACCESS_RELAXED_ORDERING },
	};
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		errno = 0;
		struct ibv_mr *mr = reg(row[i].addr, row[i].len, row[i].access);
		one_row(__LINE__, "ibv_reg_mr", row[i].what, mr ? 0 : errno, row[i].expected);
		CHECK(!mr || !ibv_dereg_mr(mr));
	}
	GIVES(ibv_dereg_mr, "null", EINVAL, ibv_dereg_mr(NULL));
	struct ibv_mr *mr = ibv_reg_mr_iova(pd, bytes, 8, 0x10000, W);
	GIVES(ibv_reg_mr_iova, "another address", 0, mr ? ibv_dereg_mr(mr) : errno);
	MAKES(ibv_reg_mr_iova, "another place in its page", EINVAL, ibv_reg_mr_iova(pd, bytes + 1, 8, 0x10000, W));
	MAKES(ibv_reg_mr_iova, "around the end", EINVAL, ibv_reg_mr_iova(pd, bytes, 2 * PAGE, UINT64_MAX - PAGE + 1, W));
	MAKES(ibv_reg_dmabuf_mr, "any", EOPNOTSUPP, ibv_reg_dmabuf_mr(pd, 0, 64, 0, 0, W));

	CHECK((mr = reg(bytes, PAGE, W)));
	GIVES(ibv_rereg_mr, "null", IBV_REREG_MR_ERR_INPUT, ibv_rereg_mr(NULL, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, W));
	struct { const char *what; int expected, flags; struct ibv_pd *pd; void *addr; size_t len; int access; } change[] = {
		{ "nothing", IBV_REREG_MR_ERR_INPUT, 0, NULL, NULL, 0, 0 },
		{ "an unknown flag", IBV_REREG_MR_ERR_INPUT, 1 << 5, NULL, NULL, 0, 0 },
		{ "no address", IBV_REREG_MR_ERR_INPUT, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, PAGE, 0 },
		{ "no bytes", IBV_REREG_MR_ERR_INPUT, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, bytes, 0, 0 },
		{ "no domain", IBV_REREG_MR_ERR_INPUT, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0 },
		{ "access", 0, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, W | IBV_ACCESS_REMOTE_READ },
		{ "place", 0, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, bytes + PAGE, PAGE, 0 },
		{ "domain", 0, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0 },
	};
	for (size_t i = 0; i < sizeof(change) / sizeof(*change); i++)
		one_row(__LINE__, "ibv_rereg_mr", change[i].what,
			ibv_rereg_mr(mr, change[i].flags, change[i].pd, change[i].addr, change[i].len, change[i].access),
			change[i].expected);
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!munmap(readable, PAGE) && !munmap(nothing, PAGE));
}

static void windows_and_device_memory(void)
{
	MAKES(ibv_alloc_mw, "no type", EINVAL, ibv_alloc_mw(pd, 0));
	MAKES(ibv_alloc_mw, "unknown type", EINVAL, ibv_alloc_mw(pd, 9));
	struct ibv_alloc_dm_attr attr = { .length = 0 };
	MAKES(ibv_alloc_dm, "no bytes", EINVAL, ibv_alloc_dm(context, &attr));
	attr.length = 64, attr.comp_mask = 1 << 3;
	MAKES(ibv_alloc_dm, "unknown mask", EINVAL, ibv_alloc_dm(context, &attr));
	attr.comp_mask = 0, attr.length = SIZE_MAX;
	MAKES(ibv_alloc_dm, "all there is", ENOMEM, ibv_alloc_dm(context, &attr));
	struct ibv_td_init_attr td_attr = { .comp_mask = 1 };
	MAKES(ibv_alloc_td, "unknown mask", EINVAL, ibv_alloc_td(context, &td_attr));
	struct ibv_parent_domain_init_attr parent = { .pd = NULL };
	MAKES(ibv_alloc_parent_domain, "no domain", EINVAL, ibv_alloc_parent_domain(context, &parent));
	parent.pd = pd, parent.comp_mask = 1 << 9;
	MAKES(ibv_alloc_parent_domain, "unknown mask", EINVAL, ibv_alloc_parent_domain(context, &parent));
}

static void queue_pairs(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	struct ibv_qp_init_attr told;
	GIVES(ibv_destroy_qp, "null", EINVAL, ibv_destroy_qp(NULL));
	GIVES(ibv_modify_qp, "null", EINVAL, ibv_modify_qp(NULL, &attr, IBV_QP_STATE));
	GIVES(ibv_query_qp, "null", EINVAL, ibv_query_qp(NULL, &attr, IBV_QP_STATE, &told));
	MAKES(ibv_create_qp, "no attributes", EINVAL, ibv_create_qp(pd, NULL));
	enum { TOO_MANY = 100000000 };
	struct { const char *what; int expected, type; struct ibv_cq *send, *recv; struct ibv_qp_cap cap; } row[] = {
		{ "RC", 0, IBV_QPT_RC, cq, cq, { 1, 1, 1, 1, 0 } },
		{ "UC", 0, IBV_QPT_UC, cq, cq, { 1, 1, 1, 1, 0 } },
		{ "UD", 0, IBV_QPT_UD, cq, cq, { 1, 1, 1, 1, 0 } },
		{ "no receives", 0, IBV_QPT_RC, cq, cq, { 1, 0, 1, 0, 0 } },
		{ "no sends", 0, IBV_QPT_RC, cq, cq, { 0, 1, 0, 1, 0 } },
		{ "no send queue's completions", EINVAL, IBV_QPT_RC, NULL, cq, { 1, 1, 1, 1, 0 } },
		{ "no receive queue's completions", EINVAL, IBV_QPT_RC, cq, NULL, { 1, 1, 1, 1, 0 } },
		{ "no type", EINVAL, 0, cq, cq, { 1, 1, 1, 1, 0 } },
		{ "type 1", EINVAL, 1, cq, cq, { 1, 1, 1, 1, 0 } },
		{ "type 5", EINVAL, 5, cq, cq, { 1, 1, 1, 1, 0 } },
		{ "type -1", EINVAL, -1, cq, cq, { 1, 1, 1, 1, 0 } },
		{ "raw packets", EOPNOTSUPP, IBV_QPT_RAW_PACKET, cq, cq, { 1, 1, 1, 1, 0 } },
		{ "a driver's own", EOPNOTSUPP, IBV_QPT_DRIVER, cq, cq, { 1, 1, 1, 1, 0 } },
		{ "max_send_wr", EINVAL, IBV_QPT_RC, cq, cq, { limits.max_qp_wr + 1, 1, 1, 1, 0 } },
		{ "max_recv_wr", EINVAL, IBV_QPT_RC, cq, cq, { 1, limits.max_qp_wr + 1, 1, 1, 0 } },
		{ "max_send_sge", EINVAL, IBV_QPT_RC, cq, cq, { 1, 1, limits.max_sge + 1, 1, 0 } },
		{ "max_recv_sge", EINVAL, IBV_QPT_RC, cq, cq, { 1, 1, 1, limits.max_sge + 1, 0 } },
		{ "max_inline_data", EINVAL, IBV_QPT_RC, cq, cq, { 1, 1, 1, 1, TOO_MANY } },
		{ "the most", 0, IBV_QPT_RC, cq, cq, { limits.max_qp_wr, limits.max_qp_wr, limits.max_sge, limits.max_sge, 0 } },
	};
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		struct ibv_qp_init_attr init = {
			.qp_type = row[i].type, .send_cq = row[i].send, .recv_cq = row[i].recv, .cap = row[i].cap,
		};
		errno = 0;
		struct ibv_qp *qp = ibv_create_qp(pd, &init);
		one_row(__LINE__, "ibv_create_qp", row[i].what, qp ? 0 : errno, row[i].expected);
		if (qp)
			GIVES(ibv_create_qp, "what it grants", 1, init.cap.max_send_wr >= row[i].cap.max_send_wr &&
			      init.cap.max_recv_wr >= row[i].cap.max_recv_wr && init.cap.max_send_sge >= row[i].cap.max_send_sge);
		CHECK(!qp || !ibv_destroy_qp(qp));
	}
	struct ibv_qp *qp = qp_of(IBV_QPT_RC);
	GIVES(ibv_query_qp, "no room", EINVAL, ibv_query_qp(qp, NULL, IBV_QP_STATE, &told));
	GIVES(ibv_modify_qp, "no attributes", EINVAL, ibv_modify_qp(qp, NULL, IBV_QP_STATE));
	GIVES(ibv_modify_qp, "empty mask", 0, ibv_modify_qp(qp, &attr, 0));
	struct ibv_qp_rate_limit_attr rate = { .rate_limit = 1 };
	GIVES(ibv_modify_qp_rate_limit, "any", EOPNOTSUPP, ibv_modify_qp_rate_limit(qp, &rate));
	struct ibv_ece ece = { 0 };
	GIVES(ibv_query_ece, "any", EOPNOTSUPP, ibv_query_ece(qp, &ece));
	GIVES(ibv_set_ece, "any", EOPNOTSUPP, ibv_set_ece(qp, &ece));
	MAKES(ibv_qp_to_qp_ex, "one without builders", -1, ibv_qp_to_qp_ex(qp));
	GIVES(ibv_destroy_qp, "good", 0, ibv_destroy_qp(qp));
}

static void shared_receive_queues(void)
{
	struct { const char *what; int expected; uint32_t wr, sge; } row[] = {
		{ "good", 0, 4, 1 }, { "no lists", 0, 4, 0 }, { "no requests", EINVAL, 0, 1 },
		{ "the most", 0, limits.max_srq_wr, 1 }, { "one beyond max_srq_wr", EINVAL, limits.max_srq_wr + 1, 1 },
		{ "max_srq_sge", 0, 1, limits.max_srq_sge }, { "one beyond max_srq_sge", EINVAL, 1, limits.max_srq_sge + 1 },
		{ "too many", EINVAL, UINT32_MAX, 1 },
	};
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		errno = 0;
		struct ibv_srq *srq = srq_of(row[i].wr, row[i].sge);
		one_row(__LINE__, "ibv_create_srq", row[i].what, srq ? 0 : errno, row[i].expected);
		CHECK(!srq || !ibv_destroy_srq(srq));
	}
	struct ibv_srq *srq = srq_of(8, 1);
	struct ibv_srq_attr attr = { .max_wr = 8, .srq_limit = 9 };
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };
	CHECK(srq);
	MAKES(ibv_create_srq, "no domain", EINVAL, ibv_create_srq(NULL, &init));
	MAKES(ibv_create_srq, "no attributes", EINVAL, ibv_create_srq(pd, NULL));
	GIVES(ibv_destroy_srq, "null", EINVAL, ibv_destroy_srq(NULL));
	GIVES(ibv_query_srq, "null", EINVAL, ibv_query_srq(NULL, &attr));
	GIVES(ibv_query_srq, "no room", EINVAL, ibv_query_srq(srq, NULL));
	GIVES(ibv_modify_srq, "null", EINVAL, ibv_modify_srq(NULL, &attr, IBV_SRQ_LIMIT));
	GIVES(ibv_modify_srq, "empty mask", 0, ibv_modify_srq(srq, &attr, 0));
	GIVES(ibv_modify_srq, "unknown attribute", EINVAL, ibv_modify_srq(srq, &attr, 1 << 7));
	GIVES(ibv_modify_srq, "a limit beyond what fits", EINVAL, ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	attr.srq_limit = 8;
	GIVES(ibv_modify_srq, "the highest limit", 0, ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	attr.max_wr = 4;
	GIVES(ibv_modify_srq, "fewer than the limit", EINVAL, ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
	attr.max_wr = limits.max_srq_wr + 1;
	GIVES(ibv_modify_srq, "one beyond max_srq_wr", EINVAL, ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
	struct ibv_recv_wr list[10], *bad = NULL;
	for (int i = 0; i < 10; i++)
		list[i] = (struct ibv_recv_wr){ .next = i < 9 ? &list[i + 1] : NULL };
	struct ibv_srq_attr now;
	CHECK(!ibv_query_srq(srq, &now));
	if (now.max_wr == 8) {
		GIVES(ibv_post_srq_recv, "no room", ENOMEM, ibv_post_srq_recv(srq, list, &bad));
		GIVES(ibv_post_srq_recv, "which one", 8, bad - list);
	}
	struct ibv_sge sge[2] = { { 0 } };
	struct ibv_recv_wr wide = { .sg_list = sge, .num_sge = limits.max_srq_sge + 1 };
	GIVES(ibv_post_srq_recv, "a list too long", EINVAL, ibv_post_srq_recv(srq, &wide, &bad));
	wide.num_sge = -1;
	GIVES(ibv_post_srq_recv, "a negative length", EINVAL, ibv_post_srq_recv(srq, &wide, &bad));
	for (int i = 0; i < 3; i++)
		list[i].next = i < 2 ? &list[i + 1] : NULL;
	attr.max_wr = 2, attr.srq_limit = 0;
	struct ibv_srq *used = srq_of(8, 1);
	CHECK(used && !ibv_post_srq_recv(used, list, &bad));
	GIVES(ibv_modify_srq, "fewer than what is posted", EINVAL, ibv_modify_srq(used, &attr, IBV_SRQ_MAX_WR));
	CHECK(!ibv_destroy_srq(used));
	uint32_t number;
	GIVES(ibv_get_srq_num, "not XRC", EOPNOTSUPP, ibv_get_srq_num(srq, &number));
	struct ibv_qp_init_attr with = { .qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .srq = srq, .cap = { 1, 0, 1, 0, 0 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &with);
	CHECK(qp);
	GIVES(ibv_destroy_srq, "with a queue pair", EBUSY, ibv_destroy_srq(srq));
	CHECK(!ibv_destroy_qp(qp));
	GIVES(ibv_destroy_srq, "good", 0, ibv_destroy_srq(srq));
}

static void addresses(void)
{
	struct { const char *what; int expected, port, sgid_index, is_global; } row[] = {
		{ "good", 0, 1, 0, 1 }, { "port 0", EINVAL, 0, 0, 1 }, { "port 2", EINVAL, 2, 0, 1 },
		{ "port 255", EINVAL, 255, 0, 1 }, { "no such GID", EINVAL, 1, 255, 1 }, { "no GID", EINVAL, 1, 0, 0 },
	};
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		struct ibv_ah_attr attr = ah_to(gid);
		attr.port_num = row[i].port, attr.grh.sgid_index = row[i].sgid_index, attr.is_global = row[i].is_global;
		errno = 0;
		struct ibv_ah *ah = ibv_create_ah(pd, &attr);
		one_row(__LINE__, "ibv_create_ah", row[i].what, ah ? 0 : errno, row[i].expected);
		CHECK(!ah || !ibv_destroy_ah(ah));
	}
	struct ibv_ah_attr attr = ah_to(gid);
	MAKES(ibv_create_ah, "no domain", EINVAL, ibv_create_ah(NULL, &attr));
	MAKES(ibv_create_ah, "no attributes", EINVAL, ibv_create_ah(pd, NULL));
	GIVES(ibv_destroy_ah, "null", EINVAL, ibv_destroy_ah(NULL));
	struct ibv_grh grh = { 0 };
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	MAKES(ibv_create_ah_from_wc, "port 0", EINVAL, ibv_create_ah_from_wc(pd, &wc, &grh, 0));
}

static void groups(void)
{
	struct ibv_qp *rc = qp_of(IBV_QPT_RC), *ud = qp_of(IBV_QPT_UD);
	union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, [12] = 239, [13] = 1, [14] = 2, [15] = 3 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 5 };
	CHECK(!ibv_modify_qp(ud, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	GIVES(ibv_attach_mcast, "null", EINVAL, ibv_attach_mcast(NULL, &group, 0));
	GIVES(ibv_attach_mcast, "no group", EINVAL, ibv_attach_mcast(ud, NULL, 0));
	GIVES(ibv_attach_mcast, "RC", EINVAL, ibv_attach_mcast(rc, &group, 0));
	GIVES(ibv_attach_mcast, "an address of one host", EINVAL, ibv_attach_mcast(ud, &gid, 0));
	GIVES(ibv_detach_mcast, "not attached", EINVAL, ibv_detach_mcast(ud, &group, 0));
	GIVES(ibv_attach_mcast, "good", 0, ibv_attach_mcast(ud, &group, 0));
	GIVES(ibv_attach_mcast, "twice", 0, ibv_attach_mcast(ud, &group, 0));
	GIVES(ibv_destroy_qp, "attached", EBUSY, ibv_destroy_qp(ud));
	GIVES(ibv_detach_mcast, "good", 0, ibv_detach_mcast(ud, &group, 0));
	GIVES(ibv_detach_mcast, "twice", EINVAL, ibv_detach_mcast(ud, &group, 0));
	CHECK(!ibv_destroy_qp(ud) && !ibv_destroy_qp(rc));
}

static void refused(void)
{
	struct ibv_wq_init_attr wq = { .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq };
	struct ibv_rwq_ind_table_init_attr table = { 0 };
	struct ibv_flow_attr flow = { .size = sizeof(flow) };
	struct ibv_counters_init_attr counters = { 0 };
	struct ibv_qp *qp = qp_of(IBV_QPT_UD);
	MAKES(ibv_create_wq, "any", EOPNOTSUPP, ibv_create_wq(context, &wq));
	MAKES(ibv_create_rwq_ind_table, "any", EOPNOTSUPP, ibv_create_rwq_ind_table(context, &table));
	MAKES(ibv_create_flow, "any", EOPNOTSUPP, ibv_create_flow(qp, &flow));
	MAKES(ibv_create_counters, "any", EOPNOTSUPP, ibv_create_counters(context, &counters));
	CHECK(!ibv_destroy_qp(qp));
	struct ibv_srq_init_attr_ex tags = {
		.attr = { 4, 1, 0 }, .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_TM, .pd = pd, .cq = cq,
	};
	MAKES(ibv_create_srq_ex, "tag matching", EOPNOTSUPP, ibv_create_srq_ex(context, &tags));
}

int main(void)
{
	CHECK((context = open_first()) && (other = open_first()) && !ibv_query_device(context, &limits));
	CHECK((pd = ibv_alloc_pd(context)) && (foreign_pd = ibv_alloc_pd(other)));
	CHECK((cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	gid = first_gid(context);
	devices();
	ports();
	domains();
	completion_queues();
	regions();
	windows_and_device_memory();
	queue_pairs();
	shared_receive_queues();
	addresses();
	groups();
	refused();
	GIVES(ibv_destroy_cq, "good", 0, ibv_destroy_cq(cq));
	GIVES(ibv_dealloc_pd, "good", 0, ibv_dealloc_pd(pd));
	GIVES(ibv_dealloc_pd, "of another context", 0, ibv_dealloc_pd(foreign_pd));
	FAILS(ibv_close_device, "null again", EINVAL, ibv_close_device(NULL));
	GIVES(ibv_close_device, "good", 0, ibv_close_device(context));
	GIVES(ibv_close_device, "good", 0, ibv_close_device(other));
	return verdict(200);
}
