/*
 * The wall clock jumps by a day, to and fro, at each reading by this program and the library in it: no wait becomes longer or
 * shorter.
 */
#include "peer.h"
#include <dlfcn.h>
#include <sys/time.h>

enum { DAY_S = 86400, MESSAGES = 200, BYTES = 3000 };

static int (*real_clock)(clockid_t, struct timespec *);
static int looks;

static long jump(void)
{
	int look = __atomic_add_fetch(&looks, 1, __ATOMIC_RELAXED);
	return look % 2 ? DAY_S : -DAY_S;
}

/* Libraries linked to this program find these functions first. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (!real_clock)
		real_clock = dlsym(RTLD_NEXT, "clock_gettime");
	int result = real_clock(clock, now);
	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
		now->tv_sec += jump();
	return result;
}

int gettimeofday(struct timeval *now, void *zone)
{
	struct timespec exact;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &exact);
	*now = (struct timeval){ exact.tv_sec, exact.tv_nsec / 1000 };
	return 0;
}

time_t time(time_t *now)
{
	struct timeval exact;
	gettimeofday(&exact, NULL);
	if (now)
		*now = exact.tv_sec;
	return exact.tv_sec;
}

static int64_t steady_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;

/* Sleeps until a completion is there. */
static struct ibv_wc slept_for(void)
{
	struct ibv_wc wc;
	struct ibv_cq *which;
	void *cookie;
	for (;;) {
		int found = ibv_poll_cq(cq, 1, &wc);
		CHECK(found >= 0);
		if (found)
			return wc;
		CHECK(!ibv_req_notify_cq(cq, 0));
		if ((found = ibv_poll_cq(cq, 1, &wc)))
			return wc;
		CHECK(!ibv_get_cq_event(channel, &which, &cookie));
		ibv_ack_cq_events(which, 1);
	}
}

/* Each message of one end to the other arrives; one packet in five is lost. */
static void with_losses(struct ibv_mr *mr, unsigned char *bytes)
{
	struct ibv_qp *from = make_qp(pd, cq, IBV_QPT_RC), *to = make_qp(pd, cq, IBV_QPT_RC);
	CHECK(from && to);
	connect_rc(from, to->qp_num, first_gid(context));
	connect_rc(to, from->qp_num, first_gid(context));
	for (int i = 0; i < MESSAGES; i++) {
		memset(bytes, i, BYTES);
		CHECK(!post_receive(to, bytes + BYTES, BYTES, mr->lkey, 1));
		CHECK(!post(from, IBV_WR_SEND, bytes, BYTES, mr->lkey, 0, 0, 2));
		for (int j = 0; j < 2; j++)
			CHECK(slept_for().status == IBV_WC_SUCCESS, "message %d", i);
		CHECK(!memcmp(bytes, bytes + BYTES, BYTES));
	}
	CHECK(!ibv_destroy_qp(from) && !ibv_destroy_qp(to));
}

/* Nobody answers: eight timeouts of 67 ms or more, and no fewer. */
static void without_an_answer(struct ibv_mr *mr, unsigned char *bytes)
{
	enum { TIMEOUT = 14, LEAST_MS = 400 };
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	CHECK(qp && !to_init(qp) && !to_rtr(qp, 0xfffffe, first_gid(context)));
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .timeout = TIMEOUT, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
	int64_t start_ms = steady_ms();
	CHECK(!post(qp, IBV_WR_SEND, bytes, 8, mr->lkey, 0, 0, 1));
	CHECK(slept_for().status == IBV_WC_RETRY_EXC_ERR);
	CHECK(steady_ms() - start_ms >= LEAST_MS, "given up after %d ms", (int)(steady_ms() - start_ms));
	CHECK(!ibv_destroy_qp(qp));
}

int main(void)
{
	context = open_first();
	CHECK((pd = ibv_alloc_pd(context)) && (channel = ibv_create_comp_channel(context)));
	CHECK((cq = ibv_create_cq(context, 64, NULL, channel, 0)));
	unsigned char *bytes = malloc(2 * BYTES);
	struct ibv_mr *mr = ibv_reg_mr(pd, bytes, 2 * BYTES, ALL_ACCESS);
	CHECK(mr);
	alarm(120);
	with_losses(mr, bytes);
	without_an_answer(mr, bytes);
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	CHECK(!ibv_query_rt_values_ex(context, &values));
	CHECK(!ibv_dereg_mr(mr) && !ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel));
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
	free(bytes);
	time_t one = time(NULL), other = time(NULL);
	CHECK(labs(one - other) > DAY_S, "the clock does not jump");
	puts("in time");
	return 0;
}
