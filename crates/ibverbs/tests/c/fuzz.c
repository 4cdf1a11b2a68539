/*
 * Random calls with random arguments on live objects: fuzz FROM TO runs the seeds from FROM up to
 * and without TO. Nothing may crash or hang, every result must be one of the man pages, and
 * at the end everything can be destroyed. No pointer is to freed memory: C forbids it.
 */
#include "check.h"
#include <fcntl.h>

enum { SLOTS = 6, CALLS = 600, BYTES = 1 << 16 };

static unsigned long long seed, state;
static unsigned call;

#define SAY(condition) CHECK(condition, "seed %llu call %u", seed, call)

static unsigned pick(unsigned below)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(state >> 33) % below;
}

/* Mostly small, now and then at an edge. */
static uint32_t number(void)
{
	static const uint32_t edges[] = { 0, 1, 2, 255, 256, 65535, 0x7fffffff, 0x80000000, 0xffffffff };
	return pick(8) ? 1 + pick(16) : edges[pick(9)];
}

static uint32_t flags(void)
{
	return pick(6) ? pick(16) : 1u << pick(32);
}

static struct ibv_context *context;
static union ibv_gid gid;
static unsigned char *bytes;

static struct ibv_pd *pds[SLOTS];
static struct ibv_cq *cqs[SLOTS];
static int cq_is_extended[SLOTS];
static struct ibv_comp_channel *channels[SLOTS];
static struct ibv_qp *qps[SLOTS];
static struct ibv_srq *srqs[SLOTS];
static struct ibv_mr *mrs[SLOTS];
static struct ibv_mw *mws[SLOTS];
static struct ibv_dm *dms[SLOTS];
static struct ibv_ah *ahs[SLOTS];
static struct ibv_xrcd *xrcds[SLOTS];
static struct ibv_td *tds[SLOTS];

#define ANY(kind) (kind[pick(SLOTS)])

/* An answer that is zero or an errno that verbs give. */
static int known(int error)
{
	switch (error) {
	case 0: case EINVAL: case ENOMEM: case EBUSY: case EOPNOTSUPP: case EAGAIN: case EPERM: case EFAULT:
	case ENOENT: case EBADF: case EEXIST: case ENOSPC: case EMSGSIZE: case ENETUNREACH: case EHOSTUNREACH:
		return 1;
	default:
		return 0;
	}
}

#define ANSWER(expression)                                     \
	do {                                                   \
		int answer = (expression);                     \
		CHECK(known(answer), "answer %d, seed %llu call %u", answer, seed, call); \
	} while (0)

/* Makes an object in a free place. */
#define MAKE(kind, expression)                                 \
	do {                                                   \
		unsigned i = pick(SLOTS);                      \
		if (kind[i])                                   \
			break;                                 \
		errno = 0;                                     \
		kind[i] = (expression);                        \
		SAY(kind[i] || (errno && known(errno)));       \
	} while (0)

/* Destroys an object; if it is in use it stays. */
#define END(kind, function)                                    \
	do {                                                   \
		unsigned i = pick(SLOTS);                      \
		if (!kind[i])                                  \
			break;                                 \
		int answer = function(kind[i]);                \
		CHECK(!answer || answer == EBUSY, "answer %d, seed %llu call %u", answer, seed, call); \
		if (!answer)                                   \
			kind[i] = NULL;                        \
	} while (0)

static struct ibv_ah_attr address(void)
{
	struct ibv_ah_attr attr = ah_to(gid);
	if (!pick(4))
		attr.port_num = number();
	if (!pick(4))
		attr.grh.sgid_index = number();
	if (!pick(4))
		attr.is_global = 0, attr.dlid = number();
	if (!pick(4))
		attr.grh.dgid.raw[pick(16)] ^= number();
	return attr;
}

static struct ibv_qp_cap capacity(void)
{
	struct ibv_qp_cap cap = { number(), number(), 1 + pick(3), 1 + pick(3), pick(64) };
	if (!pick(6))
		cap.max_send_sge = number();
	if (!pick(6))
		cap.max_inline_data = number();
	/* A queue of as many as there may be is large. */
	if (cap.max_send_wr > 70000 && pick(8))
		cap.max_send_wr = 8;
	return cap;
}

static struct ibv_qp *new_qp(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = ANY(cqs), .recv_cq = ANY(cqs), .srq = pick(3) ? NULL : ANY(srqs), .cap = capacity(),
		.qp_type = pick(8) ? (enum ibv_qp_type)(2 + pick(9)) : (enum ibv_qp_type)number(), .sq_sig_all = pick(2),
		.pd = ANY(pds), .xrcd = ANY(xrcds),
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
			     (pick(2) ? IBV_QP_INIT_ATTR_XRCD : 0) | (pick(8) ? 0 : flags()),
		.send_ops_flags = pick(4) ? IBV_QP_EX_WITH_SEND : flags(),
	};
	if (pick(2))
		return ibv_create_qp_ex(context, &attr);
	return ibv_create_qp(attr.pd, (struct ibv_qp_init_attr *)&attr);
}

static struct ibv_srq *new_srq(void)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { number() % 70000, 1 + pick(3), number() }, .pd = ANY(pds), .xrcd = ANY(xrcds), .cq = ANY(cqs),
		.srq_type = pick(8) ? (enum ibv_srq_type)pick(2) : (enum ibv_srq_type)number(),
		.comp_mask = pick(4) ? 15 : flags(),
	};
	if (pick(2))
		return ibv_create_srq_ex(context, &attr);
	return ibv_create_srq(attr.pd, (struct ibv_srq_init_attr *)&attr);
}

static void new_cq(void)
{
	unsigned i = pick(SLOTS);
	if (cqs[i])
		return;
	struct ibv_cq_init_attr_ex attr = {
		.cqe = number() % 70000, .channel = pick(2) ? ANY(channels) : NULL, .comp_vector = pick(8) ? 0 : number(),
		.wc_flags = pick(4) ? IBV_WC_STANDARD_FLAGS : flags(), .comp_mask = pick(4) ? 0 : flags(), .flags = flags(),
	};
	cq_is_extended[i] = pick(2);
	errno = 0;
	if (cq_is_extended[i]) {
		struct ibv_cq_ex *extended = ibv_create_cq_ex(context, &attr);
		cqs[i] = extended ? ibv_cq_ex_to_cq(extended) : NULL;
	} else {
		cqs[i] = ibv_create_cq(context, attr.cqe, NULL, attr.channel, attr.comp_vector);
	}
	SAY(cqs[i] || (errno && known(errno)));
}

static void modify(void)
{
	struct ibv_qp *qp = ANY(qps), *peer = ANY(qps);
	if (!qp)
		return;
	uint32_t dest = peer ? peer->qp_num : number();
	if (pick(3)) {
		/* A step that should do, if it is the next. */
		switch (pick(5)) {
		case 0: ANSWER(to_init(qp)); return;
		case 1: ANSWER(to_rtr(qp, dest, gid)); return;
		case 2: ANSWER(to_rts(qp)); return;
		case 3:
			if (!to_init(qp) && !to_rtr(qp, dest, gid))
				ANSWER(to_rts(qp));
			return;
		}
	}
	struct ibv_qp_attr attr;
	for (size_t i = 0; i < sizeof(attr); i++)
		((unsigned char *)&attr)[i] = pick(3) ? 0 : number();
	attr.qp_state = (enum ibv_qp_state)pick(8);
	attr.ah_attr = address();
	attr.port_num = pick(4) ? 1 : number();
	attr.qkey = 5;
	int mask = pick(2) ? IBV_QP_STATE : IBV_QP_STATE | (int)(state >> 40);
	if (qp->qp_type == IBV_QPT_UD)
		mask = IBV_QP_STATE | (attr.qp_state == IBV_QPS_INIT ? IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY :
				       attr.qp_state == IBV_QPS_RTS  ? IBV_QP_SQ_PSN : 0);
	ANSWER(ibv_modify_qp(qp, &attr, mask));
}

static struct ibv_sge piece(void)
{
	struct ibv_mr *mr = ANY(mrs);
	struct ibv_sge sge = { (uintptr_t)bytes + pick(BYTES), pick(4) ? pick(3000) : number(), mr ? mr->lkey : number() };
	return sge;
}

static void post_send(void)
{
	struct ibv_qp *qp = ANY(qps);
	if (!qp)
		return;
	struct ibv_send_wr wrs[4] = { 0 }, *bad = NULL;
	struct ibv_sge sges[4][3];
	unsigned count = 1 + pick(4);
	for (unsigned i = 0; i < count; i++) {
		struct ibv_mr *mr = ANY(mrs);
		struct ibv_send_wr *wr = &wrs[i];
		for (int j = 0; j < 3; j++)
			sges[i][j] = piece();
		*wr = (struct ibv_send_wr){
			.wr_id = call, .next = i + 1 < count ? &wrs[i + 1] : NULL, .sg_list = sges[i], .num_sge = pick(4),
			.opcode = pick(8) ? (enum ibv_wr_opcode)pick(12) : (enum ibv_wr_opcode)number(),
			.send_flags = pick(8) ? pick(8) : flags(), .imm_data = mr ? mr->rkey : number(),
		};
		if (!pick(8))
			wr->num_sge = -1;
		/* Inline bytes are read during the call, so they must be readable. */
		if (wr->send_flags & IBV_SEND_INLINE)
			for (int j = 0; j < 3; j++)
				sges[i][j] = (struct ibv_sge){ (uintptr_t)bytes, pick(40), 0 };
		if (wr->opcode == IBV_WR_BIND_MW) {
			wr->bind_mw.mw = ANY(mws);
			wr->bind_mw.rkey = wr->bind_mw.mw ? ibv_inc_rkey(wr->bind_mw.mw->rkey) : number();
			wr->bind_mw.bind_info = (struct ibv_mw_bind_info){ mr, (uintptr_t)bytes, number(), flags() };
		}
		if (qp->qp_type == IBV_QPT_UD) {
			wr->wr.ud.ah = ANY(ahs);
			wr->wr.ud.remote_qpn = ANY(qps) ? qp->qp_num : number();
			wr->wr.ud.remote_qkey = 5;
		} else {
			wr->wr.atomic.remote_addr = (uintptr_t)bytes + (pick(BYTES) & ~7u);
			wr->wr.atomic.compare_add = number();
			wr->wr.atomic.swap = number();
			wr->wr.atomic.rkey = mr ? mr->rkey : number();
			if (wr->opcode < IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode > IBV_WR_ATOMIC_FETCH_AND_ADD)
				wr->wr.rdma.rkey = mr ? mr->rkey : number();
		}
		wr->qp_type.xrc.remote_srqn = number();
	}
	int answer = ibv_post_send(qp, wrs, &bad);
	ANSWER(answer);
	SAY(!answer || (bad >= wrs && bad < wrs + count));
}

static void post_recv(void)
{
	struct ibv_qp *qp = ANY(qps);
	struct ibv_srq *srq = ANY(srqs);
	struct ibv_sge sges[3] = { piece(), piece(), piece() };
	struct ibv_recv_wr second = { .wr_id = call, .sg_list = sges, .num_sge = pick(4) }, *bad = NULL;
	struct ibv_recv_wr wr = { .wr_id = call, .next = pick(2) ? &second : NULL, .sg_list = sges, .num_sge = pick(5) - 1 };
	if (wr.num_sge > 3)
		wr.num_sge = 3;
	int answer = 0;
	if (qp && pick(2))
		answer = ibv_post_recv(qp, &wr, &bad);
	else if (srq)
		answer = ibv_post_srq_recv(srq, &wr, &bad);
	ANSWER(answer);
	SAY(!answer || bad == &wr || bad == &second);
}

static void build(void)
{
	struct ibv_qp *qp = ANY(qps);
	struct ibv_qp_ex *ex = qp ? ibv_qp_to_qp_ex(qp) : NULL;
	if (!ex)
		return;
	ibv_wr_start(ex);
	for (unsigned count = pick(5); count; count--) {
		struct ibv_mr *mr = ANY(mrs);
		struct ibv_sge sges[3] = { piece(), piece(), piece() };
		struct ibv_data_buf bufs[2] = { { bytes, pick(40) }, { bytes, pick(40) } };
		uint32_t rkey = mr ? mr->rkey : number();
		uint64_t to = (uintptr_t)bytes + (pick(BYTES) & ~7u);
		struct ibv_mw_bind_info info = { mr, (uintptr_t)bytes, number(), flags() };
		ex->wr_id = call, ex->wr_flags = pick(8) ? pick(8) : flags();
		switch (pick(12)) {
		case 0: ibv_wr_send(ex); break;
		case 1: ibv_wr_send_imm(ex, number()); break;
		case 2: ibv_wr_send_inv(ex, rkey); break;
		case 3: ibv_wr_rdma_write(ex, rkey, to); break;
		case 4: ibv_wr_rdma_write_imm(ex, rkey, to, number()); break;
		case 5: ibv_wr_rdma_read(ex, rkey, to); break;
		case 6: ibv_wr_atomic_cmp_swp(ex, rkey, to, number(), number()); break;
		case 7: ibv_wr_atomic_fetch_add(ex, rkey, to, number()); break;
		case 8: ibv_wr_local_inv(ex, rkey); break;
		case 9: ibv_wr_bind_mw(ex, ANY(mws), number(), &info); break;
		case 10: ibv_wr_atomic_write(ex, rkey, to, bytes); break;
		case 11: ibv_wr_send_tso(ex, bytes, 8, 100); break;
		}
		switch (pick(7)) {
		case 0: case 1: ibv_wr_set_sge(ex, sges[0].lkey, sges[0].addr, sges[0].length); break;
		case 2: ibv_wr_set_sge_list(ex, pick(4), sges); break;
		case 3: ibv_wr_set_inline_data(ex, bytes, pick(100)); break;
		case 4: ibv_wr_set_inline_data_list(ex, pick(3), bufs); break;
		case 5: ibv_wr_set_ud_addr(ex, ANY(ahs), qp->qp_num, 5); break;
		case 6: ibv_wr_set_xrc_srqn(ex, number()); break;
		}
	}
	if (pick(5))
		ANSWER(ibv_wr_complete(ex));
	else
		ibv_wr_abort(ex);
}

/* A queue that has overrun answers EIO from then on. */
static void poll_some(void)
{
	unsigned i = pick(SLOTS);
	if (!cqs[i])
		return;
	if (!cq_is_extended[i] || pick(2)) {
		struct ibv_wc wc[8];
		int found = ibv_poll_cq(cqs[i], pick(9), wc);
		SAY(found == -EIO || (found >= 0 && found <= 8));
		for (int j = 0; j < found; j++)
			SAY(wc[j].status <= IBV_WC_TM_RNDV_INCOMPLETE);
		return;
	}
	struct ibv_cq_ex *cq = (struct ibv_cq_ex *)cqs[i];
	struct ibv_poll_cq_attr attr = { .comp_mask = pick(8) ? 0 : number() };
	int answer = ibv_start_poll(cq, &attr);
	if (answer != EIO)
		ANSWER(answer);
	if (answer)
		return;
	do {
		SAY(cq->status <= IBV_WC_TM_RNDV_INCOMPLETE);
		(void)(ibv_wc_read_opcode(cq) + ibv_wc_read_byte_len(cq) + ibv_wc_read_imm_data(cq) + ibv_wc_read_qp_num(cq) +
		       ibv_wc_read_src_qp(cq) + ibv_wc_read_wc_flags(cq) + ibv_wc_read_slid(cq) + ibv_wc_read_vendor_err(cq));
	} while (pick(4) && !ibv_next_poll(cq));
	ibv_end_poll(cq);
}

static void import(void)
{
	struct ibv_pd *pd = ANY(pds);
	struct ibv_mr *mr = ANY(mrs);
	struct ibv_dm *dm = ANY(dms);
	int fd = dup(context->cmd_fd);
	struct ibv_context *second = ibv_import_device(fd);
	SAY(second);
	struct ibv_pd *its = ibv_import_pd(second, pd ? pd->handle : number());
	SAY(its || !pd);
	if (its) {
		struct ibv_mr *same = ibv_import_mr(its, mr ? mr->handle : number());
		if (same)
			ibv_unimport_mr(same);
		ibv_unimport_pd(its);
	}
	struct ibv_dm *memory = ibv_import_dm(second, dm ? dm->handle : number());
	SAY(memory || !dm);
	if (memory)
		ibv_unimport_dm(memory);
	SAY(!ibv_close_device(second));
}

static void memory(void)
{
	struct ibv_dm *dm = ANY(dms);
	struct ibv_mr *mr = ANY(mrs);
	struct ibv_pd *pd = ANY(pds);
	switch (pick(5)) {
	case 0:
		if (dm)
			ANSWER(ibv_memcpy_to_dm(dm, number(), bytes, pick(300)));
		break;
	case 1:
		if (dm)
			ANSWER(ibv_memcpy_from_dm(bytes, dm, number(), pick(300)));
		break;
	case 2:
		if (mr) {
			int answer = ibv_rereg_mr(mr, flags(), pd, bytes, pick(BYTES), flags());
			SAY(answer <= 0 && answer >= IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW);
		}
		break;
	case 3:
		if (pd) {
			struct ibv_sge sge = piece();
			ANSWER(ibv_advise_mr(pd, (enum ibv_advise_mr_advice)pick(4), pick(3), &sge, pick(2)));
		}
		break;
	case 4: {
		struct ibv_mw *mw = ANY(mws);
		struct ibv_qp *qp = ANY(qps);
		struct ibv_mw_bind bind = {
			.wr_id = call, .send_flags = flags(), .bind_info = { mr, (uintptr_t)bytes, number(), flags() },
		};
		if (mw && qp)
			ANSWER(ibv_bind_mw(qp, mw, &bind));
		break;
	}
	}
}

static void query(void)
{
	struct ibv_qp *qp = ANY(qps);
	struct ibv_srq *srq = ANY(srqs);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_port_attr port;
	uint32_t srqn;
	ANSWER(ibv_query_port(context, number(), &port));
	if (qp)
		ANSWER(ibv_query_qp(qp, &attr, flags(), &init));
	if (srq) {
		struct ibv_srq_attr change = { number() % 70000, number(), number() };
		ANSWER(ibv_modify_srq(srq, &change, flags()));
		ANSWER(ibv_query_srq(srq, &change));
		ANSWER(ibv_get_srq_num(srq, &srqn));
	}
}

static void events(void)
{
	struct ibv_async_event event;
	while (!ibv_get_async_event(context, &event))
		ibv_ack_async_event(&event);
	SAY(errno == EAGAIN);
	struct ibv_comp_channel *channel = ANY(channels);
	struct ibv_cq *cq = ANY(cqs);
	void *cookie;
	int answer = cq ? ibv_req_notify_cq(cq, pick(2)) : 0;
	if (answer != EIO)
		ANSWER(answer);
	if (channel && !ibv_get_cq_event(channel, &cq, &cookie))
		ibv_ack_cq_events(cq, 1);
}

static struct ibv_comp_channel *new_channel(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	if (channel)
		SAY(!fcntl(channel->fd, F_SETFL, O_NONBLOCK));
	return channel;
}

static struct ibv_mr *new_mr(void)
{
	int access = pick(3) ? ALL_ACCESS | IBV_ACCESS_MW_BIND : (int)flags();
	size_t start = pick(BYTES), length = pick(BYTES - start);
	struct ibv_pd *pd = ANY(pds);
	if (!pd)
		return errno = EINVAL, NULL;
	switch (pick(4)) {
	case 0: return ibv_alloc_null_mr(pd);
	case 1: {
		struct ibv_dm *dm = ANY(dms);
		return dm ? ibv_reg_dm_mr(pd, dm, number(), number(), access | IBV_ACCESS_ZERO_BASED) : (errno = EINVAL, NULL);
	}
	case 2: return ibv_reg_mr_iova(pd, bytes + start, length, number(), access);
	default: return ibv_reg_mr(pd, bytes + start, length, access);
	}
}

static struct ibv_pd *new_pd(void)
{
	struct ibv_parent_domain_init_attr attr = { .pd = ANY(pds), .td = ANY(tds), .comp_mask = pick(4) ? 0 : flags() };
	return pick(3) ? ibv_alloc_pd(context) : ibv_alloc_parent_domain(context, &attr);
}

static void step(void)
{
	struct ibv_ah_attr ah = address();
	struct ibv_alloc_dm_attr dm = { number() % (1 << 20), pick(14), pick(8) ? 0 : flags() };
	struct ibv_xrcd_init_attr xrcd = { pick(8) ? 3 : flags(), -1, pick(4) ? O_CREAT : (int)flags() };
	struct ibv_td_init_attr td = { pick(8) ? 0 : flags() };
	struct ibv_pd *pd = ANY(pds);
	switch (pick(40)) {
	case 0: MAKE(pds, new_pd()); break;
	case 1: new_cq(); break;
	case 2: MAKE(channels, new_channel()); break;
	case 3: case 4: case 5: MAKE(qps, new_qp()); break;
	case 6: MAKE(srqs, new_srq()); break;
	case 7: MAKE(mrs, new_mr()); break;
	case 8: if (pd) MAKE(mws, ibv_alloc_mw(pd, (enum ibv_mw_type)pick(4))); break;
	case 9: MAKE(dms, ibv_alloc_dm(context, &dm)); break;
	case 10: if (pd) MAKE(ahs, ibv_create_ah(pd, &ah)); break;
	case 11: MAKE(xrcds, ibv_open_xrcd(context, &xrcd)); break;
	case 12: MAKE(tds, ibv_alloc_td(context, &td)); break;
	case 13: END(pds, ibv_dealloc_pd); break;
	case 14: END(cqs, ibv_destroy_cq); break;
	case 15: END(channels, ibv_destroy_comp_channel); break;
	case 16: END(qps, ibv_destroy_qp); break;
	case 17: END(srqs, ibv_destroy_srq); break;
	case 18: END(mrs, ibv_dereg_mr); break;
	case 19: END(mws, ibv_dealloc_mw); break;
	case 20: END(dms, ibv_free_dm); break;
	case 21: END(ahs, ibv_destroy_ah); break;
	case 22: END(xrcds, ibv_close_xrcd); break;
	case 23: END(tds, ibv_dealloc_td); break;
	case 24: case 25: case 26: case 27: modify(); break;
	case 28: case 29: case 30: post_send(); break;
	case 31: post_recv(); break;
	case 32: case 33: build(); break;
	case 34: case 35: poll_some(); break;
	case 36: memory(); break;
	case 37: query(); break;
	case 38: events(); break;
	case 39: if (!pick(8)) import(); break;
	}
}

#define END_ALL(kind, function)                                \
	for (int i = 0; i < SLOTS; i++)                        \
		if (kind[i]) {                                 \
			int answer = function(kind[i]);        \
			CHECK(!answer, #function " answers %d at the end of seed %llu", answer, seed); \
			kind[i] = NULL;                        \
		}

static void run(void)
{
	state = seed * 0x9e3779b97f4a7c15ull + 1;
	context = open_first();
	gid = first_gid(context);
	CHECK(!fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK));
	pds[0] = ibv_alloc_pd(context);
	cqs[0] = ibv_create_cq(context, 64, NULL, NULL, 0);
	cq_is_extended[0] = 0;
	SAY(pds[0] && cqs[0]);
	mrs[0] = ibv_reg_mr(pds[0], bytes, BYTES, ALL_ACCESS | IBV_ACCESS_MW_BIND);
	qps[0] = make_qp(pds[0], cqs[0], IBV_QPT_RC);
	qps[1] = make_qp(pds[0], cqs[0], IBV_QPT_UD);
	SAY(mrs[0] && qps[0] && qps[1]);
	for (call = 0; call < CALLS; call++)
		step();
	events();
	END_ALL(qps, ibv_destroy_qp);
	END_ALL(srqs, ibv_destroy_srq);
	END_ALL(ahs, ibv_destroy_ah);
	END_ALL(mws, ibv_dealloc_mw);
	END_ALL(mrs, ibv_dereg_mr);
	END_ALL(dms, ibv_free_dm);
	END_ALL(xrcds, ibv_close_xrcd);
	END_ALL(cqs, ibv_destroy_cq);
	END_ALL(channels, ibv_destroy_comp_channel);
	/* Parent domains before their base domains. */
	for (int round = 0; round < SLOTS; round++)
		for (int i = 0; i < SLOTS; i++)
			if (pds[i] && !ibv_dealloc_pd(pds[i]))
				pds[i] = NULL;
	END_ALL(pds, ibv_dealloc_pd);
	END_ALL(tds, ibv_dealloc_td);
	SAY(!ibv_close_device(context));
}

int main(int argc, char **argv)
{
	CHECK(argc == 3, "fuzz FROM TO");
	unsigned long long to = strtoull(argv[2], NULL, 10);
	bytes = calloc(1, 2 * BYTES);
	for (seed = strtoull(argv[1], NULL, 10); seed < to; seed++) {
		/* The last line names the seed, also of a run that hangs and is killed. */
		printf("seed %llu\n", seed);
		fflush(stdout);
		alarm(30);
		run();
	}
	return 0;
}
