/*
 * A process is stopped. Another one still reads, writes and adds in its memory, on one
 * host: heap that it registered, short and long, page by page and across pages. Messages wait.
 */
#include "peer.h"

enum { BYTES = 1 << 20, LONG = 64 << 10, ODD = 4096 - 24, STEP = 2 * LONG, WATCHED = 7 * LONG };

struct end {
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	unsigned char *bytes;
	struct address peer;
};

static struct end open_end(int fill, int socket)
{
	struct ibv_context *context = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct end end = { .cq = ibv_create_cq(context, 64, NULL, NULL, 0), .bytes = malloc(BYTES) };
	memset(end.bytes, fill, BYTES);
	end.mr = ibv_reg_mr(pd, end.bytes, BYTES, ALL_ACCESS);
	end.qp = make_qp(pd, end.cq, IBV_QPT_RC);
	CHECK(end.cq && end.mr && end.qp && !to_init(end.qp));
	for (int i = 0; i < 2; i++)
		CHECK(!post_receive(end.qp, end.bytes + BYTES / 2 + i * LONG, LONG, end.mr->lkey, i));
	end.peer = meet_peer(socket, end.qp, end.mr);
	return end;
}

/* The peer: prints the messages that have come, and then the contents of its memory. */
static void be_target(void)
{
	struct end end = open_end(7, PARENT);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = next_wc(end.cq);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == (i ? LONG : 8));
		CHECK(end.bytes[BYTES / 2 + i * LONG] == 9 && end.bytes[BYTES / 2 + i * LONG + wc.byte_len - 1] == 9);
	}
	say(PARENT, end.bytes, WATCHED);
	hear(PARENT, end.bytes, 1);
}

static char state_of(pid_t pid)
{
	char path[64], line[512];
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	FILE *stat = fopen(path, "r");
	CHECK(stat && fgets(line, sizeof(line), stat));
	fclose(stat);
	return strrchr(line, ')')[2];
}

static void run(struct end *end, enum ibv_wr_opcode opcode, uint32_t at, uint32_t len)
{
	CHECK(!post(end->qp, opcode, end->bytes + at, len, end->mr->lkey, end->peer.addr + at, end->peer.rkey, at));
	struct ibv_wc wc = next_wc(end->cq);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == at, "%s", ibv_wc_status_str(wc.status));
}

static int all_are(const unsigned char *bytes, size_t len, int value)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != value)
			return 0;
	return 1;
}

int main(int count, char **arguments)
{
	(void)arguments;
	if (count == 3) {
		begin_peer();
		be_target();
		return 0;
	}
	struct peer target = start_peer("target", 0);
	struct end end = open_end(9, target.socket);
	int links = mappings(getpid(), "longarm-link");
	CHECK(links == 1, "%d links: it is not the same host's way", links);
	CHECK(!kill(target.pid, SIGSTOP));
	while (state_of(target.pid) != 'T')
		usleep(1000);

	/* Long, and across the pages that a range begins and ends with. */
	static const uint32_t lens[] = { 8, LONG, ODD };
	for (int i = 0; i < 3; i++) {
		run(&end, IBV_WR_RDMA_READ, i * STEP, lens[i]);
		CHECK(all_are(end.bytes + i * STEP, lens[i], 7));
		memset(end.bytes + i * STEP, 8, lens[i]);
		run(&end, IBV_WR_RDMA_WRITE, i * STEP, lens[i]);
		memset(end.bytes + i * STEP, 0, lens[i]);
		run(&end, IBV_WR_RDMA_READ, i * STEP, lens[i]);
		CHECK(all_are(end.bytes + i * STEP, lens[i], 8), "range %d: %d", i, end.bytes[i * STEP]);
	}
	/* On a page that lies in the range as a whole. */
	uint64_t *word = (uint64_t *)(end.bytes + 3 * STEP + 8192);
	uint32_t at = (unsigned char *)word - end.bytes;
	run(&end, IBV_WR_ATOMIC_FETCH_AND_ADD, at, 8);
	CHECK(*word == 0x0707070707070707);
	run(&end, IBV_WR_ATOMIC_CMP_AND_SWP, at, 8);
	CHECK(*word == 0x0707070707070708);
	run(&end, IBV_WR_RDMA_READ, at, 8);
	CHECK(*word == 0x0707070707070708, "it was not swapped: it was not 1");

	/* Messages wait for the process, however long. */
	for (int i = 0; i < 2; i++)
		CHECK(!post(end.qp, IBV_WR_SEND, end.bytes + BYTES / 2 - LONG, i ? LONG : 8, end.mr->lkey, 0, 0, i));
	struct ibv_wc wc;
	for (int i = 0; i < 1000; i++) {
		CHECK(ibv_poll_cq(end.cq, 1, &wc) == 0, "%s", ibv_wc_status_str(wc.status));
		usleep(1000);
	}
	CHECK(state_of(target.pid) == 'T');
	CHECK(!kill(target.pid, SIGCONT));
	for (int i = 0; i < 2; i++) {
		wc = next_wc(end.cq);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)i, "%s", ibv_wc_status_str(wc.status));
	}
	unsigned char *there = malloc(WATCHED);
	hear(target.socket, there, WATCHED);
	for (int i = 0; i < 3; i++)
		CHECK(all_are(there + i * STEP, lens[i], 8) && there[i * STEP + lens[i]] == 7);
	end_peer(&target, SIGKILL);
	puts("done while it was stopped");
	return 0;
}
