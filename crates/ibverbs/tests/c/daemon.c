/*
 * A server makes its channel and its listener, and then becomes a daemon: it continues in a child, while the parent ends.
 * Clients still reach it. A child whose parent lives is refused.
 */
#include "cm.h"
#include <sys/wait.h>

static void serve(struct rdma_event_channel *channel, int clients)
{
	char bytes[64] = "";
	for (int i = 0; i < clients; i++) {
		struct rdma_cm_event *event = next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
		struct rdma_cm_id *id = event->id;
		CHECK(!rdma_ack_cm_event(event));
		give_qp(id);
		struct ibv_mr *mr = rdma_reg_msgs(id, bytes, sizeof(bytes));
		CHECK(mr && !rdma_post_recv(id, NULL, bytes, sizeof(bytes), mr));
		struct rdma_conn_param param = { .rnr_retry_count = 7 };
		CHECK(!rdma_accept(id, &param));
		pass(channel, RDMA_CM_EVENT_ESTABLISHED);
		struct ibv_wc wc;
		CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
		CHECK(!strcmp(bytes, "to the daemon"), "%s", bytes);
		CHECK(!rdma_post_send(id, NULL, bytes, sizeof(bytes), mr, 0));
		CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
		pass(channel, RDMA_CM_EVENT_DISCONNECTED);
		CHECK(!rdma_dereg_mr(mr));
		rdma_destroy_qp(id);
		CHECK(!rdma_destroy_id(id));
	}
}

/* Returns in the parent only, which must end; the child does the work. */
static void become_daemon(int told)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = listener(channel, RDMA_PS_TCP);
	uint16_t port = rdma_get_src_port(id);

	/* Beside a parent that lives, a child gets none of its events. */
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		struct rdma_cm_event *event;
		CHECK(rdma_get_cm_event(channel, &event) == -1 && errno == EACCES);
		_exit(0);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status), "%x", status);

	pid = fork();
	CHECK(pid >= 0);
	if (pid)
		return;
	CHECK(write(told, &port, sizeof(port)) == sizeof(port));
	serve(channel, 3);
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
	CHECK(write(told, "end", 3) == 3);
	_exit(0);
}

static void call(uint16_t port)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = resolved(channel, RDMA_PS_TCP, port);
	char bytes[64] = "to the daemon";
	give_qp(id);
	struct ibv_mr *mr = rdma_reg_msgs(id, bytes, sizeof(bytes));
	CHECK(mr);
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	CHECK(!rdma_connect(id, &param));
	pass(channel, RDMA_CM_EVENT_ESTABLISHED);
	struct ibv_wc wc;
	CHECK(!rdma_post_send(id, NULL, bytes, sizeof(bytes), mr, 0));
	CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	memset(bytes, 0, sizeof(bytes));
	CHECK(!rdma_post_recv(id, NULL, bytes, sizeof(bytes), mr));
	CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(!strcmp(bytes, "to the daemon"), "%s", bytes);
	CHECK(!rdma_disconnect(id));
	CHECK(!rdma_dereg_mr(mr));
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	int told[2];
	CHECK(!pipe(told));
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		become_daemon(told[1]);
		_exit(0);
	}
	close(told[1]);
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status), "%x", status);
	uint16_t port;
	CHECK(read(told[0], &port, sizeof(port)) == sizeof(port));
	for (int i = 0; i < 3; i++)
		call(port);
	char end[4] = "";
	CHECK(read(told[0], end, 3) == 3 && !strcmp(end, "end"));
	puts("served");
	return 0;
}
