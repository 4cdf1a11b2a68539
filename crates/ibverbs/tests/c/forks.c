/*
 * A program forks while it sends: one child executes another program, one opens the device
 * itself and sends through it. The parent's traffic continues and its bytes are right.
 */
#include "check.h"
#include <sys/wait.h>

struct traffic {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp[2];
	unsigned char *bytes;
};

enum { BYTES = 5000 };

static struct traffic start(void)
{
	struct traffic t = { .context = open_first() };
	t.pd = ibv_alloc_pd(t.context);
	t.cq = ibv_create_cq(t.context, 64, NULL, NULL, 0);
	t.bytes = malloc(2 * BYTES);
	t.mr = ibv_reg_mr(t.pd, t.bytes, 2 * BYTES, ALL_ACCESS);
	CHECK(t.pd && t.cq && t.mr);
	for (int i = 0; i < 2; i++)
		CHECK((t.qp[i] = make_qp(t.pd, t.cq, IBV_QPT_RC)));
	for (int i = 0; i < 2; i++)
		connect_rc(t.qp[i], t.qp[1 - i]->qp_num, first_gid(t.context));
	return t;
}

static void go_on(struct traffic *t, int rounds, int seed)
{
	for (int round = 0; round < rounds; round++) {
		memset(t->bytes, seed + round, BYTES);
		memset(t->bytes + BYTES, 0, BYTES);
		struct ibv_sge out = { (uintptr_t)t->bytes, BYTES, t->mr->lkey };
		struct ibv_send_wr send = {
			.sg_list = &out, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
			.wr.rdma = { (uintptr_t)t->bytes + BYTES, t->mr->rkey },
		}, *bad;
		CHECK(!ibv_post_send(t->qp[round % 2], &send, &bad));
		struct ibv_wc wc = next_wc(t->cq);
		CHECK(wc.status == IBV_WC_SUCCESS, "status %d", wc.status);
		CHECK(!memcmp(t->bytes, t->bytes + BYTES, BYTES), "round %d", round);
	}
}

static void stop(struct traffic *t)
{
	CHECK(!ibv_destroy_qp(t->qp[0]) && !ibv_destroy_qp(t->qp[1]) && !ibv_destroy_cq(t->cq));
	CHECK(!ibv_dereg_mr(t->mr) && !ibv_dealloc_pd(t->pd) && !ibv_close_device(t->context));
	free(t->bytes);
}

int main(void)
{
	CHECK(!ibv_fork_init());
	struct traffic t = start();
	go_on(&t, 50, 1);

	pid_t executed = fork();
	CHECK(executed >= 0);
	if (!executed) {
		execl("/bin/true", "true", NULL);
		_exit(9);
	}
	pid_t anew = fork();
	CHECK(anew >= 0);
	if (!anew) {
		struct traffic own = start();
		go_on(&own, 50, 100);
		stop(&own);
		_exit(0);
	}
	int status, ended = 0;
	time_t begin = time(NULL);
	while (!ended) {
		go_on(&t, 20, 2);
		pid_t pid = waitpid(anew, &status, WNOHANG);
		CHECK(pid >= 0);
		ended = pid == anew;
		CHECK(time(NULL) - begin < 60, "the child does not end");
	}
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child that opened anew: %x", status);
	CHECK(waitpid(executed, &status, 0) == executed && WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x", status);
	go_on(&t, 50, 3);
	stop(&t);
	puts("forked");
	return 0;
}
