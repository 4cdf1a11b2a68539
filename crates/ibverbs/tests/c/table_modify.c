/*
 * ibv_modify_qp: each service, each transition. Every required attribute is left out once, every optional one is
 * given once, every other one is given once. The sets are those of the specification (11.2.5.2), as the Linux kernel
 * checks them for every driver.
 */
#include "table.h"

enum { NONE = -1 };
enum { SERVICES = 3 };

static const struct {
	enum ibv_qp_type type;
	const char *name;
} SERVICE[SERVICES] = { { IBV_QPT_RC, "RC" }, { IBV_QPT_UC, "UC" }, { IBV_QPT_UD, "UD" } };

static const struct {
	int bit;
	const char *name;
} ATTRIBUTE[] = {
	{ IBV_QP_CUR_STATE, "CUR_STATE" }, { IBV_QP_EN_SQD_ASYNC_NOTIFY, "EN_SQD_ASYNC_NOTIFY" },
	{ IBV_QP_ACCESS_FLAGS, "ACCESS_FLAGS" }, { IBV_QP_PKEY_INDEX, "PKEY_INDEX" }, { IBV_QP_PORT, "PORT" },
	{ IBV_QP_QKEY, "QKEY" }, { IBV_QP_AV, "AV" }, { IBV_QP_PATH_MTU, "PATH_MTU" }, { IBV_QP_TIMEOUT, "TIMEOUT" },
	{ IBV_QP_RETRY_CNT, "RETRY_CNT" }, { IBV_QP_RNR_RETRY, "RNR_RETRY" }, { IBV_QP_RQ_PSN, "RQ_PSN" },
	{ IBV_QP_MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC" }, { IBV_QP_MIN_RNR_TIMER, "MIN_RNR_TIMER" },
	{ IBV_QP_SQ_PSN, "SQ_PSN" }, { IBV_QP_MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC" }, { IBV_QP_CAP, "CAP" },
	{ IBV_QP_DEST_QPN, "DEST_QPN" },
};
enum { ATTRIBUTES = sizeof(ATTRIBUTE) / sizeof(*ATTRIBUTE) };

#define AT(name) IBV_QP_##name
enum {
	BASIC = AT(PKEY_INDEX) | AT(PORT),
	CONNECTION = AT(AV) | AT(PATH_MTU) | AT(DEST_QPN) | AT(RQ_PSN),
	RESPONDER = AT(MAX_DEST_RD_ATOMIC) | AT(MIN_RNR_TIMER),
	REQUESTER = AT(TIMEOUT) | AT(RETRY_CNT) | AT(RNR_RETRY) | AT(MAX_QP_RD_ATOMIC),
};

/* Attributes that a transition needs, and those that it may have, by service; NONE if the service lacks it. */
static const struct {
	enum ibv_qp_state from, to;
	int needs[SERVICES], may[SERVICES];
} TRANSITION[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT,
	  { BASIC | AT(ACCESS_FLAGS), BASIC | AT(ACCESS_FLAGS), BASIC | AT(QKEY) }, { 0 } },
	{ IBV_QPS_INIT, IBV_QPS_INIT, { 0 },
	  { BASIC | AT(ACCESS_FLAGS), BASIC | AT(ACCESS_FLAGS), BASIC | AT(QKEY) } },
	{ IBV_QPS_INIT, IBV_QPS_RTR, { CONNECTION | RESPONDER, CONNECTION, 0 },
	  { AT(ACCESS_FLAGS) | AT(PKEY_INDEX), AT(ACCESS_FLAGS) | AT(PKEY_INDEX), AT(PKEY_INDEX) | AT(QKEY) } },
	{ IBV_QPS_RTR, IBV_QPS_RTS, { REQUESTER | AT(SQ_PSN), AT(SQ_PSN), AT(SQ_PSN) },
	  { AT(CUR_STATE) | AT(ACCESS_FLAGS) | AT(MIN_RNR_TIMER), AT(CUR_STATE) | AT(ACCESS_FLAGS), AT(CUR_STATE) | AT(QKEY) } },
	{ IBV_QPS_RTS, IBV_QPS_RTS, { 0 },
	  { AT(CUR_STATE) | AT(ACCESS_FLAGS) | AT(MIN_RNR_TIMER), AT(CUR_STATE) | AT(ACCESS_FLAGS), AT(CUR_STATE) | AT(QKEY) } },
	{ IBV_QPS_RTS, IBV_QPS_SQD, { 0 },
	  { AT(EN_SQD_ASYNC_NOTIFY), AT(EN_SQD_ASYNC_NOTIFY), AT(EN_SQD_ASYNC_NOTIFY) } },
	{ IBV_QPS_SQD, IBV_QPS_SQD, { 0 },
	  { REQUESTER | RESPONDER | BASIC | AT(AV) | AT(ACCESS_FLAGS),
	    AT(AV) | AT(ACCESS_FLAGS) | AT(PKEY_INDEX), AT(PKEY_INDEX) | AT(QKEY) } },
	{ IBV_QPS_SQD, IBV_QPS_RTS, { 0 },
	  { AT(CUR_STATE) | AT(ACCESS_FLAGS) | AT(MIN_RNR_TIMER), AT(CUR_STATE) | AT(ACCESS_FLAGS), AT(CUR_STATE) | AT(QKEY) } },
	{ IBV_QPS_RTS, IBV_QPS_ERR, { 0 }, { 0 } },
	{ IBV_QPS_SQD, IBV_QPS_RESET, { 0 }, { 0 } },
	{ IBV_QPS_RTR, IBV_QPS_RESET, { 0 }, { 0 } },
	/* These states are reached only through others. */
	{ IBV_QPS_RESET, IBV_QPS_RTR, { NONE, NONE, NONE }, { 0 } },
	{ IBV_QPS_RESET, IBV_QPS_RTS, { NONE, NONE, NONE }, { 0 } },
	{ IBV_QPS_RESET, IBV_QPS_SQD, { NONE, NONE, NONE }, { 0 } },
	{ IBV_QPS_INIT, IBV_QPS_RTS, { NONE, NONE, NONE }, { 0 } },
	{ IBV_QPS_INIT, IBV_QPS_SQD, { NONE, NONE, NONE }, { 0 } },
	{ IBV_QPS_RTR, IBV_QPS_INIT, { NONE, NONE, NONE }, { 0 } },
	{ IBV_QPS_RTR, IBV_QPS_RTR, { NONE, NONE, NONE }, { 0 } },
	{ IBV_QPS_RTR, IBV_QPS_SQD, { NONE, NONE, NONE }, { 0 } },
	{ IBV_QPS_RTS, IBV_QPS_INIT, { NONE, NONE, NONE }, { 0 } },
	{ IBV_QPS_RTS, IBV_QPS_RTR, { NONE, NONE, NONE }, { 0 } },
	{ IBV_QPS_RTS, IBV_QPS_SQE, { NONE, NONE, NONE }, { 0 } },
	{ IBV_QPS_SQD, IBV_QPS_INIT, { NONE, NONE, NONE }, { 0 } },
	{ IBV_QPS_ERR, IBV_QPS_INIT, { NONE, NONE, NONE }, { 0 } },
	{ IBV_QPS_ERR, IBV_QPS_RTS, { NONE, NONE, NONE }, { 0 } },
};

static const char *const STATE[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

static struct ibv_pd *pd;
static struct ibv_cq *cq;

/* Values that are valid for every state; `from` is the present state. */
static int modify(struct ibv_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr = {
		.qp_state = to, .cur_qp_state = from, .port_num = 1, .path_mtu = IBV_MTU_1024, .qkey = 7, .rq_psn = 1, .sq_psn = 1,
		.dest_qp_num = qp->qp_num, .timeout = 12, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 1, .ah_attr = ah_to(first_gid(qp->context)),
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	return ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE);
}

static int needs_of(enum ibv_qp_state from, enum ibv_qp_state to, int service)
{
	for (size_t i = 0; i < sizeof(TRANSITION) / sizeof(*TRANSITION); i++)
		if (TRANSITION[i].from == from && TRANSITION[i].to == to)
			return TRANSITION[i].needs[service];
	return 0;
}

static struct ibv_qp *in_state(enum ibv_qp_state state, int service)
{
	static const enum ibv_qp_state WAY[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD };
	struct ibv_qp *qp = make_qp(pd, cq, SERVICE[service].type);
	CHECK(qp);
	if (state == IBV_QPS_ERR)
		CHECK(!modify(qp, 0, IBV_QPS_ERR, 0));
	else
		for (int i = 0; WAY[i] != state; i++)
			CHECK(!modify(qp, WAY[i], WAY[i + 1], needs_of(WAY[i], WAY[i + 1], service)), "%s", STATE[WAY[i + 1]]);
	return qp;
}

static void try(enum ibv_qp_state from, enum ibv_qp_state to, int service, int mask, const char *how, int expected)
{
	char argument[100];
	snprintf(argument, sizeof(argument), "%s, %s to %s, %s", SERVICE[service].name, STATE[from], STATE[to], how);
	struct ibv_qp *qp = in_state(from, service);
	GIVES(ibv_modify_qp, argument, expected, modify(qp, from, to, mask));
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	snprintf(argument, sizeof(argument), "after %s to %s, %s", STATE[from], STATE[to], how);
	GIVES(ibv_query_qp, argument, expected ? from : to, attr.qp_state);
	CHECK(!ibv_destroy_qp(qp));
}

int main(void)
{
	struct ibv_context *context = open_first();
	CHECK((pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	for (size_t i = 0; i < sizeof(TRANSITION) / sizeof(*TRANSITION); i++)
		for (int service = 0; service < SERVICES; service++) {
			enum ibv_qp_state from = TRANSITION[i].from, to = TRANSITION[i].to;
			int needs = TRANSITION[i].needs[service], may = TRANSITION[i].may[service];
			char how[100];
			if (needs == NONE) {
				try(from, to, service, 0, "a way that there is not", EINVAL);
				continue;
			}
			try(from, to, service, needs, "what it needs", 0);
			for (int j = 0; j < ATTRIBUTES; j++) {
				int bit = ATTRIBUTE[j].bit;
				snprintf(how, sizeof(how), "%s %s", needs & bit ? "without" : "with", ATTRIBUTE[j].name);
				try(from, to, service, needs ^ bit, how, may & bit ? 0 : EINVAL);
			}
		}
	CHECK(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	return verdict(1000);
}
