/*
 * A program that uses librpma. The server exposes 8 MiB; the client writes, flushes, reads back, compares, and writes
 * eight bytes atomically; the server compares when the connection is closed. `rpma server|client ADDRESS`.
 */
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEN = 8 << 20, ATTEMPTS = 50 };
static const char PORT[] = "7204";
static const char WORD[8] = "atomic!";

#define CHECK(condition)                                                             \
	do {                                                                         \
		if (!(condition)) {                                                  \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                     \
		}                                                                    \
	} while (0)

struct side {
	struct rpma_peer *peer;
	struct rpma_mr_local *mr;
	unsigned char *memory;
};

static unsigned char expected(size_t at)
{
	return at * 7 % 251;
}

static struct side open_side(const char *address, enum rpma_util_ibv_context_type type, int usage)
{
	struct side side;
	struct ibv_context *context;
	CHECK(!rpma_utils_get_ibv_context(address, type, &context));
	CHECK(!rpma_peer_new(context, &side.peer));
	side.memory = aligned_alloc(4096, LEN);
	CHECK(side.memory);
	memset(side.memory, 0, LEN);
	CHECK(!rpma_mr_reg(side.peer, side.memory, LEN, usage, &side.mr));
	return side;
}

static void close_side(struct side *side)
{
	CHECK(!rpma_mr_dereg(&side->mr));
	CHECK(!rpma_peer_delete(&side->peer));
	free(side->memory);
}

static enum rpma_conn_event next_event(struct rpma_conn *conn)
{
	enum rpma_conn_event event;
	CHECK(!rpma_conn_next_event(conn, &event));
	return event;
}

static void serve(const char *address)
{
	int usage = RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
	struct side side = open_side(address, RPMA_UTIL_IBV_CONTEXT_LOCAL, usage);
	struct rpma_ep *ep;
	struct rpma_conn_req *request;
	struct rpma_conn *conn;
	size_t size;
	CHECK(!rpma_ep_listen(side.peer, address, PORT, &ep));
	CHECK(!rpma_mr_get_descriptor_size(side.mr, &size) && size < 56);
	unsigned char descriptor[56];
	CHECK(!rpma_mr_get_descriptor(side.mr, descriptor));
	struct rpma_conn_private_data data = { descriptor, size };
	CHECK(!rpma_ep_next_conn_req(ep, NULL, &request));
	CHECK(!rpma_conn_req_connect(&request, &data, &conn));
	CHECK(next_event(conn) == RPMA_CONN_ESTABLISHED);
	CHECK(next_event(conn) == RPMA_CONN_CLOSED);
	rpma_conn_disconnect(conn);
	CHECK(!memcmp(side.memory, WORD, sizeof(WORD)));
	for (size_t at = sizeof(WORD); at < LEN; at++)
		CHECK(side.memory[at] == expected(at));
	CHECK(!rpma_conn_delete(&conn) && !rpma_ep_shutdown(&ep));
	close_side(&side);
	puts("data compared");
}

/* Try again until the server listens. */
static struct rpma_conn *connect_to(struct rpma_peer *peer, const char *address)
{
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		struct rpma_conn_req *request;
		struct rpma_conn *conn;
		CHECK(!rpma_conn_req_new(peer, address, PORT, NULL, &request));
		CHECK(!rpma_conn_req_connect(&request, NULL, &conn));
		if (next_event(conn) == RPMA_CONN_ESTABLISHED)
			return conn;
		CHECK(!rpma_conn_delete(&conn));
		usleep(100000);
	}
	CHECK(!"a server");
	return NULL;
}

static void await(struct rpma_conn *conn, const void *context)
{
	struct rpma_cq *cq;
	struct ibv_wc wc;
	CHECK(!rpma_conn_get_cq(conn, &cq) && !rpma_cq_wait(cq) && !rpma_cq_get_wc(cq, 1, &wc, NULL));
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uintptr_t)context);
}

static void use(const char *address)
{
	int usage = RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST;
	struct side side = open_side(address, RPMA_UTIL_IBV_CONTEXT_REMOTE, usage);
	struct rpma_conn *conn = connect_to(side.peer, address);
	struct rpma_conn_private_data data;
	struct rpma_mr_remote *remote;
	int word, flushed, all;
	CHECK(!rpma_conn_get_private_data(conn, &data));
	CHECK(!rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote));
	for (size_t at = 0; at < LEN; at++)
		side.memory[at] = expected(at);
	CHECK(!rpma_write(conn, remote, 0, side.mr, 0, LEN, RPMA_F_COMPLETION_ON_ERROR, NULL));
	CHECK(!rpma_flush(conn, remote, 0, LEN, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS, &flushed));
	await(conn, &flushed);
	memset(side.memory, 0, LEN);
	CHECK(!rpma_read(conn, side.mr, 0, remote, 0, LEN, RPMA_F_COMPLETION_ALWAYS, &all));
	await(conn, &all);
	for (size_t at = 0; at < LEN; at++)
		CHECK(side.memory[at] == expected(at));
	CHECK(!rpma_atomic_write(conn, remote, 0, WORD, RPMA_F_COMPLETION_ALWAYS, &word));
	await(conn, &word);
	CHECK(!rpma_mr_remote_delete(&remote) && !rpma_conn_disconnect(conn));
	CHECK(next_event(conn) == RPMA_CONN_CLOSED && !rpma_conn_delete(&conn));
	close_side(&side);
	puts("data compared");
}

int main(int count, char **arguments)
{
	CHECK(count == 3);
	if (!strcmp(arguments[1], "server"))
		serve(arguments[2]);
	else
		use(arguments[2]);
}
