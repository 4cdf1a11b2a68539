/*
 * Processes are killed at random moments while they and this one send, write, read and add on
 * connections of this host. Requests to them fail in bounded time, all objects can be destroyed,
 * a third process is served all the time, and nothing is left behind. Halfway the hub is
 * killed as well. LONGARM_TEST_KILLS is the number of processes to kill.
 */
#include "peer.h"
#include <dirent.h>
#include <pthread.h>

enum { BLOCK = 100000, SHORT = 64, LONG = 32768, DEPTH = 8, RECEIVES = 16, FRIENDS = 100 };

/* The memory that a process shows its peer: bytes that never change, a counter, and room to write. */
struct window {
	unsigned char fixed[BLOCK];
	_Alignas(8) uint64_t counter;
	unsigned char room[BLOCK];
};

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
};

static struct side open_side(void)
{
	struct side side = { .context = open_first() };
	side.pd = ibv_alloc_pd(side.context);
	side.cq = ibv_create_cq(side.context, 1000, NULL, NULL, 0);
	CHECK(side.pd && side.cq);
	return side;
}

/* A connection on which this process asks, or answers. */
struct half {
	struct ibv_qp *qp;
	struct ibv_mr *mr, *window_mr;
	struct window *window;
	unsigned char *bytes; /* a slot of LONG bytes or a BLOCK for each request */
	struct address peer;
	uint64_t posted, completed, adds, received;
	enum ibv_wr_opcode kind[DEPTH];
	uint32_t len[DEPTH];
	int failed;
};

static size_t slot_bytes(int asks)
{
	return asks ? BLOCK : LONG;
}

static struct half open_half(struct side *side, int asks, int fill)
{
	struct half half = { 0 };
	size_t len = (asks ? DEPTH : RECEIVES) * slot_bytes(asks);
	half.bytes = malloc(len);
	half.window = malloc(sizeof(*half.window));
	memset(half.bytes, 0, len);
	memset(half.window, 0, sizeof(*half.window));
	memset(half.window->fixed, fill, BLOCK);
	half.mr = ibv_reg_mr(side->pd, half.bytes, len, ALL_ACCESS);
	half.window_mr = ibv_reg_mr(side->pd, half.window, sizeof(*half.window), ALL_ACCESS);
	half.qp = make_qp(side->pd, side->cq, IBV_QPT_RC);
	CHECK(half.mr && half.window_mr && half.qp);
	return half;
}

static void close_half(struct half *half)
{
	CHECK(!ibv_destroy_qp(half->qp));
	CHECK(!half->window_mr || !ibv_dereg_mr(half->window_mr));
	CHECK(!ibv_dereg_mr(half->mr));
	free(half->bytes);
	free(half->window);
}

static void receive_one(struct half *half, uint64_t slot)
{
	CHECK(!post_receive(half->qp, half->bytes + slot * LONG, LONG, half->mr->lkey, slot));
}

static uint32_t any(uint32_t below)
{
	static uint64_t state = 88172645463325252ull;
	state ^= state << 13, state ^= state >> 7, state ^= state << 17;
	return (uint32_t)(state >> 33) % below;
}

static void ask_one(struct half *half)
{
	uint64_t slot = half->posted % DEPTH, at = half->peer.addr;
	unsigned char *bytes = half->bytes + slot * BLOCK;
	uint32_t len = any(2) ? BLOCK : SHORT;
	enum ibv_wr_opcode opcode = IBV_WR_RDMA_READ;
	switch (any(4)) {
	case 0:
		opcode = IBV_WR_SEND;
		len = any(2) ? LONG : SHORT;
		memset(bytes, (int)half->posted, len);
		memcpy(bytes, &half->posted, 8);
		break;
	case 1:
		opcode = IBV_WR_RDMA_WRITE;
		at += offsetof(struct window, room);
		break;
	case 2:
		opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		len = 8;
		at += offsetof(struct window, counter);
		break;
	}
	half->kind[slot] = opcode;
	half->len[slot] = len;
	CHECK(!post(half->qp, opcode, bytes, len, half->mr->lkey, at, half->peer.rkey, slot));
	half->posted++;
}

/* Checks the bytes that a request brought. Requests end in order. */
static void asked(struct half *half, const struct ibv_wc *wc, int fill)
{
	uint64_t slot = half->completed++ % DEPTH;
	CHECK(wc->wr_id == slot);
	if (wc->status != IBV_WC_SUCCESS) {
		enum ibv_wc_status expected = half->failed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR;
		int revoked = !half->failed && wc->status == IBV_WC_REM_ACCESS_ERR;
		CHECK(wc->status == expected || revoked, "%s", ibv_wc_status_str(wc->status));
		half->failed = 1;
		return;
	}
	CHECK(!half->failed);
	unsigned char *bytes = half->bytes + slot * BLOCK;
	if (half->kind[slot] == IBV_WR_RDMA_READ)
		for (uint32_t i = 0; i < half->len[slot]; i++)
			CHECK(bytes[i] == (unsigned char)fill, "byte %u of a READ is %d", i, bytes[i]);
	if (half->kind[slot] == IBV_WR_ATOMIC_FETCH_AND_ADD)
		CHECK(*(uint64_t *)bytes == half->adds++);
}

/* A message is whole and came in its turn. */
static void answered(struct half *half, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS) {
		CHECK(wc->status == IBV_WC_WR_FLUSH_ERR);
		half->failed++;
		return;
	}
	unsigned char *bytes = half->bytes + wc->wr_id * LONG;
	uint64_t number;
	memcpy(&number, bytes, 8);
	CHECK(number >= half->received, "message %" PRIu64 " after %" PRIu64, number, half->received);
	half->received = number + 1;
	for (uint32_t i = 8; i < wc->byte_len; i++)
		CHECK(bytes[i] == (unsigned char)number, "byte %u of a message", i);
	receive_one(half, wc->wr_id);
}

/* --- the process that is killed --- */

static void be_victim(int number)
{
	struct side side = open_side();
	/* It answers first, since its peer asks on its own first connection. */
	struct half answers = open_half(&side, 0, number), asks = open_half(&side, 1, 0);
	CHECK(!to_init(answers.qp));
	for (int i = 0; i < RECEIVES; i++)
		receive_one(&answers, i);
	struct address peer = exchange(PARENT, answers.qp, answers.window_mr);
	CHECK(!to_rtr(answers.qp, peer.qpn, peer.gid) && !to_rts(answers.qp));
	asks.peer = exchange(PARENT, asks.qp, asks.window_mr);
	connect_rc(asks.qp, asks.peer.qpn, asks.peer.gid);
	both_are_ready(PARENT);
	struct ibv_wc wc;
	for (;;) {
		while (!asks.failed && asks.posted - asks.completed < DEPTH)
			ask_one(&asks);
		while (ibv_poll_cq(side.cq, 1, &wc) == 1) {
			if (wc.qp_num == asks.qp->qp_num)
				asked(&asks, &wc, 0xee);
			else
				answered(&answers, &wc);
		}
	}
}

/* --- the process that lives --- */

static void be_friend(int number)
{
	(void)number;
	struct side side = open_side();
	struct ibv_qp *qp = make_qp(side.pd, side.cq, IBV_QPT_RC);
	char *bytes = malloc(SHORT);
	struct ibv_mr *mr = ibv_reg_mr(side.pd, bytes, SHORT, ALL_ACCESS);
	CHECK(qp && mr && !to_init(qp));
	CHECK(!post_receive(qp, bytes, SHORT, mr->lkey, 1));
	meet_peer(PARENT, qp, mr);
	struct ibv_wc wc;
	for (;;) {
		if (ibv_poll_cq(side.cq, 1, &wc) == 0)
			continue;
		CHECK(wc.status == IBV_WC_SUCCESS, "friend: %s", ibv_wc_status_str(wc.status));
		if (wc.opcode == IBV_WC_RECV)
			CHECK(!post(qp, IBV_WR_SEND, bytes, SHORT, mr->lkey, 0, 0, 2));
		else
			CHECK(!post_receive(qp, bytes, SHORT, mr->lkey, 1));
	}
}

struct friend {
	struct peer peer;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *bytes;
};

static struct friend make_friend(struct side *side)
{
	struct friend friend = { .peer = start_peer("friend", 0), .bytes = malloc(2 * SHORT) };
	friend.qp = make_qp(side->pd, side->cq, IBV_QPT_RC);
	friend.mr = ibv_reg_mr(side->pd, friend.bytes, 2 * SHORT, ALL_ACCESS);
	CHECK(friend.qp && friend.mr);
	meet_peer(friend.peer.socket, friend.qp, friend.mr);
	return friend;
}

/* A message there and back, on the queue that dead peers have used. */
static void talk(struct side *side, struct friend *friend, int number)
{
	char *out = friend->bytes, *in = out + SHORT;
	memset(out, number, SHORT);
	memset(in, ~number, SHORT);
	CHECK(!post_receive(friend->qp, in, SHORT, friend->mr->lkey, 1));
	CHECK(!post(friend->qp, IBV_WR_SEND, out, SHORT, friend->mr->lkey, 0, 0, 2));
	for (int left = 2; left; left--) {
		struct ibv_wc wc = next_wc(side->cq);
		CHECK(wc.qp_num == friend->qp->qp_num && wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
	}
	CHECK(!memcmp(in, out, SHORT));
}

/* --- rounds --- */

struct killing {
	pid_t pid;
	long us;
};

static void *kill_later(void *argument)
{
	struct killing *killing = argument;
	struct timespec time = { 0, killing->us * 1000 };
	nanosleep(&time, NULL);
	CHECK(!kill(killing->pid, SIGKILL));
	return NULL;
}

static double slowest;

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

/* Sends and receives until the peer is gone, or for a while. */
static void traffic(struct side *side, struct half *asks, struct half *answers, int fill, double end)
{
	struct ibv_wc wc;
	double begin = seconds();
	while (!asks->failed && (end == 0 || seconds() < end)) {
		while (!asks->failed && asks->posted - asks->completed < DEPTH)
			ask_one(asks);
		while (ibv_poll_cq(side->cq, 1, &wc) == 1) {
			if (wc.qp_num == asks->qp->qp_num)
				asked(asks, &wc, fill);
			else
				answered(answers, &wc);
		}
		CHECK(seconds() - begin < 60, "nobody noticed");
	}
}

/* Everything that is posted still comes back. */
static void flush(struct side *side, struct half *asks, struct half *answers)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	CHECK(!ibv_modify_qp(answers->qp, &error, IBV_QP_STATE) && !ibv_modify_qp(asks->qp, &error, IBV_QP_STATE));
	asks->failed |= asks->posted == asks->completed;
	while (asks->completed < asks->posted || answers->failed < RECEIVES) {
		struct ibv_wc wc = next_wc(side->cq);
		if (wc.qp_num == asks->qp->qp_num)
			asked(asks, &wc, 0);
		else
			answered(answers, &wc);
	}
}

static int hears(int socket, void *bytes, size_t len)
{
	return recv(socket, bytes, len, MSG_WAITALL) == (ssize_t)len;
}

/* Connects both; false if the peer is gone before that. */
static int meets(int socket, struct half *asks, struct half *answers)
{
	struct half *halves[] = { asks, answers };
	for (int i = 0; i < 2; i++) {
		struct half *half = halves[i];
		struct ibv_mr *mr = half->window_mr;
		struct address own = { half->qp->qp_num, mr->rkey, (uintptr_t)mr->addr, first_gid(half->qp->context) };
		if (send(socket, &own, sizeof(own), MSG_NOSIGNAL) != sizeof(own) || !hears(socket, &half->peer, sizeof(half->peer)))
			return 0;
		CHECK(!to_rtr(half->qp, half->peer.qpn, half->peer.gid) && !to_rts(half->qp));
	}
	char ready = 1;
	return send(socket, &ready, 1, MSG_NOSIGNAL) == 1 && hears(socket, &ready, 1);
}

/* A page of memory that was taken back from the peer stays as it is. */
static void take_back(struct half *answers)
{
	CHECK(!ibv_dereg_mr(answers->window_mr));
	answers->window_mr = NULL;
	memset(answers->window->room, 0x55, BLOCK);
}

static void round_of(struct side *side, struct friend *friend, int number)
{
	int fill = number & 0x7f, early = number % 5 == 4, takes_back = number % 3 == 1;
	struct half asks = open_half(side, 1, 0), answers = open_half(side, 0, 0xee);
	CHECK(!to_init(asks.qp) && !to_init(answers.qp));
	for (int i = 0; i < RECEIVES; i++)
		receive_one(&answers, i);
	struct peer victim = start_peer("victim", fill);
	struct killing killing = { victim.pid, early ? any(30000) : any(8000) };
	pthread_t killer;
	if (early)
		CHECK(!pthread_create(&killer, NULL, kill_later, &killing));
	int met = meets(victim.socket, &asks, &answers);
	CHECK(met || early);
	if (!early)
		CHECK(!pthread_create(&killer, NULL, kill_later, &killing));
	double begin = seconds();
	if (met) {
		if (takes_back) {
			traffic(side, &asks, &answers, fill, begin + killing.us / 2e6);
			take_back(&answers);
		}
		traffic(side, &asks, &answers, fill, 0);
	}
	CHECK(!pthread_join(killer, NULL));
	CHECK(waitpid(victim.pid, NULL, 0) == victim.pid);
	close(victim.socket);
	flush(side, &asks, &answers);
	for (int i = 0; takes_back && met && i < BLOCK; i++)
		CHECK(answers.window->room[i] == 0x55, "written after it was taken back");
	close_half(&asks);
	close_half(&answers);
	talk(side, friend, number);
	if (seconds() - begin > slowest)
		slowest = seconds() - begin;
}

/* --- leftovers --- */

struct belongings {
	int descriptors, links, mappings;
	long kib;
};

/* Sockets for packets come with the first peer that dies before there is a link. */
enum { SPARE = 4 };

/* The hub that follows the killed one knows no links, so it may introduce the friend again: a second link. */
static const struct belongings AGAIN = { .descriptors = 3, .links = 2 };

/* A piece of the heap that was registered may stay shared. It is the program's memory still, and malloc chooses it. */
static struct belongings own_belongings(void)
{
	int adopted = mappings(getpid(), "longarm-adopted");
	struct belongings own = { .mappings = mappings(getpid(), NULL) };
	own.links = mappings(getpid(), "longarm") - adopted;
	DIR *directory = opendir("/proc/self/fd");
	while (readdir(directory))
		own.descriptors++;
	closedir(directory);
	FILE *status = fopen("/proc/self/status", "r");
	char line[256];
	while (fgets(line, sizeof(line), status))
		sscanf(line, "VmRSS: %ld", &own.kib);
	fclose(status);
	return own;
}

static void compare(struct belongings before)
{
	struct belongings now;
	time_t begin = time(NULL);
	do {
		usleep(10000);
		now = own_belongings();
	} while ((now.descriptors > before.descriptors + SPARE || now.links > before.links) && time(NULL) - begin < 30);
	fprintf(stderr, "descriptors %d, %d; of ours %d, %d; mappings %d, %d; KiB %ld, %ld; slowest %.3f s\n", before.descriptors,
		now.descriptors, before.links, now.links, before.mappings, now.mappings, before.kib, now.kib, slowest);
	CHECK(now.descriptors <= before.descriptors + SPARE && now.links <= before.links);
	CHECK(now.mappings <= before.mappings + 40);
	CHECK(now.kib <= before.kib + (24 << 10));
}

int main(int count, char **arguments)
{
	if (count == 3) {
		begin_peer();
		if (!strcmp(arguments[1], "victim"))
			be_victim(atoi(arguments[2]));
		be_friend(0);
	}
	const char *wanted = getenv("LONGARM_TEST_KILLS");
	int kills = wanted ? atoi(wanted) : 120, warm = 20;
	struct side side = open_side();
	struct friend friend = make_friend(&side);
	struct belongings before = { 0 };
	for (int number = 0; number < kills; number++) {
		if (number == warm)
			before = own_belongings();
		if (number == kills / 2) {
			compare(before);
			before.descriptors += AGAIN.descriptors;
			before.links += AGAIN.links;
			CHECK(!kill(hub(), SIGKILL));
			for (int i = 0; i < FRIENDS; i++)
				talk(&side, &friend, i);
		}
		round_of(&side, &friend, number);
	}
	compare(before);
	end_peer(&friend.peer, SIGKILL);
	puts("none is missed");
	return 0;
}
