/*
 * Memory that is unmapped while it is registered: queue pairs still use it, as on a network card
 * that holds the pages. A fault of the program itself still ends it.
 */
#include "peer.h"
#include <sys/mman.h>

enum { BYTES = 1 << 20, GIVEN = 3, LOST = 4 };

/* An address where the system maps nothing by itself, so that unmapped pages stay unmapped. */
static unsigned char *map_far(int number)
{
	void *wish = (void *)((24ull << 40) + (uint64_t)number * 2 * BYTES);
	void *bytes = mmap(wish, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(bytes == wish);
	return memset(bytes, GIVEN, BYTES);
}

static void succeeds(struct ibv_cq *cq)
{
	struct ibv_wc wc = next_wc(cq);
	CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
}

static void be_user(void)
{
	struct ibv_context *context = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_qp *from = make_qp(pd, cq, IBV_QPT_RC), *to = make_qp(pd, cq, IBV_QPT_RC);
	connect_rc(from, to->qp_num, first_gid(context));
	connect_rc(to, from->qp_num, first_gid(context));
	unsigned char *kept = map_far(0), *lost = map_far(1);
	struct ibv_mr *source = ibv_reg_mr(pd, kept, BYTES, ALL_ACCESS), *mr = ibv_reg_mr(pd, lost, BYTES, ALL_ACCESS);
	CHECK(source && mr);

	/* A receive, a WRITE, a READ and a SEND, each with nothing there. */
	CHECK(!post_receive(to, lost, BYTES, mr->lkey, 1) && !munmap(lost, BYTES));
	CHECK(!post(from, IBV_WR_SEND, kept, BYTES, source->lkey, 0, 0, 2));
	succeeds(cq);
	succeeds(cq);
	CHECK(!munmap(lost, BYTES));
	CHECK(!post(from, IBV_WR_RDMA_WRITE, kept, BYTES, source->lkey, (uintptr_t)lost, mr->rkey, 3));
	succeeds(cq);
	CHECK(!munmap(lost, BYTES));
	CHECK(!post(from, IBV_WR_RDMA_READ, kept, BYTES, source->lkey, (uintptr_t)lost, mr->rkey, 4));
	succeeds(cq);
	CHECK(!munmap(lost, BYTES));
	memset(kept, LOST, BYTES);
	CHECK(!post_receive(to, kept, BYTES, source->lkey, 5));
	CHECK(!post(from, IBV_WR_SEND, lost, BYTES, mr->lkey, 0, 0, 6));
	succeeds(cq);
	succeeds(cq);
	for (int i = 0; i < BYTES; i++)
		CHECK(kept[i] != LOST, "byte %d did not arrive", i);
	CHECK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(source));
}

/* The library handles faults by now. */
static void be_wild(void)
{
	CHECK(open_first());
	*(volatile int *)map_far(2) = 1;
	CHECK(!munmap(map_far(3), BYTES));
	*((volatile int *)(24ull << 40) + 3 * 2 * BYTES / sizeof(int)) = 1;
}

static void be_signalled(void)
{
	CHECK(open_first() && !kill(getpid(), SIGSEGV));
	sleep(10);
}

static int status_of(const char *role)
{
	struct peer peer = start_peer(role, 0);
	int status;
	CHECK(waitpid(peer.pid, &status, 0) == peer.pid);
	close(peer.socket);
	return status;
}

int main(int count, char **arguments)
{
	if (count == 3) {
		begin_peer();
		switch (arguments[1][0]) {
		case 'u': be_user(); return 0;
		case 'w': be_wild(); return 0;
		default: be_signalled(); return 0;
		}
	}
	CHECK(status_of("user") == 0);
	CHECK(!setenv("LONGARM_ADOPT", "never", 1) && status_of("user") == 0);
	CHECK(!setenv("LONGARM_LOCAL", "off", 1) && status_of("user") == 0);
	int status = status_of("wild");
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %x", status);
	status = status_of("signalled");
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %x", status);
	puts("it goes on");
	return 0;
}
