/*
 * Memory that the kernel, children or other threads use beside the device: registered memory is seen by all of them
 * as on a network card. `hazards CASE` runs one case in a process of its own, which begins with one thread.
 */
#include "check.h"
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { PAGE = 4096, BYTES = 1 << 20 };

static struct ibv_pd *pd;

static unsigned char *map(size_t len)
{
	void *bytes = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(bytes != MAP_FAILED);
	return bytes;
}

static struct ibv_mr *reg(void *bytes, size_t len)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, bytes, len, ALL_ACCESS);
	CHECK(mr);
	return mr;
}

/* Whether the page lies in shared memory of the library. */
static int is_adopted(const void *page)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];
	int found = 0;
	CHECK(maps);
	while (fgets(line, sizeof(line), maps)) {
		uintptr_t start, end;
		char rights[5];
		CHECK(sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &start, &end, rights) == 3);
		if (start <= (uintptr_t)page && (uintptr_t)page < end)
			found = strstr(line, "longarm-adopted") && rights[3] == 's';
	}
	fclose(maps);
	return found;
}

static void are(const unsigned char *bytes, size_t len, int value, const char *what)
{
	for (size_t i = 0; i < len; i++)
		CHECK(bytes[i] == (unsigned char)value, "%s: byte %zu is %d, not %d", what, i, bytes[i], value);
}

static int ends_with(pid_t child)
{
	int status;
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void *sleep_for_ever(void *unused)
{
	while (pause() == -1)
		;
	return unused;
}

static void start_thread(void *(*run)(void *), void *argument)
{
	pthread_t thread;
	CHECK(!pthread_create(&thread, NULL, run, argument));
}

/* A file with this byte everywhere, unlinked. */
static int file_of(int value, size_t len, int flags)
{
	char name[] = "hazard-XXXXXX";
	int file = mkstemp(name);
	CHECK(file >= 0);
	unsigned char *bytes = map(len);
	memset(bytes, value, len);
	CHECK(write(file, bytes, len) == (ssize_t)len && !fsync(file));
	close(file);
	munmap(bytes, len);
	file = open(name, O_RDWR | flags);
	CHECK(file >= 0 && !unlink(name));
	return file;
}

/* One thread alone takes the fast path, and gives it back. */
static void alone(void)
{
	unsigned char *bytes = map(BYTES);
	memset(bytes, 1, BYTES);
	struct ibv_mr *mr = reg(bytes, BYTES);
	CHECK(is_adopted(bytes));
	are(bytes, BYTES, 1, "registered");
	memset(bytes, 2, BYTES);
	CHECK(!ibv_dereg_mr(mr) && !is_adopted(bytes));
	are(bytes, BYTES, 2, "deregistered");
	mr = reg(bytes + 100, 2 * PAGE);
	CHECK(is_adopted(bytes + PAGE) && !is_adopted(bytes));
	/* The same page by another key, which ends first. */
	struct ibv_mr *other = reg(bytes + 2 * PAGE - 50, 3 * PAGE);
	CHECK(!ibv_dereg_mr(mr) && is_adopted(bytes + PAGE));
	CHECK(!ibv_dereg_mr(other) && !is_adopted(bytes + PAGE));
	are(bytes, BYTES, 2, "deregistered again");
}

/* Threads may write at any time: nothing moves, neither there nor back. */
static void threads(void)
{
	unsigned char *early = map(BYTES), *late = map(BYTES);
	memset(early, 1, BYTES);
	struct ibv_mr *first = reg(early, BYTES);
	CHECK(is_adopted(early));
	start_thread(sleep_for_ever, NULL);
	struct ibv_mr *second = reg(late, BYTES);
	CHECK(!is_adopted(late));
	CHECK(!ibv_dereg_mr(first) && !ibv_dereg_mr(second));
	are(early, BYTES, 1, "deregistered while there are threads");
	CHECK(is_adopted(early));
	/* The memory behaves as private memory does: it grows, and it can be freed. */
	unsigned char *grown = mremap(early, BYTES, 4 * BYTES, MREMAP_MAYMOVE);
	CHECK(grown != MAP_FAILED);
	are(grown, BYTES, 1, "grown");
	are(grown + BYTES, 3 * BYTES, 0, "the added bytes");
	memset(grown, 3, 4 * BYTES);
	CHECK(!madvise(grown, 4 * BYTES, MADV_DONTNEED));
	are(grown, 4 * BYTES, 0, "given back");
	CHECK(!munmap(grown, 4 * BYTES));
}

struct ring {
	int fd;
	struct io_uring_params params;
	unsigned char *sq, *cq;
	struct io_uring_sqe *sqes;
};

/* Nothing where the kernel forbids it. */
static int open_ring(struct ring *ring)
{
	ring->fd = syscall(SYS_io_uring_setup, 8, &ring->params);
	if (ring->fd < 0)
		return 0;
	struct io_uring_params *p = &ring->params;
	int rights = PROT_READ | PROT_WRITE;
	ring->sq = mmap(NULL, p->sq_off.array + p->sq_entries * 4, rights, MAP_SHARED, ring->fd, IORING_OFF_SQ_RING);
	ring->cq = mmap(NULL, p->cq_off.cqes + p->cq_entries * 16, rights, MAP_SHARED, ring->fd, IORING_OFF_CQ_RING);
	ring->sqes = mmap(NULL, p->sq_entries * sizeof(struct io_uring_sqe), rights, MAP_SHARED, ring->fd, IORING_OFF_SQES);
	CHECK(ring->sq != MAP_FAILED && ring->cq != MAP_FAILED && ring->sqes != MAP_FAILED);
	return 1;
}

static void fix_buffer(struct ring *ring, void *bytes, size_t len)
{
	struct iovec buffer = { bytes, len };
	CHECK(!syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_BUFFERS, &buffer, 1));
}

static int transfer(struct ring *ring, int op, int file, void *bytes, size_t len)
{
	unsigned *tail = (unsigned *)(ring->sq + ring->params.sq_off.tail);
	unsigned mask = *(unsigned *)(ring->sq + ring->params.sq_off.ring_mask), at = *tail & mask;
	ring->sqes[at] = (struct io_uring_sqe){ .opcode = op, .fd = file, .addr = (uintptr_t)bytes, .len = len };
	((unsigned *)(ring->sq + ring->params.sq_off.array))[at] = at;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	CHECK(syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
	unsigned *head = (unsigned *)(ring->cq + ring->params.cq_off.head);
	unsigned cq_mask = *(unsigned *)(ring->cq + ring->params.cq_off.ring_mask);
	int result = ((struct io_uring_cqe *)(ring->cq + ring->params.cq_off.cqes))[*head & cq_mask].res;
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return result;
}

/* The kernel reads and writes the program's pages, not others. */
static void transfers(struct ring *ring, unsigned char *bytes, const char *what)
{
	int file = file_of(0x42, BYTES, 0);
	memset(bytes, 0, BYTES);
	CHECK(transfer(ring, IORING_OP_READ_FIXED, file, bytes, BYTES) == BYTES, "%s", what);
	are(bytes, BYTES, 0x42, what);
	memset(bytes, 0x77, BYTES);
	CHECK(transfer(ring, IORING_OP_WRITE_FIXED, file, bytes, BYTES) == BYTES, "%s", what);
	unsigned char *seen = map(BYTES);
	CHECK(pread(file, seen, BYTES, 0) == BYTES);
	are(seen, BYTES, 0x77, what);
	munmap(seen, BYTES);
	close(file);
}

static void uring(void)
{
	struct ring ring = { 0 };
	unsigned char *bytes = map(BYTES), *other = map(BYTES);
	memset(bytes, 1, BYTES);
	struct ibv_mr *mr = reg(bytes, BYTES);
	CHECK(is_adopted(bytes));
	if (!open_ring(&ring)) {
		fprintf(stderr, "no io_uring here: %s\n", strerror(errno));
		return;
	}
	fix_buffer(&ring, bytes, BYTES);
	transfers(&ring, bytes, "registered, then fixed");
	/* A child has its own copy, and the parent keeps the pages that the kernel has. */
	memset(bytes, 5, BYTES);
	int go[2];
	CHECK(!pipe(go));
	pid_t child = fork();
	if (!child) {
		char byte;
		close(go[1]);
		CHECK(read(go[0], &byte, 1) == 0);
		are(bytes, BYTES, 5, "a child's copy");
		_exit(31);
	}
	transfers(&ring, bytes, "after a fork");
	close(go[1]);
	CHECK(ends_with(child) == 31);
	CHECK(!ibv_dereg_mr(mr));
	transfers(&ring, bytes, "deregistered, still fixed");
	/* Fixed before it is registered, by a ring whose descriptor is gone. */
	struct ring second = { 0 };
	CHECK(open_ring(&second));
	fix_buffer(&second, other, BYTES);
	CHECK(!syscall(SYS_io_uring_register, ring.fd, IORING_UNREGISTER_BUFFERS, NULL, 0) && !close(ring.fd));
	mr = reg(other, BYTES);
	CHECK(!is_adopted(other));
	transfers(&second, other, "fixed, then registered");
	CHECK(!ibv_dereg_mr(mr));
	transfers(&second, other, "fixed, registered, deregistered");
}

static atomic_int done;

static void *register_all_the_time(void *bytes)
{
	while (!done) {
		struct ibv_mr *mr = reg(bytes, BYTES);
		CHECK(!ibv_dereg_mr(mr));
	}
	return NULL;
}

/* Direct reads by one thread while another registers: no error, no wrong byte. */
static void direct(void)
{
	unsigned char *bytes = map(BYTES);
	/* Registered once while there is one thread. */
	struct ibv_mr *mr = reg(bytes, BYTES);
	int file = file_of(0x42, BYTES, O_DIRECT);
	pthread_t thread;
	CHECK(!pthread_create(&thread, NULL, register_all_the_time, bytes));
	for (int round = 0; round < 300; round++) {
		memset(bytes, 0, BYTES);
		CHECK(pread(file, bytes, BYTES, 0) == BYTES, "round %d", round);
		are(bytes, BYTES, 0x42, "a direct read");
		if (round == 150)
			CHECK(!ibv_dereg_mr(mr));
	}
	done = 1;
	CHECK(!pthread_join(thread, NULL));
}

/* The child sees the memory of the moment of the fork, however late it reads; the parent continues. */
static void children(void)
{
	unsigned char *bytes = map(BYTES);
	memset(bytes, 1, BYTES);
	struct ibv_mr *mr = reg(bytes, BYTES);
	CHECK(is_adopted(bytes));
	int go[2];
	CHECK(!pipe(go));
	pid_t child = fork();
	if (!child) {
		char byte;
		close(go[1]);
		CHECK(read(go[0], &byte, 1) == 0);
		are(bytes, BYTES, 1, "a child that was late");
		memset(bytes, 3, BYTES);
		CHECK(!madvise(bytes, PAGE, MADV_DONTNEED));
		are(bytes, PAGE, 0, "given back by a child");
		_exit(31);
	}
	memset(bytes, 2, BYTES);
	/* The device reaches the memory that the program sees. */
	struct ibv_cq *cq = ibv_create_cq(pd->context, 8, NULL, NULL, 0);
	struct ibv_qp *from = make_qp(pd, cq, IBV_QPT_RC), *to = make_qp(pd, cq, IBV_QPT_RC);
	connect_rc(from, to->qp_num, first_gid(pd->context));
	connect_rc(to, from->qp_num, first_gid(pd->context));
	unsigned char *seen = map(PAGE);
	struct ibv_mr *into = reg(seen, PAGE);
	struct ibv_sge sge = { (uintptr_t)seen, PAGE, into->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ }, *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)bytes;
	wr.wr.rdma.rkey = mr->rkey;
	CHECK(!ibv_post_send(from, &wr, &bad) && next_wc(cq).status == IBV_WC_SUCCESS);
	are(seen, PAGE, 2, "read from the parent");
	close(go[1]);
	CHECK(ends_with(child) == 31);
	are(bytes, BYTES, 2, "the parent's");
	CHECK(!madvise(bytes, PAGE, MADV_DONTNEED));
	are(bytes, PAGE, 0, "given back by a parent");
	CHECK(!ibv_dereg_mr(mr));
	are(bytes + PAGE, BYTES - PAGE, 2, "deregistered after a fork");
}

static volatile uint64_t *first_word, *last_word;

static void *count_up(void *unused)
{
	for (uint64_t i = 1; !done; i++) {
		*first_word = i;
		__sync_synchronize();
		*last_word = i;
	}
	return unused;
}

/* A thread stores to the first page and then to the last: nobody may see only the last store. */
static void snapshots(void)
{
	size_t len = 16 << 20;
	unsigned char *bytes = map(len);
	memset(bytes, 0, len);
	reg(bytes, len);
	CHECK(is_adopted(bytes));
	first_word = (uint64_t *)(bytes + 64);
	last_word = (uint64_t *)(bytes + len - 64);
	pthread_t thread;
	CHECK(!pthread_create(&thread, NULL, count_up, NULL));
	for (int round = 0; round < 20; round++) {
		pid_t child = fork();
		if (!child)
			_exit(*first_word - *last_word > 1);
		CHECK(ends_with(child) == 0, "an impossible snapshot, round %d", round);
	}
	done = 1;
	CHECK(!pthread_join(thread, NULL));
}

/* No room for a second copy: a fork needs none. */
static void limited(void)
{
	size_t len = 128 << 20;
	unsigned char *bytes = map(len);
	memset(bytes, 1, len);
	reg(bytes, len);
	CHECK(is_adopted(bytes));
	long pages;
	FILE *used = fopen("/proc/self/statm", "r");
	CHECK(used && fscanf(used, "%ld", &pages) == 1);
	fclose(used);
	rlim_t most = pages * PAGE + (16 << 20);
	CHECK(!setrlimit(RLIMIT_AS, &(struct rlimit){ most, most }));
	pid_t child = fork();
	if (!child)
		_exit(bytes[100] == 1 && bytes[len - 1] == 1 ? 31 : 1);
	CHECK(ends_with(child) == 31);
}

static void *post_later(void *semaphore)
{
	usleep(200000);
	CHECK(!sem_post(semaphore));
	return NULL;
}

static sem_t *answered;

static void *answer(void *semaphore)
{
	CHECK(!sem_wait(semaphore));
	CHECK(!sem_post(answered));
	return NULL;
}

/* A semaphore that is shared between processes wakes its waiter even if its page moves. */
static void semaphores(void)
{
	unsigned char *bytes = map(BYTES);
	struct ibv_mr *mr = reg(bytes, BYTES);
	CHECK(is_adopted(bytes));
	sem_t *question = (sem_t *)bytes;
	answered = (sem_t *)(bytes + PAGE);
	CHECK(!sem_init(question, 1, 0) && !sem_init(answered, 1, 0));
	start_thread(answer, question);
	/* Until it waits, as far as the kernel tells. */
	usleep(100000);
	pid_t child = fork();
	if (!child)
		_exit(31);
	CHECK(ends_with(child) == 31);
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!sem_post(question));
	struct timespec soon;
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_sec += 30;
	CHECK(!sem_timedwait(answered, &soon), "a lost wake-up");
	/* A waiter from before the registration. */
	unsigned char *late = map(BYTES);
	CHECK(!sem_init((sem_t *)late, 1, 0));
	start_thread(post_later, late);
	mr = reg(late, BYTES);
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_sec += 30;
	CHECK(!sem_timedwait((sem_t *)late, &soon), "a lost wake-up");
	CHECK(!ibv_dereg_mr(mr));
}

/* MADV_DONTNEED gives zeros, and marked memory keeps its mark. */
static void advice(void)
{
	unsigned char *bytes = map(BYTES);
	memset(bytes, 1, BYTES);
	struct ibv_mr *mr = reg(bytes, BYTES);
	CHECK(is_adopted(bytes));
	CHECK(!madvise(bytes + PAGE, PAGE, MADV_DONTNEED));
	are(bytes, PAGE, 1, "before what was given back");
	are(bytes + PAGE, PAGE, 0, "given back");
	are(bytes + 2 * PAGE, BYTES - 2 * PAGE, 1, "behind the returned pages");
	CHECK(!madvise(bytes, PAGE, MADV_FREE) && !madvise(bytes, BYTES, MADV_WILLNEED));
	CHECK(madvise(bytes, BYTES, 12345) == -1 && errno == EINVAL);
	CHECK(madvise(bytes + 1, PAGE, MADV_DONTNEED) == -1 && errno == EINVAL);
	bytes[PAGE] = 7;
	CHECK(!ibv_dereg_mr(mr) && bytes[PAGE] == 7 && !is_adopted(bytes));
	/* Together with other memory on both sides. */
	mr = reg(bytes + 4 * PAGE, 2 * PAGE);
	CHECK(is_adopted(bytes + 4 * PAGE));
	CHECK(!madvise(bytes, BYTES, MADV_DONTNEED));
	are(bytes, BYTES, 0, "all given back");
	CHECK(!ibv_dereg_mr(mr));
	unsigned char *secret = map(BYTES);
	memset(secret, 1, BYTES);
	CHECK(!madvise(secret, BYTES, MADV_WIPEONFORK));
	reg(secret, BYTES);
	CHECK(!is_adopted(secret));
	pid_t child = fork();
	if (!child)
		_exit(secret[5] == 0 ? 31 : 1);
	CHECK(ends_with(child) == 31);
}

/* The library's own descriptors, however many it opens and closes, keep no memory from adoption. */
static void reopened(void)
{
	enum { TIMES = 300 };
	struct ibv_context *first = pd->context;
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(first));
	for (int i = 0; i < TIMES; i++) {
		struct ibv_context *context = open_first();
		struct ibv_pd *own = ibv_alloc_pd(context);
		struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
		struct ibv_qp *qp = make_qp(own, cq, IBV_QPT_RC);
		CHECK(own && cq && qp);
		connect_rc(qp, qp->qp_num, first_gid(context));
		CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(own) && !ibv_close_device(context));
	}
	CHECK((pd = ibv_alloc_pd(open_first())));
	unsigned char *bytes = map(BYTES);
	struct ibv_mr *mr = reg(bytes, BYTES);
	CHECK(is_adopted(bytes) && !ibv_dereg_mr(mr));
}

int main(int count, char **arguments)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} CASES[] = {
		{ "alone", alone }, { "threads", threads }, { "uring", uring }, { "direct", direct },
		{ "children", children }, { "snapshots", snapshots }, { "limited", limited },
		{ "semaphores", semaphores }, { "advice", advice }, { "reopened", reopened },
	};
	CHECK(count == 2);
	pd = ibv_alloc_pd(open_first());
	CHECK(pd);
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++)
		if (!strcmp(CASES[i].name, arguments[1])) {
			CASES[i].run();
			puts("as on a card");
			return 0;
		}
	CHECK(0, "no such case");
}
