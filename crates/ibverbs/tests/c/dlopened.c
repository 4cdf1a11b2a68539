/* Loads the library as NCCL does, by dlopen and dlvsym, and sends one ping and its answer over RC. */
#include "check.h"
#include <dlfcn.h>

static void *library;

static void *find(const char *name, const char *version)
{
	void *symbol = dlvsym(library, name, version);
	CHECK(symbol, "%s@%s", name, version);
	return symbol;
}

#define FIND(name, version) __typeof__(&name) p_##name = (__typeof__(&name))find(#name, version)
#undef ibv_reg_mr

int main(void)
{
	library = dlopen("libibverbs.so", RTLD_NOW);
	CHECK(library, "%s", dlerror());
	FIND(ibv_get_device_list, "IBVERBS_1.1");
	FIND(ibv_free_device_list, "IBVERBS_1.1");
	FIND(ibv_open_device, "IBVERBS_1.1");
	FIND(ibv_close_device, "IBVERBS_1.1");
	FIND(ibv_query_gid, "IBVERBS_1.1");
	FIND(ibv_alloc_pd, "IBVERBS_1.1");
	FIND(ibv_dealloc_pd, "IBVERBS_1.1");
	FIND(ibv_reg_mr_iova2, "IBVERBS_1.8");
	FIND(ibv_reg_dmabuf_mr, "IBVERBS_1.12");
	FIND(ibv_dereg_mr, "IBVERBS_1.1");
	FIND(ibv_create_cq, "IBVERBS_1.1");
	FIND(ibv_destroy_cq, "IBVERBS_1.1");
	FIND(ibv_create_qp, "IBVERBS_1.1");
	FIND(ibv_modify_qp, "IBVERBS_1.1");
	FIND(ibv_destroy_qp, "IBVERBS_1.1");

	int count = 0;
	struct ibv_device **list = p_ibv_get_device_list(&count);
	CHECK(list && count > 0);
	struct ibv_context *context = p_ibv_open_device(list[0]);
	CHECK(context);
	p_ibv_free_device_list(list);
	union ibv_gid gid;
	CHECK(!p_ibv_query_gid(context, 1, 0, &gid));
	struct ibv_pd *pd = p_ibv_alloc_pd(context);
	struct ibv_cq *cq = p_ibv_create_cq(context, 64, NULL, NULL, 0);
	CHECK(pd && cq);
	static char bytes[2][4096];
	struct ibv_mr *mr = p_ibv_reg_mr_iova2(pd, bytes, sizeof(bytes), (uintptr_t)bytes, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr);
	/* The device has no memory of other devices, and refuses it with the documented error. */
	errno = 0;
	CHECK(!p_ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, 0) && (errno == EOPNOTSUPP || errno == EBADF || errno == EINVAL));

	struct ibv_qp *qp[2];
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
			.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		};
		qp[i] = p_ibv_create_qp(pd, &attr);
		CHECK(qp[i]);
	}
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
		struct ibv_qp_attr rtr = {
			.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp[1 - i]->qp_num,
			.max_dest_rd_atomic = 1, .min_rnr_timer = 1, .ah_attr = ah_to(gid),
		};
		struct ibv_qp_attr rts = {
			.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
		};
		CHECK(!p_ibv_modify_qp(qp[i], &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
		CHECK(!p_ibv_modify_qp(qp[i], &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
							    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
							    IBV_QP_MIN_RNR_TIMER));
		CHECK(!p_ibv_modify_qp(qp[i], &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
							    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
	}
	for (int round = 0; round < 100; round++) {
		int from = round % 2;
		memset(bytes[from], round + 1, sizeof(bytes[from]));
		memset(bytes[1 - from], 0, sizeof(bytes[0]));
		struct ibv_sge to = { (uintptr_t)bytes[1 - from], sizeof(bytes[0]), mr->lkey };
		struct ibv_sge out = { (uintptr_t)bytes[from], sizeof(bytes[0]), mr->lkey };
		struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &to, .num_sge = 1 }, *bad_recv;
		struct ibv_send_wr send = { .wr_id = 2, .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad_send;
		CHECK(!ibv_post_recv(qp[1 - from], &recv, &bad_recv));
		CHECK(!ibv_post_send(qp[from], &send, &bad_send));
		for (int i = 0; i < 2; i++) {
			struct ibv_wc wc = next_wc(cq);
			CHECK(wc.status == IBV_WC_SUCCESS, "status %d", wc.status);
		}
		CHECK(!memcmp(bytes[0], bytes[1], sizeof(bytes[0])) && bytes[0][0] == (char)(round + 1));
	}
	CHECK(!p_ibv_destroy_qp(qp[0]) && !p_ibv_destroy_qp(qp[1]));
	CHECK(!p_ibv_destroy_cq(cq) && !p_ibv_dereg_mr(mr) && !p_ibv_dealloc_pd(pd) && !p_ibv_close_device(context));
	/* The library stays, threads and all. */
	CHECK(!dlclose(library));
	puts("pinged");
	return 0;
}
