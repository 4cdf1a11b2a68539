/* `group MIB`: registers MIB of memory several times, in a control group that has room for it once. */
#include "check.h"
#include <sys/mman.h>

enum { ROUNDS = 4 };

int main(int count, char **arguments)
{
	CHECK(count == 2);
	size_t len = (size_t)atoi(arguments[1]) << 20, half = len / 2;
	unsigned char *bytes = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_context *context = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	CHECK(bytes != MAP_FAILED && pd && cq && qp);
	connect_rc(qp, qp->qp_num, first_gid(context));
	for (int round = 0; round < ROUNDS; round++) {
		memset(bytes, round, half);
		memset(bytes + half, 99, half);
		struct ibv_mr *mr = ibv_reg_mr(pd, bytes, len, ALL_ACCESS);
		CHECK(mr);
		struct ibv_sge from = { (uintptr_t)bytes, half, mr->lkey };
		struct ibv_send_wr wr = {
			.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
			.wr.rdma = { (uintptr_t)bytes + half, mr->rkey },
		}, *bad;
		CHECK(!ibv_post_send(qp, &wr, &bad));
		CHECK(next_wc(cq).status == IBV_WC_SUCCESS);
		for (size_t i = 0; i < len; i++)
			CHECK(bytes[i] == round, "byte %zu in round %d", i, round);
		CHECK(!ibv_dereg_mr(mr));
		for (size_t i = 0; i < len; i += 4096)
			CHECK(bytes[i] == round, "byte %zu after round %d", i, round);
	}
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	puts("it fits");
	return 0;
}
