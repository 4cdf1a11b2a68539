/* The limits of `ibv_query_device` hold: that many objects can be made, and one more is ENOMEM. */
#include "errors.h"

static void **made;

#define MOST(most, create, destroy) \
	do { \
		int count = 0; \
		while (count < (most) && (made[count] = (create))) \
			count++; \
		RETURNS(count, (most)); \
		NULL_WITH(create, ENOMEM); \
		CHECK(!destroy(made[--count])); \
		CHECK((made[count++] = (create))); \
		while (count) \
			CHECK(!destroy(made[--count])); \
	} while (0)

int main(void)
{
	struct ibv_context *context = open_first();
	struct ibv_device_attr limits;
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_ah_attr ah = ah_to(first_gid(context));
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1, .max_sge = 1 } };
	CHECK(pd && !ibv_query_device(context, &limits));
	made = calloc(limits.max_ah + 1, sizeof(*made));
	CHECK(made && limits.max_ah >= limits.max_cq && limits.max_ah >= limits.max_srq && limits.max_ah >= limits.max_pd);
	MOST(limits.max_ah, ibv_create_ah(pd, &ah), ibv_destroy_ah);
	MOST(limits.max_cq, ibv_create_cq(context, 1, NULL, NULL, 0), ibv_destroy_cq);
	MOST(limits.max_srq, ibv_create_srq(pd, &srq), ibv_destroy_srq);
	CHECK(!ibv_dealloc_pd(pd));
	MOST(limits.max_pd, ibv_alloc_pd(context), ibv_dealloc_pd);
	CHECK(!ibv_close_device(context));
	return verdict();
}
