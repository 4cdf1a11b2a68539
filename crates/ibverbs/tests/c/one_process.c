/*
 * Both ends of 1,000 connections in one process: every operation on each, checked byte by byte, by one thread and by
 * many. Also datagrams, a queue pair connected to itself, and peers in the same process and in an executed child. No
 * UDP datagram leaves: nothing else uses this network namespace.
 */
#include "peer.h"
#include <pthread.h>

enum { PAIRS = 1000, THREADS = 50, BYTES = 5000, PART = 2 * BYTES, PATIENCE_SECONDS = 120 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static union ibv_gid gid;

struct pair {
	struct ibv_cq *cq;
	struct ibv_qp *from, *to;
	unsigned char *bytes;
	struct ibv_mr *mr;
};

static unsigned long datagrams_sent(void)
{
	char line[512];
	unsigned long sent = 0;
	FILE *file = fopen("/proc/net/snmp", "r");
	CHECK(file);
	while (fgets(line, sizeof(line), file))
		sscanf(line, "Udp: %*u %*u %*u %lu", &sent);
	fclose(file);
	return sent;
}

static void fill(unsigned char *bytes, unsigned seed)
{
	for (int at = 0; at < BYTES; at++)
		bytes[at] = seed * 31 + at * 7 + at / 251;
}

static struct pair open_pair(unsigned char *bytes, struct ibv_mr *mr)
{
	struct pair pair = { .cq = ibv_create_cq(context, 64, NULL, NULL, 0), .bytes = bytes, .mr = mr };
	CHECK(pair.cq);
	pair.from = make_qp(pd, pair.cq, IBV_QPT_RC);
	pair.to = make_qp(pd, pair.cq, IBV_QPT_RC);
	CHECK(pair.from && pair.to);
	connect_rc(pair.from, pair.to->qp_num, gid);
	connect_rc(pair.to, pair.from->qp_num, gid);
	return pair;
}

static void await(struct pair *pair, int count)
{
	while (count--) {
		struct ibv_wc wc = next_wc(pair->cq);
		CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
	}
}

/* Posts one operation; returns how many completions it has. */
static int begin(struct pair *pair, enum ibv_wr_opcode opcode, unsigned seed)
{
	unsigned char *here = pair->bytes, *there = here + BYTES;
	uint32_t len = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : BYTES - seed % 3 * 2000;
	fill(here, seed);
	memset(there, 0, BYTES);
	if (opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		fill(there, seed + 1);
	if (opcode == IBV_WR_SEND)
		CHECK(!post_receive(pair->to, there, BYTES, pair->mr->lkey, 0));
	CHECK(!post(pair->from, opcode, here, len, pair->mr->lkey, (uintptr_t)there, pair->mr->rkey, 0));
	return opcode == IBV_WR_SEND ? 2 : 1;
}

static void check(struct pair *pair, enum ibv_wr_opcode opcode, unsigned seed)
{
	static __thread unsigned char expected[BYTES];
	unsigned char *here = pair->bytes, *there = here + BYTES;
	uint64_t before, after;
	fill(expected, seed + 1);
	switch (opcode) {
	case IBV_WR_RDMA_READ:
		CHECK(!memcmp(here, expected, BYTES - seed % 3 * 2000), "read %u", seed);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		CHECK(!memcmp(here, expected, 8), "atomic %u", seed);
		memcpy(&before, expected, 8);
		memcpy(&after, there, 8);
		CHECK(after == before + 1, "atomic %u", seed);
		break;
	default:
		CHECK(!memcmp(here, there, BYTES - seed % 3 * 2000), "opcode %d %u", opcode, seed);
	}
}

static const enum ibv_wr_opcode OPCODES[] = {
	IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
};

/* All of them together, by one thread. */
static void together(struct pair *pairs)
{
	for (int which = 0; which < 4; which++) {
		int count = 0;
		for (int i = 0; i < PAIRS; i++)
			count = begin(&pairs[i], OPCODES[which], i);
		for (int i = 0; i < PAIRS; i++) {
			await(&pairs[i], count);
			check(&pairs[i], OPCODES[which], i);
		}
	}
}

/* Each of many threads waits for its own pairs, one after the other. */
static void *work(void *argument)
{
	struct pair *pairs = argument;
	for (int i = 0; i < PAIRS / THREADS; i++)
		for (int which = 0; which < 4; which++) {
			await(&pairs[i], begin(&pairs[i], OPCODES[which], i));
			check(&pairs[i], OPCODES[which], i);
		}
	return NULL;
}

static void by_threads(struct pair *pairs)
{
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, pairs + i * (PAIRS / THREADS)));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

static void to_itself(struct pair *pair)
{
	struct pair alone = { .cq = pair->cq, .bytes = pair->bytes, .mr = pair->mr };
	alone.from = alone.to = make_qp(pd, alone.cq, IBV_QPT_RC);
	CHECK(alone.from);
	connect_rc(alone.from, alone.from->qp_num, gid);
	for (int which = 0; which < 4; which++) {
		await(&alone, begin(&alone, OPCODES[which], 5));
		check(&alone, OPCODES[which], 5);
	}
	CHECK(!ibv_destroy_qp(alone.from));
}

static struct ibv_qp *datagram_qp(struct ibv_cq *cq)
{
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_UD);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1234 };
	CHECK(qp && !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	return qp;
}

static void datagrams(struct pair *pair)
{
	struct ibv_qp *from = datagram_qp(pair->cq), *to = datagram_qp(pair->cq);
	struct ibv_ah_attr attr = ah_to(gid);
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	CHECK(ah);
	for (unsigned seed = 0; seed < 100; seed++) {
		unsigned char *here = pair->bytes, *there = here + BYTES;
		fill(here, seed);
		CHECK(!post_receive(to, there, 40 + 1000, pair->mr->lkey, 0));
		struct ibv_sge sge = { (uintptr_t)here, 1000, pair->mr->lkey };
		struct ibv_send_wr wr = {
			.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
			.wr.ud = { .ah = ah, .remote_qpn = to->qp_num, .remote_qkey = 0x1234 },
		}, *bad;
		CHECK(!ibv_post_send(from, &wr, &bad));
		await(pair, 2);
		CHECK(!memcmp(here, there + 40, 1000), "datagram %u", seed);
	}
	CHECK(!ibv_destroy_ah(ah) && !ibv_destroy_qp(from) && !ibv_destroy_qp(to));
}

/* The other process: takes one message and answers with it. */
static int echo(void)
{
	begin_peer();
	context = open_first();
	pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	static unsigned char bytes[BYTES];
	struct ibv_mr *mr = ibv_reg_mr(pd, bytes, BYTES, ALL_ACCESS);
	CHECK(qp && mr && !to_init(qp) && !post_receive(qp, bytes, BYTES, mr->lkey, 0));
	struct address peer = exchange(PARENT, qp, mr);
	CHECK(!to_rtr(qp, peer.qpn, peer.gid) && !to_rts(qp));
	both_are_ready(PARENT);
	CHECK(next_wc(cq).status == IBV_WC_SUCCESS);
	CHECK(!post(qp, IBV_WR_SEND, bytes, BYTES, mr->lkey, 0, 0, 0) && next_wc(cq).status == IBV_WC_SUCCESS);
	char over;
	return read(PARENT, &over, 1) < 0;
}

/* A process with a link to itself still reaches other peers. */
static void to_another_process(struct pair *pair)
{
	struct peer peer = start_peer("echo", 0);
	struct pair one = { .cq = pair->cq, .from = make_qp(pd, pair->cq, IBV_QPT_RC), .bytes = pair->bytes, .mr = pair->mr };
	CHECK(one.from);
	meet_peer(peer.socket, one.from, one.mr);
	fill(one.bytes, 9);
	memset(one.bytes + BYTES, 0, BYTES);
	CHECK(!post_receive(one.from, one.bytes + BYTES, BYTES, one.mr->lkey, 0));
	CHECK(!post(one.from, IBV_WR_SEND, one.bytes, BYTES, one.mr->lkey, 0, 0, 0));
	await(&one, 2);
	CHECK(!memcmp(one.bytes, one.bytes + BYTES, BYTES));
	end_peer(&peer, SIGKILL);
	CHECK(!ibv_destroy_qp(one.from));
}

int main(int count, char **arguments)
{
	if (count > 1 && !strcmp(arguments[1], "echo"))
		return echo();
	alarm(PATIENCE_SECONDS * 4);
	context = open_first();
	gid = first_gid(context);
	pd = ibv_alloc_pd(context);
	unsigned char *bytes = malloc(PAIRS * PART);
	struct ibv_mr *mr = ibv_reg_mr(pd, bytes, PAIRS * PART, ALL_ACCESS);
	CHECK(pd && bytes && mr);
	struct pair *pairs = calloc(PAIRS, sizeof(*pairs));
	for (int i = 0; i < PAIRS; i++)
		pairs[i] = open_pair(bytes + i * PART, mr);
	together(pairs);
	by_threads(pairs);
	to_itself(&pairs[0]);
	datagrams(&pairs[0]);
	to_another_process(&pairs[0]);
	for (int i = 0; i < PAIRS; i++) {
		/* Either end first. */
		CHECK(!ibv_destroy_qp(i % 2 ? pairs[i].from : pairs[i].to));
		CHECK(!ibv_destroy_qp(i % 2 ? pairs[i].to : pairs[i].from));
		CHECK(!ibv_destroy_cq(pairs[i].cq));
	}
	CHECK(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	unsigned long sent = datagrams_sent();
	CHECK(sent == 0, "%lu datagrams", sent);
	puts("without packets");
	return 0;
}
