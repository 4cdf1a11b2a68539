/*
 * Memory of every kind, registered here and used by a process on the same host: heap, mappings,
 * files, stack, huge pages. Programs may still fork, unmap, move and register it twice,
 * with the usual effects.
 */
#include "peer.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/*
 * Replaces the C library's function for all callers, as UCX's does, which does not forward a
 * fifth argument.
 */
void *mremap(void *start, size_t old_len, size_t new_len, int flags, ...)
{
	CHECK(!(flags & MREMAP_FIXED), "the program's own mremap was called");
	return (void *)syscall(SYS_mremap, start, old_len, new_len, flags);
}

enum { BYTES = 3 * 4096 + 1000, MAX = 4 << 20 };

/* Work for the other process: write a value, read it back, add. */
struct wish {
	uint64_t addr;
	uint32_t rkey, len;
	int value, atomic;
};

struct end {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	int socket;
};

static struct end open_end(int socket)
{
	struct ibv_context *context = open_first();
	struct end end = { .pd = ibv_alloc_pd(context), .cq = ibv_create_cq(context, 64, NULL, NULL, 0), .socket = socket };
	end.qp = make_qp(end.pd, end.cq, IBV_QPT_RC);
	CHECK(end.qp);
	meet_peer(socket, end.qp, NULL);
	return end;
}

static void run(struct end *end, enum ibv_wr_opcode opcode, struct ibv_mr *mr, uint32_t len, struct wish *wish)
{
	CHECK(!post(end->qp, opcode, mr->addr, len, mr->lkey, wish->addr, wish->rkey, 1));
	struct ibv_wc wc = next_wc(end->cq);
	CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
}

static void be_worker(void)
{
	struct end end = open_end(PARENT);
	unsigned char *bytes = malloc(MAX);
	struct ibv_mr *mr = ibv_reg_mr(end.pd, bytes, MAX, ALL_ACCESS);
	struct wish wish;
	for (;;) {
		hear(PARENT, &wish, sizeof(wish));
		memset(bytes, wish.value, wish.len);
		run(&end, IBV_WR_RDMA_WRITE, mr, wish.len, &wish);
		memset(bytes, ~wish.value, wish.len);
		run(&end, IBV_WR_RDMA_READ, mr, wish.len, &wish);
		for (uint32_t i = 0; i < wish.len; i++)
			CHECK(bytes[i] == (unsigned char)wish.value, "byte %u", i);
		if (wish.atomic) {
			wish.addr = (wish.addr + 7) & ~7ull;
			run(&end, IBV_WR_ATOMIC_FETCH_AND_ADD, mr, 8, &wish);
			CHECK(bytes[0] == (unsigned char)wish.value && bytes[7] == (unsigned char)wish.value);
		}
		run(&end, IBV_WR_SEND, mr, wish.len, &wish);
		say(PARENT, &wish, 1);
	}
}

static void ask(struct end *end, void *bytes, struct ibv_mr *mr, uint32_t len, int value, int atomic)
{
	struct wish wish = { (uintptr_t)bytes, mr->rkey, len, value, atomic };
	say(end->socket, &wish, sizeof(wish));
}

static void are(const unsigned char *bytes, size_t from, size_t to, int value, const char *what)
{
	for (size_t i = from; i < to; i++)
		CHECK(bytes[i] == (unsigned char)value, "%s: byte %zu is %d, not %d", what, i, bytes[i], value);
}

/* The whole length is written, read, added to by the peer and receives a message. */
static void use(struct end *end, unsigned char *bytes, uint32_t len, struct ibv_mr *mr, const char *what)
{
	static int value = 10;
	value++;
	unsigned char *message = malloc(len);
	struct ibv_mr *into = ibv_reg_mr(end->pd, message, len, ALL_ACCESS);
	CHECK(into && !post_receive(end->qp, message, len, into->lkey, 2));
	ask(end, bytes, mr, len, value, 1);
	struct ibv_wc wc = next_wc(end->cq);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 2 && wc.byte_len == len, "%s", what);
	hear(end->socket, &wc, 1);
	size_t word = -(uintptr_t)bytes & 7;
	are(bytes, 0, word, value, what);
	CHECK(bytes[word] == value + 1, "%s: nothing was added", what);
	are(bytes, word + 1, len, value, what);
	/* Its first word is the result of the addition. */
	are(message, 8, len, value, what);
	CHECK(!ibv_dereg_mr(into));
	free(message);
}

static void register_and_use(struct end *end, void *bytes, uint32_t len, const char *what)
{
	memset(bytes, 3, len);
	struct ibv_mr *mr = ibv_reg_mr(end->pd, bytes, len, ALL_ACCESS);
	CHECK(mr, "%s", what);
	are(bytes, 0, len, 3, what);
	use(end, bytes, len, mr, what);
	memset(bytes, 4, len);
	CHECK(!ibv_dereg_mr(mr), "%s", what);
	are(bytes, 0, len, 4, what);
	memset(bytes, 5, len);
}

static void *map(size_t len, int flags, int fd)
{
	void *bytes = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, fd, 0);
	return bytes == MAP_FAILED ? NULL : bytes;
}

static void kinds(struct end *end)
{
	unsigned char stack[BYTES];
	register_and_use(end, stack, BYTES, "stack");
	for (int round = 0; round < 20; round++) {
		unsigned char *heap = malloc(BYTES + round * 5000);
		register_and_use(end, heap + round, BYTES + round * 4999, "heap");
		free(heap);
	}
	char name[] = "/tmp/longarm-near-memory-XXXXXX";
	int file = mkstemp(name);
	CHECK(file >= 0 && !unlink(name) && !ftruncate(file, MAX));
	struct {
		const char *what;
		int flags, fd;
	} mapped[] = {
		{ "mapping", MAP_PRIVATE | MAP_ANONYMOUS, -1 },
		{ "shared mapping", MAP_SHARED | MAP_ANONYMOUS, -1 },
		{ "file", MAP_SHARED, file },
		{ "private file", MAP_PRIVATE, file },
		{ "huge pages", MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1 },
	};
	for (size_t i = 0; i < sizeof(mapped) / sizeof(*mapped); i++) {
		unsigned char *bytes = map(MAX, mapped[i].flags, mapped[i].fd);
		/* A machine may have no huge pages. */
		CHECK(bytes || (mapped[i].flags & MAP_HUGETLB), "%s", mapped[i].what);
		if (!bytes)
			continue;
		register_and_use(end, bytes + 40, BYTES, mapped[i].what);
		register_and_use(end, bytes, MAX, mapped[i].what);
		CHECK(!munmap(bytes, MAX));
	}
	unsigned char seen;
	CHECK(pread(file, &seen, 1, 50) == 1 && seen == 5, "what peers write to a file is in the file");
	close(file);
}

static void *on_its_stack(void *argument)
{
	unsigned char bytes[BYTES];
	register_and_use(argument, bytes, BYTES, "stack of a thread");
	return NULL;
}

static int ends_with(pid_t child)
{
	int status;
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Children have copies; the parent's memory stays the peer's. */
static void forks(struct end *end)
{
	unsigned char *bytes = malloc(BYTES);
	memset(bytes, 1, BYTES);
	struct ibv_mr *mr = ibv_reg_mr(end->pd, bytes, BYTES, ALL_ACCESS);
	CHECK(mr);
	for (int round = 0; round < 10; round++) {
		memset(bytes, 1, BYTES);
		int go[2];
		CHECK(!pipe(go));
		pid_t child = fork();
		if (!child) {
			/* Not before the peer has written to the parent. */
			char byte;
			close(go[1]);
			CHECK(read(go[0], &byte, 1) == 0);
			are(bytes, 0, BYTES, 1, "a child's copy");
			memset(bytes, 2, BYTES);
			_exit(31);
		}
		pid_t executes = fork();
		if (!executes) {
			execl("/bin/true", "true", NULL);
			_exit(9);
		}
		use(end, bytes, BYTES, mr, "memory of a parent");
		int value = bytes[BYTES - 1];
		close(go[1]);
		CHECK(ends_with(child) == 31 && ends_with(executes) == 0);
		close(go[0]);
		CHECK(bytes[BYTES - 1] == value, "a child wrote to its parent's memory");
		use(end, bytes, BYTES, mr, "memory of a parent");
	}
	/* While the peer is at work. */
	ask(end, bytes, mr, BYTES, 77, 0);
	CHECK(!post_receive(end->qp, bytes, BYTES, mr->lkey, 2));
	for (int i = 0; i < 10; i++) {
		pid_t child = fork();
		if (!child)
			_exit(0);
		CHECK(ends_with(child) == 0);
	}
	CHECK(next_wc(end->cq).status == IBV_WC_SUCCESS);
	struct wish wish;
	hear(end->socket, &wish, 1);
	are(bytes, 0, BYTES, 77, "written while its owner forked");
	CHECK(!ibv_dereg_mr(mr));
	are(bytes, 0, BYTES, 77, "after the forks");
	free(bytes);
}

/* Unmapped before it is deregistered, and something else mapped in its place. */
static void unmaps(struct end *end)
{
	for (int other = 0; other < 2; other++) {
		unsigned char *bytes = map(MAX, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		struct ibv_mr *mr = ibv_reg_mr(end->pd, bytes, MAX, ALL_ACCESS);
		CHECK(mr);
		use(end, bytes, MAX, mr, "before it is unmapped");
		CHECK(!munmap(bytes, other ? MAX : MAX / 2));
		if (other) {
			CHECK(mmap(bytes, MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == bytes);
			memset(bytes, 6, MAX);
		}
		CHECK(!ibv_dereg_mr(mr));
		if (other)
			are(bytes, 0, MAX, 6, "mapped in its place");
		else
			CHECK(mincore(bytes, 4096, &(unsigned char){ 0 }) && errno == ENOMEM, "unmapped pages are back");
		CHECK(!munmap(bytes, MAX));
	}
}

static void moves(struct end *end)
{
	unsigned char *bytes = malloc(MAX / 2);
	memset(bytes, 8, MAX / 2);
	struct ibv_mr *mr = ibv_reg_mr(end->pd, bytes, MAX / 2, ALL_ACCESS);
	CHECK(mr);
	use(end, bytes, MAX / 2, mr, "before it is moved");
	memset(bytes, 8, MAX / 2);
	bytes = realloc(bytes, 8 * MAX);
	are(bytes, 0, MAX / 2, 8, "moved");
	memset(bytes + MAX / 2, 9, 8 * MAX - MAX / 2);
	CHECK(!ibv_dereg_mr(mr));
	are(bytes, 0, MAX / 2, 8, "deregistered after it was moved");
	are(bytes, MAX / 2, 8 * MAX, 9, "the added bytes");
	pid_t child = fork();
	if (!child) {
		memset(bytes, 1, MAX / 2);
		_exit(0);
	}
	CHECK(ends_with(child) == 0);
	free(bytes);
}

/* Twice and overlapping; one registration stays valid when the other ends. */
static void overlaps(struct end *end)
{
	unsigned char *bytes = malloc(2 * BYTES);
	memset(bytes, 2, 2 * BYTES);
	struct ibv_mr *first = ibv_reg_mr(end->pd, bytes, BYTES + 3000, ALL_ACCESS);
	struct ibv_mr *second = ibv_reg_mr(end->pd, bytes + BYTES, BYTES, ALL_ACCESS);
	CHECK(first && second);
	use(end, bytes, BYTES, first, "the first of two");
	use(end, bytes + BYTES, BYTES, second, "the second of two");
	memset(bytes, 2, 2 * BYTES);
	CHECK(!ibv_dereg_mr(first));
	are(bytes, 0, 2 * BYTES, 2, "one of two is gone");
	use(end, bytes + BYTES, BYTES, second, "the other of two");
	CHECK(!ibv_dereg_mr(second));
	free(bytes);
}

int main(int count, char **arguments)
{
	(void)arguments;
	if (count == 3) {
		begin_peer();
		be_worker();
	}
	struct peer worker = start_peer("worker", 0);
	struct end end = open_end(worker.socket);
	int links = mappings(getpid(), "longarm-link");
	CHECK(links == 1, "%d links: it is not the same host's way", links);
	kinds(&end);
	pthread_t thread;
	CHECK(!pthread_create(&thread, NULL, on_its_stack, &end) && !pthread_join(thread, NULL));
	forks(&end);
	unmaps(&end);
	moves(&end);
	overlaps(&end);
	end_peer(&worker, SIGKILL);
	puts("as ever");
	return 0;
}
