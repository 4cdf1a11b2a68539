/* A program looks its device up with an id, destroys the id and its channel, and uses the context that it has remembered. */
#include "check.h"
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

static struct ibv_context *look_up(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;
	CHECK(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&to));
	struct ibv_context *context = id->verbs;
	CHECK(context && !rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
	return context;
}

static void use(struct ibv_context *context)
{
	static char bytes[4096];
	struct ibv_device_attr attr;
	CHECK(!ibv_query_device(context, &attr) && attr.max_qp > 0);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	CHECK(pd);
	struct ibv_mr *mr = ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd));
}

int main(void)
{
	struct ibv_context *context = look_up();
	use(context);
	use(context);
	CHECK(look_up() == context, "there is one for each device");
	use(context);
	puts("still there");
	return 0;
}
