/*
 * A program built with AddressSanitizer: the device uses registered memory whatever the sanitizer has marked in it,
 * as a network card does, and the marks stay. `sanitized FAULT` has a fault of its own, which the sanitizer still reports.
 */
#include "peer.h"
#include <sanitizer/asan_interface.h>

/* Every other block of a buffer is poisoned, as the free elements of a pool are. */
enum { BYTES = 1 << 20, BLOCK = 3000, MESSAGE = 64 << 10 };

static const uint32_t LENGTHS[] = { 1, 8, 100, 4096, MESSAGE };

static struct ibv_pd *pd;
static struct ibv_cq *cq;

__attribute__((no_sanitize("address"))) static void fill(volatile unsigned char *bytes, size_t len, int seed)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = i * 7 + seed;
}

__attribute__((no_sanitize("address"))) static int is_filled(volatile unsigned char *bytes, size_t len, int seed)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != (unsigned char)(i * 7 + seed))
			return 0;
	return 1;
}

static void mark(unsigned char *bytes)
{
	for (size_t at = 0; at + BLOCK <= BYTES; at += 2 * BLOCK)
		ASAN_POISON_MEMORY_REGION(bytes + at, BLOCK);
}

static void is_marked(unsigned char *bytes)
{
	for (size_t at = 0; at + BLOCK <= BYTES; at += 2 * BLOCK) {
		CHECK(__asan_address_is_poisoned(bytes + at + 16) && __asan_address_is_poisoned(bytes + at + BLOCK - 16));
		CHECK(!__asan_address_is_poisoned(bytes + at + BLOCK + 16));
	}
	CHECK(__asan_address_is_poisoned(bytes - 1) && __asan_address_is_poisoned(bytes + BYTES));
}

static void succeeds(int count)
{
	while (count--) {
		struct ibv_wc wc = next_wc(cq);
		CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
	}
}

/* One end for each of the buffers: the first was marked before it was registered, the second after. */
struct end {
	unsigned char *bytes;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct address peer;
};

static struct end make_end(int late)
{
	struct end end = { .bytes = malloc(BYTES) };
	fill(end.bytes, BYTES, 0);
	if (!late)
		mark(end.bytes);
	end.mr = ibv_reg_mr(pd, end.bytes, BYTES, ALL_ACCESS);
	CHECK(end.mr && (end.qp = make_qp(pd, cq, IBV_QPT_RC)));
	mark(end.bytes);
	is_marked(end.bytes);
	if (!getenv("LONGARM_ADOPT") && !getenv("LONGARM_LOCAL"))
		CHECK(mappings(getpid(), "longarm-adopted") > 0, "memory of a program with one thread is adopted");
	return end;
}

static void unmake_end(struct end *end)
{
	is_marked(end->bytes);
	CHECK(!ibv_destroy_qp(end->qp) && !ibv_dereg_mr(end->mr));
	is_marked(end->bytes);
	ASAN_UNPOISON_MEMORY_REGION(end->bytes, BYTES);
	CHECK(!__asan_address_is_poisoned(end->bytes) && __asan_address_is_poisoned(end->bytes + BYTES));
	free(end->bytes);
	CHECK(__asan_address_is_poisoned(end->bytes + BYTES / 2));
}

/* The first half of the buffer goes out, the second comes in. */
static void initiate(struct end *end, enum ibv_wr_opcode opcode, uint32_t len, uint64_t addr)
{
	int atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	CHECK(!post(end->qp, opcode, end->bytes, atomic ? 8 : len, end->mr->lkey, addr, end->peer.rkey, opcode));
}

static void exchange_all(struct end *end, int socket, int first)
{
	for (size_t i = 0; i < sizeof(LENGTHS) / sizeof(*LENGTHS); i++) {
		uint32_t len = LENGTHS[i];
		CHECK(!post_receive(end->qp, end->bytes + BYTES / 2, len, end->mr->lkey, 1));
		both_are_ready(socket);
		initiate(end, IBV_WR_SEND, len, 0);
		succeeds(2);
		CHECK(is_filled(end->bytes + BYTES / 2, len, 0), "SEND of %u", len);
		both_are_ready(socket);
		if (first) {
			fill(end->bytes, len, 3);
			initiate(end, IBV_WR_RDMA_WRITE, len, end->peer.addr + BYTES / 2 + MESSAGE);
			succeeds(1);
			fill(end->bytes, len, 0);
		}
		both_are_ready(socket);
		CHECK(first || is_filled(end->bytes + BYTES / 2 + MESSAGE, len, 3), "WRITE of %u", len);
		if (first) {
			initiate(end, IBV_WR_RDMA_READ, len, end->peer.addr + BYTES / 2 + MESSAGE);
			succeeds(1);
			CHECK(is_filled(end->bytes, len, 3), "READ of %u", len);
			fill(end->bytes, len, 0);
			initiate(end, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, end->peer.addr);
			initiate(end, IBV_WR_ATOMIC_CMP_AND_SWP, 8, end->peer.addr);
			succeeds(2);
			fill(end->bytes, 8, 0);
		}
		both_are_ready(socket);
		fill(end->bytes, 8, 0);
	}
}

static void act(int socket, int first)
{
	struct ibv_context *context = open_first();
	struct ibv_device_attr limits;
	CHECK(!ibv_query_device(context, &limits) && (pd = ibv_alloc_pd(context)));
	CHECK((cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	for (int late = 0; late < 2; late++) {
		struct end end = make_end(late);
		end.peer = meet_peer(socket, end.qp, end.mr);
		exchange_all(&end, socket, first);
		both_are_ready(socket);
		unmake_end(&end);
	}
	CHECK(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
}

/* Both ends in one process. */
static void alone(void)
{
	struct ibv_context *context = open_first();
	CHECK((pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	struct end end = make_end(0);
	connect_rc(end.qp, end.qp->qp_num, first_gid(context));
	end.peer.rkey = end.mr->rkey;
	uint64_t half = (uintptr_t)end.bytes + BYTES / 2;
	for (size_t i = 0; i < sizeof(LENGTHS) / sizeof(*LENGTHS); i++) {
		uint32_t len = LENGTHS[i];
		CHECK(!post_receive(end.qp, end.bytes + BYTES / 2, len, end.mr->lkey, 1));
		initiate(&end, IBV_WR_SEND, len, 0);
		succeeds(2);
		initiate(&end, IBV_WR_RDMA_WRITE, len, half + MESSAGE);
		initiate(&end, IBV_WR_RDMA_READ, len, half + MESSAGE);
		succeeds(2);
		CHECK(is_filled(end.bytes + BYTES / 2, len, 0) && is_filled(end.bytes + BYTES / 2 + MESSAGE, len, 0));
	}
	unmake_end(&end);
	CHECK(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
}

/* The library handles faults by now, and has adopted memory. */
static int fail(const char *how)
{
	struct ibv_context *context = open_first();
	if (!strcmp(how, "leak"))
		return 0;
	if (!strcmp(how, "wild"))
		return *(volatile int *)(uintptr_t)(getppid() & ~7);
	CHECK((pd = ibv_alloc_pd(context)));
	unsigned char *bytes = malloc(BYTES);
	struct ibv_mr *mr = ibv_reg_mr(pd, bytes, BYTES, ALL_ACCESS);
	CHECK(mr && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	/* Volatile, so that the compiler does not know the target. */
	unsigned char *volatile at = bytes + BYTES / 2;
	if (!strcmp(how, "freed"))
		free(bytes);
	else
		at += BYTES / 2;
	return *at;
}

int main(int count, char **arguments)
{
	if (count == 2)
		return fail(arguments[1]);
	if (count == 3) {
		begin_peer();
		act(PARENT, 0);
		return 0;
	}
	alone();
	struct peer peer = start_peer("peer", 0);
	act(peer.socket, 1);
	int status;
	CHECK(waitpid(peer.pid, &status, 0) == peer.pid && status == 0, "status %x", status);
	puts("clean");
	return 0;
}
