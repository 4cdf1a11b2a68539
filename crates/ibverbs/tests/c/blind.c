/*
 * An unprivileged UDP socket attacks a connection of two other processes. It knows addresses and QPNs, not PSNs, and
 * sweeps all of them: early requests with every pattern of reserved bits that Longarm has used, answers, Longarm's
 * own packets, and congestion notifications. The victims' messages must arrive whole, in order, once, and nothing
 * else. The attack must not slow down the sender by more than its load.
 */
#include "peer.h"
#include "roce.h"
#include <netinet/in.h>

enum { LEN = 64, MESSAGES_AT_A_TIME = 8, STEP = 250, PSNS = 1 << 24, CNPS = 20000 };

struct end {
	struct ibv_context *context;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	uint64_t (*messages)[LEN / 8];
};

static struct end make_end(void)
{
	struct end end = { .context = open_first() };
	struct ibv_pd *pd = ibv_alloc_pd(end.context);
	end.cq = ibv_create_cq(end.context, 256, NULL, NULL, 0);
	end.messages = calloc(2 * MESSAGES_AT_A_TIME, LEN);
	end.mr = ibv_reg_mr(pd, end.messages, 2 * MESSAGES_AT_A_TIME * LEN, ALL_ACCESS);
	end.qp = make_qp(pd, end.cq, IBV_QPT_RC);
	CHECK(end.cq && end.mr && end.qp);
	return end;
}

static void receive(struct end *end, int slot)
{
	CHECK(!post_receive(end->qp, end->messages[slot], LEN, end->mr->lkey, slot));
}

/* Like `meet_peer`, with an ACK timeout that a busy machine does not reach. */
static struct address meet_patiently(int socket, struct end *end)
{
	struct address peer = exchange(socket, end->qp, end->mr);
	CHECK(!to_init(end->qp));
	for (int slot = 0; slot < 2 * MESSAGES_AT_A_TIME; slot++)
		receive(end, slot);
	CHECK(!to_rtr(end->qp, peer.qpn, peer.gid));
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .sq_psn = 7, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4,
	};
	CHECK(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
	both_are_ready(socket);
	return peer;
}

static void fill(struct end *end, int slot, uint64_t number)
{
	for (int i = 0; i < LEN / 8; i++)
		end->messages[slot][i] = number * 1000003 + i;
}

static void check(struct end *end, int slot, uint64_t number)
{
	for (int i = 0; i < LEN / 8; i++)
		CHECK(end->messages[slot][i] == number * 1000003 + i, "message %" PRIu64 " is another", number);
}

/* Gets message after message, and says after each batch that it has. Ends with its parent. */
static void answer_for_ever(void)
{
	struct end end = make_end();
	meet_patiently(PARENT, &end);
	for (uint64_t number = 0;; number++) {
		struct ibv_wc wc = next_wc(end.cq);
		CHECK(wc.status == IBV_WC_SUCCESS, "message %" PRIu64 ": %s", number, ibv_wc_status_str(wc.status));
		CHECK(wc.opcode == IBV_WC_RECV && wc.byte_len == LEN);
		check(&end, wc.wr_id, number);
		receive(&end, wc.wr_id);
		if (number % MESSAGES_AT_A_TIME == MESSAGES_AT_A_TIME - 1)
			say(PARENT, &number, sizeof(number));
	}
}

struct attack {
	int socket;
	uint16_t port;
	struct in_addr address;
	/* The victims. */
	struct end *sender;
	int receiver_socket;
	uint32_t receiver_qpn;
	uint64_t sent, forged;
};

static struct attack aim(struct end *sender, int receiver_socket, uint32_t receiver_qpn)
{
	struct attack attack = { .sender = sender, .receiver_socket = receiver_socket, .receiver_qpn = receiver_qpn };
	const union ibv_gid gid = first_gid(sender->context);
	memcpy(&attack.address, gid.raw + 12, 4);
	attack.socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const int dont_fragment = IP_PMTUDISC_DO;
	CHECK(!setsockopt(attack.socket, IPPROTO_IP, IP_MTU_DISCOVER, &dont_fragment, sizeof(dont_fragment)));
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr = attack.address };
	socklen_t len = sizeof(own);
	CHECK(!bind(attack.socket, (struct sockaddr *)&own, len));
	CHECK(!getsockname(attack.socket, (struct sockaddr *)&own, &len));
	attack.port = ntohs(own.sin_port);
	return attack;
}

/* The victims exchange a batch of messages. */
static void go_on(struct attack *attack)
{
	struct end *sender = attack->sender;
	for (int slot = 0; slot < MESSAGES_AT_A_TIME; slot++) {
		fill(sender, slot, attack->sent++);
		CHECK(!post(sender->qp, IBV_WR_SEND, sender->messages[slot], LEN, sender->mr->lkey, 0, 0, slot));
	}
	for (int slot = 0; slot < MESSAGES_AT_A_TIME; slot++) {
		struct ibv_wc wc = next_wc(sender->cq);
		CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
	}
	uint64_t last;
	hear(attack->receiver_socket, &last, sizeof(last));
	CHECK(last == attack->sent - 1);
}

static void send_forged(struct attack *attack, struct forged *packet)
{
	seal_packet(packet, attack->address, attack->address, attack->port);
	const struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(ROCE_PORT), .sin_addr = attack->address,
	};
	const struct sockaddr *address = (const struct sockaddr *)&to;
	CHECK(sendto(attack->socket, packet->bytes, packet->len, 0, address, sizeof(to)) > 0 || errno == ENOBUFS);
	/* In batches that the victims' sockets hold: a dropped packet attacks nobody. */
	if (++attack->forged % 128 == 0)
		go_on(attack);
}

/* Headers of `opcode` as an attacker would choose them. */
static void put_headers(struct forged *packet, int opcode)
{
	const uint32_t guess = 0x12345678, unlimited = 0x1f000001, one_is_missing = 0x60000001;
	if (opcode == OP_WRITE_ONLY)
		for (int word = 0; word < 4; word++)
			put_u32(packet, word == 3 ? LEN : guess);
	if (opcode == OP_ACKNOWLEDGE || opcode == OP_COOKIE || opcode == OP_SEND_ONLY_ACK)
		put_u32(packet, unlimited);
	if (opcode == OP_SELECTIVE)
		for (int word = 0; word < 9; word++)
			put_u32(packet, word == 0 ? one_is_missing : 0xfffffffe);
	if (opcode == OP_SEND_ONLY_ACK)
		put_u32(packet, guess);
	if (opcode == OP_COOKIE || opcode == OP_SEND_ONLY_ACK || opcode == OP_SELECTIVE)
		put_u32(packet, guess);
	if (opcode == OP_SEND_ONLY || opcode == OP_WRITE_ONLY || opcode == OP_SEND_ONLY_ACK) {
		uint8_t evil[LEN];
		memset(evil, 'A', sizeof(evil));
		put_bytes(packet, evil, sizeof(evil));
	}
}

/* One forged packet for each STEP PSNs. */
static void sweep(struct attack *attack, int opcode, uint32_t qpn, uint8_t high, uint8_t low)
{
	for (uint32_t psn = 0; psn < PSNS; psn += STEP) {
		struct forged packet = begin_packet(opcode, qpn, psn, high, low);
		put_headers(&packet, opcode);
		send_forged(attack, &packet);
	}
}

static void flood_with_notifications(struct attack *attack, uint32_t qpn)
{
	for (int i = 0; i < CNPS; i++) {
		struct forged packet = begin_packet(OP_CNP, qpn, 0, 0, 0);
		for (int word = 0; word < 4; word++)
			put_u32(&packet, 0);
		send_forged(attack, &packet);
	}
}

int main(int argc, char **argv)
{
	(void)argv;
	CHECK(!setenv("LONGARM_LOCAL", "off", 1));
	if (argc > 1) {
		begin_peer();
		answer_for_ever();
	}
	struct peer receiver = start_peer("receiver", 0);
	struct end sender = make_end();
	const struct address other = meet_patiently(receiver.socket, &sender);
	struct attack attack = aim(&sender, receiver.socket, other.qpn);
	go_on(&attack);
	go_on(&attack);

	const uint32_t own = sender.qp->qp_num;
	/* The old bits of "selective", the bits that offer it, and a guess at the mark. */
	sweep(&attack, OP_SEND_ONLY, other.qpn, 0, 0x2d);
	sweep(&attack, OP_SEND_ONLY, other.qpn, 0, 0x53);
	sweep(&attack, OP_WRITE_ONLY, other.qpn, 0x15, 0x2a);
	sweep(&attack, OP_SEND_ONLY_ACK, other.qpn, 0, 0x53);
	sweep(&attack, OP_SELECTIVE, own, 0, 0x2d);
	sweep(&attack, OP_ACKNOWLEDGE, own, 0, 0);
	sweep(&attack, OP_COOKIE, own, 0x05, 0x78);
	flood_with_notifications(&attack, own);
	go_on(&attack);

	end_peer(&receiver, SIGKILL);
	CHECK(attack.forged > 7 * (PSNS / STEP));
	puts("unharmed");
	return 0;
}
