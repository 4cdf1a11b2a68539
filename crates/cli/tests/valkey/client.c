/*
 * A client of Valkey's RDMA protocol, written from its description (valkey.io/topics/RDMA). `client PORT RX_BYTES` sends its
 * standard input to the server, and prints the replies until the server ends the connection. `client PORT RX_BYTES FAULT`
 * breaks the protocol in one way, and prints "ended" when the server has cut it off.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE = 32, RECEIVES = 64, STAGE = 50000, INPUT = 16 << 20 };
enum { GET_FEATURE, SET_FEATURE, KEEPALIVE, REGISTER };

#define CHECK(condition)                                                             \
	do {                                                                         \
		if (!(condition)) {                                                  \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                     \
		}                                                                    \
	} while (0)

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;
static struct ibv_cq *cq;
static struct ibv_mr *inbox, *outbox, *stage, *rx;
static unsigned char *input;
static size_t input_len, input_sent;
/* The server's buffer, and the bytes of it that are used; the used bytes of ours. */
static uint64_t tx_addr;
static uint32_t tx_key, tx_len, tx_used, rx_got, rx_len;
static int in_flight, is_over, features_told;

static void put(unsigned char *at, uint64_t value, int bytes)
{
	for (int i = bytes - 1; i >= 0; i--, value >>= 8)
		at[i] = value;
}

static uint64_t get(const unsigned char *at, int bytes)
{
	uint64_t value = 0;
	while (bytes--)
		value = value << 8 | *at++;
	return value;
}

static struct ibv_mr *region(size_t len)
{
	void *memory = aligned_alloc(4096, (len + 4095) / 4096 * 4096);
	struct ibv_mr *mr = ibv_reg_mr(id->pd, memory, len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(mr);
	return mr;
}

static void post_receive(uint64_t number)
{
	struct ibv_sge sge = { (uintptr_t)inbox->addr + number * MESSAGE, MESSAGE, inbox->lkey };
	struct ibv_recv_wr wr = { .wr_id = number, .sg_list = &sge, .num_sge = 1 }, *bad;
	/* A connection that the server has cut off takes none. */
	(void)ibv_post_recv(id->qp, &wr, &bad);
}

static int post(enum ibv_wr_opcode opcode, struct ibv_mr *mr, size_t from, uint32_t len, uint32_t offset, uint32_t imm)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr + from, len, mr->lkey };
	struct ibv_send_wr wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1, .imm_data = htonl(imm) }, *bad;
	wr.send_flags = opcode == IBV_WR_RDMA_WRITE ? 0 : IBV_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = tx_addr + offset;
	wr.wr.rdma.rkey = tx_key;
	return ibv_post_send(id->qp, &wr, &bad);
}

/* Sends a message of so many bytes. Its memory is used again when the next one is sent. */
static void tell(uint16_t opcode, uint64_t addr, uint64_t last, uint32_t bytes)
{
	static unsigned turn;
	unsigned char *message = (unsigned char *)outbox->addr + (turn++ % RECEIVES) * 2 * MESSAGE;
	memset(message, 0, 2 * MESSAGE);
	put(message, opcode, 2);
	put(message + 16, addr, 8);
	put(message + 24, last, 8);
	(void)post(IBV_WR_SEND, outbox, message - (unsigned char *)outbox->addr, bytes, 0, 0);
}

static void announce(void)
{
	rx_got = 0;
	tell(REGISTER, (uintptr_t)rx->addr, (uint64_t)rx_len << 32 | rx->rkey, MESSAGE);
}

static void obey(const unsigned char *message)
{
	switch (get(message, 2)) {
	case REGISTER:
		tx_addr = get(message + 16, 8);
		tx_len = get(message + 24, 4);
		tx_key = get(message + 28, 4);
		tx_used = 0;
		break;
	case GET_FEATURE:
		CHECK(get(message + 2, 2) == 0 && get(message + 24, 8) == 0);
		features_told++;
		break;
	default:
		CHECK(get(message, 2) == KEEPALIVE);
	}
}

static void completed(const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS) {
		is_over = 1;
		return;
	}
	switch (wc->opcode) {
	case IBV_WC_RECV:
		CHECK(wc->byte_len == MESSAGE);
		obey((unsigned char *)inbox->addr + wc->wr_id * MESSAGE);
		post_receive(wc->wr_id);
		break;
	case IBV_WC_RECV_RDMA_WITH_IMM: {
		uint32_t len = ntohl(wc->imm_data);
		CHECK(len <= rx_len - rx_got);
		CHECK(fwrite((char *)rx->addr + rx_got, 1, len, stdout) == len);
		rx_got += len;
		post_receive(wc->wr_id);
		if (rx_got == rx_len)
			announce();
		break;
	}
	case IBV_WC_RDMA_WRITE:
		in_flight = 0;
		break;
	default:
		break;
	}
}

/* One look at everything that may have happened. */
static void look(void)
{
	struct pollfd entry = { .fd = channel->fd, .events = POLLIN };
	struct ibv_wc wc;
	int has_gone = poll(&entry, 1, 0) == 1;
	while (ibv_poll_cq(cq, 1, &wc) == 1)
		completed(&wc);
	is_over |= has_gone;
	sched_yield();
}

/* Sends the next piece: its first half by a WRITE, the rest by one that tells the length of both. */
static void send_piece(void)
{
	uint32_t room = tx_len - tx_used, len = input_len - input_sent, half;
	if (in_flight || !len || !room)
		return;
	len = len < room ? len : room;
	len = len < STAGE ? len : STAGE;
	half = len / 2;
	memcpy(stage->addr, input + input_sent, len);
	if (half)
		CHECK(!post(IBV_WR_RDMA_WRITE, stage, 0, half, tx_used, 0));
	CHECK(!post(IBV_WR_RDMA_WRITE_WITH_IMM, stage, half, len - half, tx_used + half, len));
	in_flight = 1;
	tx_used += len;
	input_sent += len;
}

static void await(unsigned kind)
{
	struct rdma_cm_event *event;
	CHECK(!rdma_get_cm_event(channel, &event));
	CHECK(event->event == kind);
	rdma_ack_cm_event(event);
}

static void join(uint16_t port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	CHECK((channel = rdma_create_event_channel()));
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 5000));
	await(RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(id, 5000));
	await(RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK((cq = ibv_create_cq(id->verbs, 8 * RECEIVES, NULL, NULL, 0)));
	attr.send_cq = attr.recv_cq = cq;
	attr.cap.max_send_wr = attr.cap.max_recv_wr = RECEIVES;
	attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
	CHECK(!rdma_create_qp(id, NULL, &attr));
	inbox = region(RECEIVES * MESSAGE);
	outbox = region(RECEIVES * 2 * MESSAGE);
	stage = region(STAGE);
	rx = region(rx_len);
}

static void greet(void)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7 };
	CHECK(!rdma_connect(id, &param));
	await(RDMA_CM_EVENT_ESTABLISHED);
}

static void talk(void)
{
	ssize_t len;
	input = malloc(INPUT);
	while ((len = read(0, input + input_len, INPUT - input_len)) > 0)
		input_len += len;
	announce();
	tell(GET_FEATURE, 0, 0, MESSAGE);
	tell(SET_FEATURE, 0, 0, MESSAGE);
	tell(KEEPALIVE, 0, 0, MESSAGE);
	while (!is_over) {
		look();
		send_piece();
	}
	CHECK(features_told == 1 && input_sent == input_len);
}

static void break_it(const char *fault)
{
	static const char ping[] = "PING\r\n";
	if (!strcmp(fault, "opcode")) {
		tell(4, 0, 0, MESSAGE);
	} else if (!strcmp(fault, "short")) {
		tell(KEEPALIVE, 0, 0, MESSAGE - 1);
	} else if (!strcmp(fault, "long")) {
		tell(KEEPALIVE, 0, 0, MESSAGE + 1);
	} else if (!strcmp(fault, "empty")) {
		tell(REGISTER, (uintptr_t)rx->addr, rx->rkey, MESSAGE);
	} else if (!strcmp(fault, "feature")) {
		tell(SET_FEATURE, 0, 1, MESSAGE);
	} else {
		/* These need the server's buffer. */
		while (!tx_len)
			look();
		memcpy(stage->addr, ping, sizeof ping);
		if (!strcmp(fault, "key")) {
			tell(REGISTER, (uintptr_t)rx->addr, (uint64_t)rx_len << 32 | (rx->rkey ^ 0x5555), MESSAGE);
			CHECK(!post(IBV_WR_RDMA_WRITE_WITH_IMM, stage, 0, sizeof ping - 1, 0, sizeof ping - 1));
		} else if (!strcmp(fault, "overflow")) {
			CHECK(!post(IBV_WR_RDMA_WRITE_WITH_IMM, stage, 0, sizeof ping - 1, 0, tx_len + 1));
		} else if (!strcmp(fault, "beyond")) {
			CHECK(!post(IBV_WR_RDMA_WRITE_WITH_IMM, stage, 0, sizeof ping - 1, tx_len, sizeof ping - 1));
		} else {
			CHECK(!strcmp(fault, "garbage"));
			announce();
			memset(stage->addr, '*', 100);
			memcpy((char *)stage->addr + 100, "\r\n", 2);
			CHECK(!post(IBV_WR_RDMA_WRITE_WITH_IMM, stage, 0, 102, 0, 102));
		}
	}
	while (!is_over)
		look();
	printf("ended\n");
}

int main(int argc, char **argv)
{
	CHECK(argc == 3 || argc == 4);
	rx_len = atoi(argv[2]);
	join(atoi(argv[1]));
	for (int number = 0; number < RECEIVES; number++)
		post_receive(number);
	greet();
	if (argc == 3)
		talk();
	else
		break_it(argv[3]);
	return 0;
}
