/* Devices, ports, domains, channels, completion queues, address handles: refused calls. */
#include "errors.h"
#include <fcntl.h>

static void ports(struct ibv_context *context)
{
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;
	struct ibv_gid_entry entry;

	RETURNS(ibv_query_port(context, 0, &port), EINVAL);
	RETURNS(ibv_query_port(context, 2, &port), EINVAL);
	RETURNS(ibv_query_port(context, 255, &port), EINVAL);
	CHECK(!ibv_query_port(context, 1, &port));
	RETURNS(ibv_query_gid(context, 0, 0, &gid), -1);
	RETURNS(ibv_query_gid(context, 1, -1, &gid), -1);
	RETURNS(ibv_query_gid(context, 1, port.gid_tbl_len, &gid), -1);
	RETURNS(ibv_query_gid(context, 1, INT32_MAX, &gid), -1);
	RETURNS(ibv_query_pkey(context, 1, -1, &pkey), -1);
	RETURNS(ibv_query_pkey(context, 1, port.pkey_tbl_len, &pkey), -1);
	RETURNS(ibv_query_pkey(context, 2, 0, &pkey), -1);
	RETURNS(ibv_get_pkey_index(context, 1, htobe16(0x1234)), -1);
	RETURNS(ibv_get_pkey_index(context, 1, htobe16(0xffff)), 0);
	RETURNS(ibv_query_gid_ex(context, 2, 0, &entry, 0), EINVAL);
	RETURNS(ibv_query_gid_ex(context, 1, 0, &entry, 1), EINVAL);
	RETURNS(ibv_query_gid_ex(context, 1, port.gid_tbl_len, &entry, 0), EINVAL);
	RETURNS(ibv_query_gid_table(context, &entry, 1, 1), -EINVAL);
}

static void domains(struct ibv_context *context, struct ibv_context *other)
{
	struct ibv_pd *pd = ibv_alloc_pd(context), *foreign = ibv_alloc_pd(other);
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	CHECK(pd && foreign && cq);
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	struct ibv_ah_attr attr = ah_to(first_gid(context));
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	CHECK(qp && ah);
	RETURNS(ibv_dealloc_pd(pd), EBUSY);
	RETURNS(ibv_destroy_cq(cq), EBUSY);
	CHECK(!ibv_destroy_qp(qp));
	RETURNS(ibv_dealloc_pd(pd), EBUSY);
	CHECK(!ibv_destroy_ah(ah));
	NULL_WITH(make_qp(foreign, cq, IBV_QPT_RC), EINVAL);

	struct ibv_td_init_attr td_attr = { .comp_mask = 1 };
	NULL_WITH(ibv_alloc_td(context, &td_attr), EINVAL);
	td_attr.comp_mask = 0;
	struct ibv_td *td = ibv_alloc_td(context, &td_attr);
	CHECK(td);
	struct ibv_parent_domain_init_attr parent = { .pd = pd, .td = td, .comp_mask = 1 << 30 };
	NULL_WITH(ibv_alloc_parent_domain(context, &parent), EINVAL);
	parent.comp_mask = 0;
	struct ibv_pd *child = ibv_alloc_parent_domain(context, &parent);
	CHECK(child);
	RETURNS(ibv_dealloc_pd(pd), EBUSY);
	RETURNS(ibv_dealloc_td(td), EBUSY);
	CHECK(!ibv_dealloc_pd(child) && !ibv_dealloc_td(td));
	parent.pd = foreign, parent.td = NULL;
	NULL_WITH(ibv_alloc_parent_domain(context, &parent), EINVAL);
	parent.pd = NULL;
	NULL_WITH(ibv_alloc_parent_domain(context, &parent), EINVAL);
	CHECK(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_dealloc_pd(foreign));
}

static void completion_queues(struct ibv_context *context, struct ibv_context *other)
{
	struct ibv_device_attr limits;
	CHECK(!ibv_query_device(context, &limits));
	NULL_WITH(ibv_create_cq(context, 0, NULL, NULL, 0), EINVAL);
	NULL_WITH(ibv_create_cq(context, -1, NULL, NULL, 0), EINVAL);
	NULL_WITH(ibv_create_cq(context, limits.max_cqe + 1, NULL, NULL, 0), EINVAL);
	NULL_WITH(ibv_create_cq(context, 8, NULL, NULL, -1), EINVAL);
	NULL_WITH(ibv_create_cq(context, 8, NULL, NULL, context->num_comp_vectors), EINVAL);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	CHECK(channel);
	struct ibv_cq *cq = ibv_create_cq(context, 8, &limits, channel, 0);
	CHECK(cq && cq->cq_context == &limits && cq->cqe >= 8);
	NULL_WITH(ibv_create_cq(other, 8, NULL, channel, 0), EINVAL);
	RETURNS(ibv_destroy_comp_channel(channel), EBUSY);
	RETURNS(ibv_resize_cq(cq, 0), EINVAL);
	RETURNS(ibv_resize_cq(cq, -1), EINVAL);
	RETURNS(ibv_resize_cq(cq, limits.max_cqe + 1), EINVAL);
	RETURNS(ibv_resize_cq(cq, 100), 0);
	CHECK(cq->cqe >= 100);
	struct ibv_wc wc[2];
	RETURNS(ibv_poll_cq(cq, 0, wc), 0);
	RETURNS(ibv_poll_cq(cq, 2, wc), 0);
	CHECK(ibv_poll_cq(cq, -1, wc) < 0);

	/* Nothing has happened: a channel that does not block says so. */
	CHECK(!fcntl(channel->fd, F_SETFL, O_NONBLOCK));
	struct ibv_cq *which;
	void *cookie;
	MINUS_WITH(ibv_get_cq_event(channel, &which, &cookie), EAGAIN);
	CHECK(!fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK));
	struct ibv_async_event event;
	MINUS_WITH(ibv_get_async_event(context, &event), EAGAIN);
	CHECK(!ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel));

	struct ibv_cq_init_attr_ex attr = { .cqe = 8, .comp_mask = 1 << 20 };
	NULL_WITH(ibv_create_cq_ex(context, &attr), EINVAL);
	attr = (struct ibv_cq_init_attr_ex){ .cqe = 8, .wc_flags = 1ull << 40 };
	NULL_WITH(ibv_create_cq_ex(context, &attr), EOPNOTSUPP);
	attr = (struct ibv_cq_init_attr_ex){ .cqe = 0 };
	NULL_WITH(ibv_create_cq_ex(context, &attr), EINVAL);
	attr = (struct ibv_cq_init_attr_ex){ .cqe = 8, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = 1 << 20 };
	NULL_WITH(ibv_create_cq_ex(context, &attr), EOPNOTSUPP);
	attr = (struct ibv_cq_init_attr_ex){ .cqe = 8, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_cq_ex *extended = ibv_create_cq_ex(context, &attr);
	CHECK(extended);
	struct ibv_poll_cq_attr poll = { 0 };
	RETURNS(ibv_start_poll(extended, &poll), ENOENT);
	poll.comp_mask = 1;
	RETURNS(ibv_start_poll(extended, &poll), EINVAL);
	struct ibv_modify_cq_attr modify = { .attr_mask = 1 << 10 };
	RETURNS(ibv_modify_cq(ibv_cq_ex_to_cq(extended), &modify), EINVAL);
	CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(extended)));
}

static void address_handles(struct ibv_context *context)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_port_attr port;
	CHECK(pd && !ibv_query_port(context, 1, &port));
	struct ibv_ah_attr good = ah_to(first_gid(context)), attr;
	attr = good, attr.is_global = 0;
	NULL_WITH(ibv_create_ah(pd, &attr), EINVAL);
	attr = good, attr.port_num = 0;
	NULL_WITH(ibv_create_ah(pd, &attr), EINVAL);
	attr = good, attr.port_num = 2;
	NULL_WITH(ibv_create_ah(pd, &attr), EINVAL);
	attr = good, attr.grh.sgid_index = 255;
	NULL_WITH(ibv_create_ah(pd, &attr), EINVAL);
	struct ibv_grh grh = { 0 };
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	NULL_WITH(ibv_create_ah_from_wc(pd, &wc, &grh, 2), EINVAL);
	CHECK(!ibv_dealloc_pd(pd));
}

int main(void)
{
	struct ibv_context *context = open_first(), *other = open_first();
	NULL_WITH(ibv_open_device(NULL), EINVAL);
	MINUS_WITH(ibv_close_device(NULL), EINVAL);
	ports(context);
	domains(context, other);
	completion_queues(context, other);
	address_handles(context);
	CHECK(!ibv_close_device(context) && !ibv_close_device(other));
	return verdict();
}
