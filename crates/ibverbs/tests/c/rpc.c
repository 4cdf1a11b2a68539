/*
 * Requests and answers by datagrams, as RPC libraries have them: receives in a ring that are posted again in batches,
 * and SENDs of which one in 64 is signaled. There is a window of requests with many packets each. A datagram to QP0 of
 * the own address shows that all earlier ones have left. Such a library repeats a request that has no answer after 5
 * ms, so no request may wait for the hub. To a server in another process, first while the hub stands still, and to one
 * in this process.
 */
#include "peer.h"
#include <pthread.h>

enum { RING = 1024, SLACK = 32, UNSIGNALLED = 64, POST_LIST = 16, DEPTH = 128 };
enum { PACKET = 1024, SLOT = PACKET + 64, GRH = 40, WINDOW = 8, PACKETS = 16, CREDITS = 32 };
enum { ROUNDS = 100, REQUESTS = 400, QKEY = 0x11111111, PATIENCE_SECONDS = 60, SOON_US = 10000 };

struct head {
	uint32_t slot, packet, packets;
	uint64_t request;
};

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *sent, *received;
	struct ibv_qp *qp;
	struct ibv_ah *self, *peer;
	struct ibv_mr *ring_mr, *out_mr;
	unsigned char *ring, *out;
	struct ibv_recv_wr receives[RING];
	struct ibv_sge rooms[RING], sges[POST_LIST];
	struct ibv_send_wr sends[POST_LIST];
	uint32_t peer_qpn;
	int posted, taken, free, listed;
	unsigned long count;
};

static int64_t now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static unsigned char expected(struct head head, int at)
{
	return head.request * 31 + head.packet * 7 + head.slot + at;
}

static void to_rts_ud(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static void post_ring(struct end *end, int count)
{
	struct ibv_recv_wr *first = &end->receives[end->posted], *last = first + count - 1, *bad;
	struct ibv_recv_wr *next = last->next;
	last->next = NULL;
	CHECK(!ibv_post_recv(end->qp, first, &bad));
	last->next = next;
	end->posted = (end->posted + count) % RING;
}

static struct ibv_ah *handle_to(struct end *end, union ibv_gid gid)
{
	struct ibv_ah_attr attr = ah_to(gid);
	struct ibv_ah *ah = ibv_create_ah(end->pd, &attr);
	CHECK(ah);
	return ah;
}

static struct end *open_end(int socket)
{
	struct end *end = calloc(1, sizeof(*end));
	CHECK(end);
	end->context = open_first();
	end->pd = ibv_alloc_pd(end->context);
	end->sent = ibv_create_cq(end->context, DEPTH, NULL, NULL, 0);
	end->received = ibv_create_cq(end->context, RING, NULL, NULL, 0);
	CHECK(end->pd && end->sent && end->received);
	struct ibv_qp_init_attr attr = {
		.send_cq = end->sent, .recv_cq = end->received, .qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = RING, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 60 },
	};
	end->qp = ibv_create_qp(end->pd, &attr);
	CHECK(end->qp);
	to_rts_ud(end->qp);
	end->ring = calloc(RING, SLOT);
	end->out = calloc(DEPTH, PACKET);
	CHECK(end->ring && end->out);
	end->ring_mr = ibv_reg_mr(end->pd, end->ring, RING * SLOT, IBV_ACCESS_LOCAL_WRITE);
	end->out_mr = ibv_reg_mr(end->pd, end->out, DEPTH * PACKET, IBV_ACCESS_LOCAL_WRITE);
	CHECK(end->ring_mr && end->out_mr);
	for (int i = 0; i < RING; i++) {
		end->rooms[i] = (struct ibv_sge){ (uintptr_t)end->ring + i * SLOT, SLOT, end->ring_mr->lkey };
		end->receives[i] = (struct ibv_recv_wr){
			.sg_list = &end->rooms[i], .num_sge = 1, .next = &end->receives[(i + 1) % RING],
		};
	}
	post_ring(end, RING);
	struct address peer = exchange(socket, end->qp, NULL);
	end->peer_qpn = peer.qpn;
	end->peer = handle_to(end, peer.gid);
	end->self = handle_to(end, first_gid(end->context));
	return end;
}

static void close_end(struct end *end)
{
	CHECK(!ibv_destroy_qp(end->qp) && !ibv_destroy_cq(end->sent) && !ibv_destroy_cq(end->received));
	CHECK(!ibv_destroy_ah(end->self) && !ibv_destroy_ah(end->peer));
	CHECK(!ibv_dereg_mr(end->ring_mr) && !ibv_dereg_mr(end->out_mr) && !ibv_dealloc_pd(end->pd));
	CHECK(!ibv_close_device(end->context));
	free(end->ring);
	free(end->out);
	free(end);
}

static void await_sent(struct end *end)
{
	struct ibv_wc wc = next_wc(end->sent);
	CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
}

static void ring_doorbell(struct end *end)
{
	struct ibv_send_wr *bad;
	if (end->listed == 0)
		return;
	end->sends[end->listed - 1].next = NULL;
	CHECK(!ibv_post_send(end->qp, end->sends, &bad));
	end->listed = 0;
}

/* Lists one datagram; every 64th is signalled, and awaits the one before. */
static void list(struct end *end, struct head head, int len)
{
	int at = end->listed, is_signalled = end->count % UNSIGNALLED == 0;
	unsigned char *bytes = end->out + end->count % DEPTH * PACKET;
	if (is_signalled && end->count > 0) {
		ring_doorbell(end);
		at = 0;
		await_sent(end);
	}
	memcpy(bytes, &head, sizeof(head));
	for (int i = sizeof(head); i < len; i++)
		bytes[i] = expected(head, i);
	end->sges[at] = (struct ibv_sge){ (uintptr_t)bytes, len, end->out_mr->lkey };
	end->sends[at] = (struct ibv_send_wr){
		.sg_list = &end->sges[at], .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .next = &end->sends[at + 1],
		.send_flags = (is_signalled ? IBV_SEND_SIGNALED : 0) | (len <= 60 ? IBV_SEND_INLINE : 0),
		.wr.ud = { .ah = end->peer, .remote_qpn = end->peer_qpn, .remote_qkey = QKEY },
	};
	end->count++;
	end->listed = at + 1;
	if (end->listed == POST_LIST)
		ring_doorbell(end);
}

/* Waits until everything has left: the last signalled one, and one more to QP0, which nobody has. */
static void flush(struct end *end)
{
	char nothing = 0;
	struct ibv_sge sge = { (uintptr_t)&nothing, 1, 0 };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
		.wr.ud = { .ah = end->self, .remote_qpn = 0, .remote_qkey = QKEY },
	}, *bad;
	ring_doorbell(end);
	await_sent(end);
	CHECK(!ibv_post_send(end->qp, &wr, &bad));
	await_sent(end);
	end->count = 0;
}

/* Takes the received messages; the ring is filled again in batches. */
static int take(struct end *end, struct head *heads)
{
	struct ibv_wc wcs[POST_LIST];
	int count = ibv_poll_cq(end->received, POST_LIST, wcs);
	CHECK(count >= 0);
	for (int i = 0; i < count; i++) {
		unsigned char *bytes = end->ring + end->taken * SLOT + GRH;
		CHECK(wcs[i].status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wcs[i].status));
		memcpy(&heads[i], bytes, sizeof(*heads));
		for (int at = sizeof(*heads); at < (int)wcs[i].byte_len - GRH; at++)
			CHECK(bytes[at] == expected(heads[i], at), "byte %d", at);
		end->taken = (end->taken + 1) % RING;
	}
	end->free += count;
	for (; end->free >= SLACK; end->free -= SLACK)
		post_ring(end, SLACK);
	return count;
}

/* Answers every packet. */
static void serve(struct end *end, const volatile int *stop)
{
	struct head heads[POST_LIST];
	while (!*stop) {
		int count = take(end, heads);
		for (int i = 0; i < count; i++)
			list(end, heads[i], 48);
		ring_doorbell(end);
	}
}

/* One small request after the other. Returns how long the fastest took, with the flush after it. */
static int64_t one_by_one(struct end *end)
{
	struct head answers[POST_LIST];
	int64_t fastest = INT64_MAX;
	for (int round = 0; round < ROUNDS; round++) {
		int64_t start = now_us();
		list(end, (struct head){ .packets = 1, .request = round }, 48);
		ring_doorbell(end);
		while (take(end, answers) == 0)
			CHECK(now_us() - start < PATIENCE_SECONDS * 1000000LL, "round %d", round);
		CHECK(answers[0].request == (uint64_t)round);
		flush(end);
		int64_t took = now_us() - start;
		fastest = took < fastest ? took : fastest;
	}
	return fastest;
}

/* Many requests in flight, each of many packets; none is sent again, so none may be lost. */
static void windowed(struct end *end)
{
	struct { uint32_t sent, answered; uint64_t request; } slots[WINDOW] = { 0 };
	struct head answers[POST_LIST];
	int credits = CREDITS, done = 0, begun = WINDOW;
	int64_t start = now_us();
	for (int i = 0; i < WINDOW; i++)
		slots[i].request = i;
	while (done < REQUESTS) {
		for (int i = 0; i < WINDOW; i++)
			for (; slots[i].sent < PACKETS && slots[i].request < REQUESTS && credits > 0; credits--)
				list(end, (struct head){ i, slots[i].sent++, PACKETS, slots[i].request }, PACKET);
		ring_doorbell(end);
		int count = take(end, answers);
		for (int i = 0; i < count; i++) {
			uint32_t slot = answers[i].slot;
			CHECK(slot < WINDOW && answers[i].request == slots[slot].request);
			credits++;
			if (++slots[slot].answered < PACKETS)
				continue;
			done++;
			slots[slot].sent = slots[slot].answered = 0;
			slots[slot].request = begun++;
		}
		CHECK(now_us() - start < PATIENCE_SECONDS * 1000000LL, "%d of %d", done, REQUESTS);
	}
	flush(end);
}

static pid_t stopped;

static void let_it_go_on(void)
{
	if (stopped)
		kill(stopped, SIGCONT);
}

static void in_another_process(void)
{
	struct peer peer = start_peer("server", 0);
	struct end *end = open_end(peer.socket);
	both_are_ready(peer.socket);
	stopped = hub();
	atexit(let_it_go_on);
	CHECK(!kill(stopped, SIGSTOP));
	int64_t fastest = one_by_one(end);
	let_it_go_on();
	CHECK(fastest < SOON_US, "%" PRId64 " us", fastest);
	windowed(end);
	one_by_one(end);
	end_peer(&peer, SIGKILL);
	close_end(end);
}

struct thread {
	int socket;
	volatile int stop;
};

static void *serve_here(void *argument)
{
	struct thread *thread = argument;
	struct end *end = open_end(thread->socket);
	serve(end, &thread->stop);
	close_end(end);
	return NULL;
}

static void in_this_process(void)
{
	int ends[2];
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	struct thread thread = { .socket = ends[1] };
	pthread_t id;
	CHECK(!pthread_create(&id, NULL, serve_here, &thread));
	struct end *end = open_end(ends[0]);
	int64_t fastest = one_by_one(end);
	CHECK(fastest < SOON_US, "%" PRId64 " us", fastest);
	windowed(end);
	thread.stop = 1;
	CHECK(!pthread_join(id, NULL));
	close_end(end);
}

int main(int count, char **arguments)
{
	if (count > 1 && !strcmp(arguments[1], "server")) {
		volatile int never = 0;
		begin_peer();
		struct end *end = open_end(PARENT);
		both_are_ready(PARENT);
		serve(end, &never);
	}
	in_another_process();
	in_this_process();
	puts("all answered");
	return 0;
}
