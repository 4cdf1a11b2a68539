/* Ten thousand connections, one after another, each with queue pairs, a message and an orderly end.
 * Nothing may be left: no descriptor, no port, no memory that grows with their number. */
#include "check.h"
#include <dirent.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <arpa/inet.h>

enum { CONNECTIONS = 10000, WARM = 5000, MESSAGE = 64 };

static struct rdma_event_channel *server, *client;
static struct rdma_cm_id *listener;
static struct sockaddr_in address = { .sin_family = AF_INET };

static struct rdma_cm_event *next(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	CHECK(rdma_get_cm_event(channel, &event) == 0);
	if (event->event != type) {
		fprintf(stderr, "%s (%d) instead of %s\n", rdma_event_str(event->event), event->status, rdma_event_str(type));
		exit(1);
	}
	return event;
}

static void pass(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	CHECK(rdma_ack_cm_event(next(channel, type)) == 0);
}

static void give_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	CHECK(rdma_create_qp(id, NULL, &attr) == 0);
}

static void one_message(struct rdma_cm_id *from, struct rdma_cm_id *to, struct ibv_mr *mr)
{
	struct ibv_wc wc;
	CHECK(rdma_post_recv(to, NULL, mr->addr, MESSAGE, mr) == 0);
	CHECK(rdma_post_send(from, NULL, (char *)mr->addr + MESSAGE, MESSAGE, mr, IBV_SEND_SIGNALED) == 0);
	CHECK(rdma_get_recv_comp(to, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len == MESSAGE);
	CHECK(rdma_get_send_comp(from, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
}

static void one_connection(void)
{
	static char buffer[2 * MESSAGE];
	struct rdma_cm_id *active, *passive;
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7 };

	CHECK(rdma_create_id(client, &active, NULL, RDMA_PS_TCP) == 0);
	CHECK(rdma_resolve_addr(active, NULL, (struct sockaddr *)&address, 2000) == 0);
	pass(client, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(rdma_resolve_route(active, 2000) == 0);
	pass(client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	give_qp(active);
	CHECK(rdma_connect(active, &param) == 0);

	struct rdma_cm_event *request = next(server, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = request->id;
	CHECK(request->listen_id == listener);
	give_qp(passive);
	CHECK(rdma_accept(passive, &param) == 0);
	CHECK(rdma_ack_cm_event(request) == 0);
	pass(client, RDMA_CM_EVENT_ESTABLISHED);
	pass(server, RDMA_CM_EVENT_ESTABLISHED);

	struct ibv_mr *mr = rdma_reg_msgs(active, buffer, sizeof buffer);
	CHECK(mr);
	one_message(active, passive, mr);
	one_message(passive, active, mr);
	CHECK(rdma_dereg_mr(mr) == 0);

	CHECK(rdma_disconnect(active) == 0);
	pass(client, RDMA_CM_EVENT_DISCONNECTED);
	pass(server, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(active);
	rdma_destroy_qp(passive);
	CHECK(rdma_destroy_id(active) == 0);
	CHECK(rdma_destroy_id(passive) == 0);
}

static int descriptors(void)
{
	int count = 0;
	DIR *dir = opendir("/proc/self/fd");
	CHECK(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* The least number in a second: threads of the device open some for moments, and close those of a connection behind it. */
static int settled_descriptors(void)
{
	int least = descriptors();
	for (int i = 0; i < 100; i++) {
		usleep(10000);
		int now = descriptors();
		least = now < least ? now : least;
	}
	return least;
}

static long resident_kib(void)
{
	long pages = 0, ignored;
	FILE *statm = fopen("/proc/self/statm", "r");
	CHECK(statm && fscanf(statm, "%ld %ld", &ignored, &pages) == 2);
	fclose(statm);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(void)
{
	CHECK((server = rdma_create_event_channel()) && (client = rdma_create_event_channel()));
	CHECK(rdma_create_id(server, &listener, NULL, RDMA_PS_TCP) == 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(rdma_bind_addr(listener, (struct sockaddr *)&address) == 0);
	CHECK(rdma_listen(listener, 0) == 0);
	address.sin_port = rdma_get_src_port(listener);

	for (int i = 0; i < WARM; i++)
		one_connection();
	int before = settled_descriptors();
	long memory = resident_kib();
	for (int i = WARM; i < CONNECTIONS; i++)
		one_connection();
	int after = settled_descriptors();
	if (after > before) {
		fprintf(stderr, "%d descriptors, and %d before\n", after, before);
		return 1;
	}
	/* Those that ended in the last seconds are remembered, for stray packets; by now their number is steady. */
	long grown = resident_kib() - memory;
	if (grown > 16384) {
		fprintf(stderr, "memory grew by %ld KiB\n", grown);
		return 1;
	}
	CHECK(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(server);
	rdma_destroy_event_channel(client);
	puts("nothing left");
	return 0;
}
