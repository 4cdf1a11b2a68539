/*
 * Eight threads share a context, a domain and a completion queue. Each makes a pair of queue
 * pairs, sends through it, checks the bytes, destroys it, and begins again.
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 8, ROUNDS = 10, MESSAGES = 20, BYTES = 3000 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static union ibv_gid gid;
/* A thread that polls the shared queue counts completions for their owners. */
static int completed[THREADS];

static void poll_shared(void)
{
	struct ibv_wc wc[4];
	int found = ibv_poll_cq(cq, 4, wc);
	CHECK(found >= 0);
	for (int i = 0; i < found; i++) {
		CHECK(wc[i].status == IBV_WC_SUCCESS, "status %d", wc[i].status);
		CHECK(wc[i].wr_id < THREADS);
		__atomic_add_fetch(&completed[wc[i].wr_id], 1, __ATOMIC_SEQ_CST);
	}
}

static void *work(void *argument)
{
	uintptr_t self = (uintptr_t)argument;
	int expected = 0;
	for (int round = 0; round < ROUNDS; round++) {
		unsigned char *bytes = malloc(2 * BYTES);
		struct ibv_mr *mr = ibv_reg_mr(pd, bytes, 2 * BYTES, IBV_ACCESS_LOCAL_WRITE);
		struct ibv_qp *qp[2] = { make_qp(pd, cq, IBV_QPT_RC), make_qp(pd, cq, IBV_QPT_RC) };
		CHECK(mr && qp[0] && qp[1]);
		connect_rc(qp[0], qp[1]->qp_num, gid);
		connect_rc(qp[1], qp[0]->qp_num, gid);
		for (int message = 0; message < MESSAGES; message++) {
			memset(bytes, self * 31 + round * 7 + message, BYTES);
			memset(bytes + BYTES, 0, BYTES);
			struct ibv_sge out = { (uintptr_t)bytes, BYTES, mr->lkey };
			struct ibv_sge to = { (uintptr_t)bytes + BYTES, BYTES, mr->lkey };
			struct ibv_recv_wr recv = { .wr_id = self, .sg_list = &to, .num_sge = 1 }, *bad_recv;
			struct ibv_send_wr send = { .wr_id = self, .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND };
			struct ibv_send_wr *bad_send;
			CHECK(!ibv_post_recv(qp[1], &recv, &bad_recv));
			CHECK(!ibv_post_send(qp[0], &send, &bad_send));
			expected += 2;
			time_t start = time(NULL);
			while (__atomic_load_n(&completed[self], __ATOMIC_SEQ_CST) < expected) {
				poll_shared();
				CHECK(time(NULL) - start < 60, "thread %d waits", (int)self);
			}
			CHECK(!memcmp(bytes, bytes + BYTES, BYTES), "thread %d round %d", (int)self, round);
		}
		CHECK(!ibv_destroy_qp(qp[0]) && !ibv_destroy_qp(qp[1]) && !ibv_dereg_mr(mr));
		free(bytes);
	}
	return NULL;
}

int main(void)
{
	context = open_first();
	gid = first_gid(context);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 4 * THREADS, NULL, NULL, 0);
	CHECK(pd && cq);
	pthread_t threads[THREADS];
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	for (int i = 0; i < THREADS; i++)
		CHECK(completed[i] == 2 * ROUNDS * MESSAGES);
	CHECK(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	puts("all sent");
	return 0;
}
