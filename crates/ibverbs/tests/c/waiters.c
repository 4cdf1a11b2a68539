/* Threads that wait for events: cancelled, and still waiting when the program ends, as with rping. */
#include "cm.h"

static struct ibv_context *context;
static struct ibv_comp_channel *completions;
static struct rdma_event_channel *events;
static struct rdma_cm_id *listening;

static void *for_a_completion(void *unused)
{
	struct ibv_cq *cq;
	void *cq_context;
	return ibv_get_cq_event(completions, &cq, &cq_context) ? unused : NULL;
}

static void *for_an_event(void *unused)
{
	struct rdma_cm_event *event;
	return rdma_get_cm_event(events, &event) ? unused : NULL;
}

static void *for_an_asynchronous_event(void *unused)
{
	struct ibv_async_event event;
	return ibv_get_async_event(context, &event) ? unused : NULL;
}

static void *for_a_request(void *unused)
{
	struct rdma_cm_id *id;
	return rdma_get_request(listening, &id) ? unused : NULL;
}

/* Is cancelled between two calls, however deep in one of them it is at that moment. */
static void *for_nothing(void *unused)
{
	static char memory[4096];
	struct ibv_pd *pd = ibv_alloc_pd(context);
	for (;;) {
		struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
		CHECK(mr && !ibv_dereg_mr(mr));
		pthread_testcancel();
	}
	return unused;
}

/* Is cancelled as it waits, or before. */
static void cancelled(void *(*wait)(void *), useconds_t when)
{
	pthread_t thread;
	void *result;
	CHECK(!pthread_create(&thread, NULL, wait, NULL));
	usleep(when);
	CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result));
	CHECK(result == PTHREAD_CANCELED);
}

/* Uses the channel after it was destroyed and the program has returned from main. */
static void *late(void *unused)
{
	struct rdma_cm_event *event;
	usleep(50000);
	rdma_get_cm_event(events, &event);
	_exit(3);
	return unused;
}

/* A handler that was there before the library's: it runs after it. */
static void still_ending(void)
{
	usleep(150000);
}

int main(void)
{
	struct rdma_cm_event *event;
	pthread_t thread;
	CHECK(!atexit(still_ending));
	context = open_first();
	completions = ibv_create_comp_channel(context);
	events = rdma_create_event_channel();
	CHECK(completions && events);
	CHECK(!rdma_create_id(NULL, &listening, NULL, RDMA_PS_TCP));
	struct sockaddr_in any = { .sin_family = AF_INET };
	CHECK(!rdma_bind_addr(listening, SA(&any)) && !rdma_listen(listening, 1));
	for (int i = 0; i < 4; i++) {
		cancelled(for_a_completion, i * 5000);
		cancelled(for_an_event, i * 5000);
		cancelled(for_an_asynchronous_event, i * 5000);
		cancelled(for_a_request, i * 5000);
		cancelled(for_nothing, i * 5000 + 333);
	}
	/* The waiting threads left nothing locked. */
	CHECK(!ibv_destroy_comp_channel(completions));
	rdma_destroy_ep(listening);

	struct rdma_event_channel *gone = rdma_create_event_channel();
	CHECK(gone);
	rdma_destroy_event_channel(gone);
	MINUS_WITH(rdma_get_cm_event(gone, &event), EBADF);
	MINUS_WITH(rdma_create_id(gone, &listening, NULL, RDMA_PS_TCP), EBADF);
	rdma_destroy_event_channel(gone);

	/* One waits, one is about to. */
	CHECK(!pthread_create(&thread, NULL, for_an_event, NULL));
	CHECK(!pthread_create(&thread, NULL, late, NULL));
	usleep(10000);
	rdma_destroy_event_channel(events);
	puts("left behind");
	return wrong;
}
