/* Calls that came after release 44: resolving names as an event, and events of the program's own. */
#include "cm.h"
#include <dlfcn.h>

enum { ADDRINFO_RESOLVED = 16, ADDRINFO_ERROR, USER, DNS = 1 << 5, SA = 1 << 4 };

static int (*resolve_addrinfo)(struct rdma_cm_id *, const char *, const char *, const struct rdma_addrinfo *);
static int (*query_addrinfo)(struct rdma_cm_id *, struct rdma_addrinfo **);
static int (*write_cm_event)(struct rdma_cm_id *, int, int, uint64_t);

static void *symbol(const char *name)
{
	void *library = dlopen("librdmacm.so.1", RTLD_NOW);
	void *found = library ? dlvsym(library, name, "RDMACM_1.4") : NULL;
	CHECK(found, "%s", name);
	return found;
}

static void names(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id = new_id(channel, RDMA_PS_TCP);
	struct rdma_addrinfo hints = { .ai_flags = DNS, .ai_port_space = RDMA_PS_TCP }, *res = NULL;
	MINUS_WITH(query_addrinfo(id, &res), EINVAL);
	MINUS_WITH(resolve_addrinfo(id, NULL, NULL, NULL), EINVAL);
	CHECK(!resolve_addrinfo(id, "127.0.0.1", "7471", &hints));
	pass(channel, ADDRINFO_RESOLVED);
	CHECK(!query_addrinfo(id, &res) && res && !res->ai_next);
	CHECK(((struct sockaddr_in *)res->ai_dst_addr)->sin_port == htons(7471));
	rdma_freeaddrinfo(res);
	hints.ai_flags = RAI_NUMERICHOST;
	CHECK(!resolve_addrinfo(id, "no number", "7471", &hints));
	struct rdma_cm_event *event = next_event(channel, ADDRINFO_ERROR);
	CHECK(event->status != 0 && !strcmp(rdma_event_str(event->event), "RDMA_CM_EVENT_ADDRINFO_ERROR"));
	CHECK(!rdma_ack_cm_event(event));
	hints.ai_flags = SA;
	MINUS_WITH(resolve_addrinfo(id, NULL, "service", &hints), EOPNOTSUPP);
	hints.ai_flags = SA | DNS;
	MINUS_WITH(resolve_addrinfo(id, NULL, "service", &hints), EINVAL);
	/* Pending calls end with the id. */
	CHECK(!resolve_addrinfo(id, "127.0.0.1", "7471", NULL));
	CHECK(!rdma_destroy_id(id));
}

static void own_events(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id = new_id(channel, RDMA_PS_TCP);
	MINUS_WITH(write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), EINVAL);
	CHECK(!is_pending(channel));
	CHECK(!write_cm_event(id, USER, -5, 0x1234567890abcdef));
	struct rdma_cm_event *event = next_event(channel, USER);
	uint64_t argument;
	memcpy(&argument, &event->param, sizeof argument);
	CHECK(event->id == id && event->status == -5 && argument == 0x1234567890abcdef);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!write_cm_event(id, USER, 0, 1));
	CHECK(!rdma_destroy_id(id));
	CHECK(!is_pending(channel));
}

int main(void)
{
	resolve_addrinfo = symbol("rdma_resolve_addrinfo");
	query_addrinfo = symbol("rdma_query_addrinfo");
	write_cm_event = symbol("rdma_write_cm_event");
	struct rdma_event_channel *channel = rdma_create_event_channel();
	CHECK(channel);
	names(channel);
	own_events(channel);
	rdma_destroy_event_channel(channel);
	return verdict();
}
