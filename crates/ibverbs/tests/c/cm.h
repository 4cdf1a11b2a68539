/* Shared parts of the connection manager's test programs. */
#ifndef CM_H
#define CM_H

#include "errors.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

static inline struct sockaddr_in local(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

#define SA(address) ((struct sockaddr *)(address))

/* The next event, which must be of a kind. */
static inline struct rdma_cm_event *next_event(struct rdma_event_channel *channel, unsigned kind)
{
	struct rdma_cm_event *event;
	CHECK(!rdma_get_cm_event(channel, &event));
	CHECK(event->event == kind, "%s (status %d), not %s", rdma_event_str(event->event), event->status,
	      rdma_event_str(kind));
	return event;
}

static inline void pass(struct rdma_event_channel *channel, unsigned kind)
{
	CHECK(!rdma_ack_cm_event(next_event(channel, kind)));
}

static inline int is_pending(struct rdma_event_channel *channel)
{
	struct pollfd entry = { .fd = channel->fd, .events = POLLIN };
	return poll(&entry, 1, 0) == 1;
}

static inline struct rdma_cm_id *new_id(struct rdma_event_channel *channel, enum rdma_port_space ps)
{
	struct rdma_cm_id *id = NULL;
	CHECK(!rdma_create_id(channel, &id, NULL, ps) && id);
	return id;
}

static inline struct rdma_cm_id *listener(struct rdma_event_channel *channel, enum rdma_port_space ps)
{
	struct rdma_cm_id *id = new_id(channel, ps);
	struct sockaddr_in address = local(0);
	CHECK(!rdma_bind_addr(id, SA(&address)));
	CHECK(!rdma_listen(id, 0));
	CHECK(rdma_get_src_port(id) != 0);
	return id;
}

/* An id whose route to a port of this host is resolved. */
static inline struct rdma_cm_id *resolved(struct rdma_event_channel *channel, enum rdma_port_space ps, uint16_t port)
{
	struct rdma_cm_id *id = new_id(channel, ps);
	struct sockaddr_in to = local(ntohs(port));
	CHECK(!rdma_resolve_addr(id, NULL, SA(&to), 2000));
	pass(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(id, 2000));
	pass(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

static inline struct ibv_qp_init_attr small_qp(enum ibv_qp_type qp_type)
{
	return (struct ibv_qp_init_attr){
		.qp_type = qp_type, .sq_sig_all = 1,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
}

static inline void give_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = small_qp(id->qp_type);
	CHECK(!rdma_create_qp(id, NULL, &attr));
	CHECK(id->qp && id->send_cq && id->recv_cq && id->qp->pd == id->pd);
}

static inline enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

#endif
