/*
 * One of two processes is killed while both send. The other one's requests end with
 * IBV_WC_RETRY_EXC_ERR and flushes, its queue pair is in the error state and can be destroyed.
 */
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

enum { BYTES = 100000 };

struct end {
	struct ibv_context *context;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	char *bytes;
};

static struct end meet(int in, int out, struct address *peer)
{
	struct end end = { .context = open_first() };
	struct ibv_pd *pd = ibv_alloc_pd(end.context);
	end.cq = ibv_create_cq(end.context, 64, NULL, NULL, 0);
	end.bytes = calloc(1, BYTES);
	end.mr = ibv_reg_mr(pd, end.bytes, BYTES, ALL_ACCESS);
	end.qp = make_qp(pd, end.cq, IBV_QPT_RC);
	CHECK(end.cq && end.mr && end.qp);
	struct address own = { end.qp->qp_num, end.mr->rkey, (uintptr_t)end.bytes, first_gid(end.context) };
	CHECK(write(out, &own, sizeof(own)) == sizeof(own));
	CHECK(read(in, peer, sizeof(*peer)) == sizeof(*peer));
	connect_rc(end.qp, peer->qpn, peer->gid);
	char ready = 1;
	CHECK(write(out, &ready, 1) == 1 && read(in, &ready, 1) == 1);
	return end;
}

static int post_write(struct end *end, struct address *peer)
{
	struct ibv_sge out = { (uintptr_t)end->bytes, BYTES, end->mr->lkey };
	struct ibv_send_wr send = {
		.sg_list = &out, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .wr.rdma = { peer->addr, peer->rkey },
	}, *bad;
	return ibv_post_send(end->qp, &send, &bad);
}

static void send_for_ever(int in, int out)
{
	struct address peer;
	struct end end = meet(in, out, &peer);
	for (;;) {
		CHECK(!post_write(&end, &peer));
		CHECK(next_wc(end.cq).status == IBV_WC_SUCCESS);
	}
}

int main(void)
{
	int to_child[2], to_parent[2];
	CHECK(!pipe(to_child) && !pipe(to_parent));
	pid_t child = fork();
	CHECK(child >= 0);
	if (!child)
		send_for_ever(to_child[0], to_parent[1]);

	struct address peer;
	struct end end = meet(to_parent[0], to_child[1], &peer);
	for (int i = 0; i < 100; i++) {
		CHECK(!post_write(&end, &peer));
		CHECK(next_wc(end.cq).status == IBV_WC_SUCCESS);
	}
	for (int i = 0; i < 8; i++)
		CHECK(!post_write(&end, &peer));
	CHECK(!kill(child, SIGKILL));
	CHECK(waitpid(child, NULL, 0) == child);
	/* Some may have arrived before. From the first that fails on all fail. */
	for (int i = 0; i < 8; i++)
		CHECK(!post_write(&end, &peer));
	int failed = 0;
	for (int i = 0; i < 16; i++) {
		struct ibv_wc wc = next_wc(end.cq);
		if (wc.status == IBV_WC_SUCCESS) {
			CHECK(!failed);
			continue;
		}
		CHECK(wc.status == (failed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR), "status %d", wc.status);
		failed = 1;
	}
	CHECK(failed);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	CHECK(!ibv_query_qp(end.qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR);
	CHECK(!ibv_destroy_qp(end.qp));
	puts("noticed");
	return 0;
}
