/* The errno of each refused call of rdma_cm. */
#include "cm.h"

static struct rdma_event_channel *channel;

static void ids_and_addresses(void)
{
	struct rdma_cm_id *id;
	struct sockaddr_in mine = local(0), other = local(0), busy;
	struct sockaddr_storage infiniband = { .ss_family = 27 }, nobody = { .ss_family = AF_UNIX };

	MINUS_WITH(rdma_create_id(channel, &id, NULL, 0x1234), EINVAL);
	MINUS_WITH(rdma_create_id(channel, NULL, NULL, RDMA_PS_TCP), EINVAL);
	MINUS_WITH(rdma_destroy_id(NULL), EINVAL);
	id = new_id(channel, RDMA_PS_TCP);
	CHECK(id->channel == channel && id->ps == RDMA_PS_TCP && id->qp_type == IBV_QPT_RC && !id->verbs);
	MINUS_WITH(rdma_bind_addr(id, SA(&infiniband)), ENODEV);
	MINUS_WITH(rdma_bind_addr(id, SA(&nobody)), EINVAL);
	MINUS_WITH(rdma_bind_addr(id, NULL), EINVAL);
	other.sin_addr.s_addr = inet_addr("198.51.100.7");
	MINUS_WITH(rdma_bind_addr(id, SA(&other)), EADDRNOTAVAIL);
	CHECK(!rdma_bind_addr(id, SA(&mine)));
	CHECK(id->verbs && id->pd && id->port_num == 1 && id->pd->context == id->verbs);
	CHECK(((struct sockaddr_in *)rdma_get_local_addr(id))->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	MINUS_WITH(rdma_bind_addr(id, SA(&mine)), EINVAL);
	CHECK(!rdma_listen(id, 4));
	MINUS_WITH(rdma_listen(id, 4), EINVAL);
	busy = local(ntohs(rdma_get_src_port(id)));
	struct rdma_cm_id *second = new_id(channel, RDMA_PS_TCP);
	MINUS_WITH(rdma_bind_addr(second, SA(&busy)), EADDRINUSE);
	CHECK(!rdma_destroy_id(id));
	/* The port is free again immediately. */
	CHECK(!rdma_bind_addr(second, SA(&busy)));
	CHECK(!rdma_destroy_id(second));
}

static void out_of_order(void)
{
	struct rdma_conn_param param = { .retry_count = 7 };
	struct ibv_qp_init_attr attr = small_qp(IBV_QPT_RC);
	struct ibv_qp_attr qp_attr = { .qp_state = IBV_QPS_INIT };
	struct sockaddr_in mine = local(0), to = local(1);
	int mask;
	struct rdma_cm_id *id = new_id(channel, RDMA_PS_TCP);

	MINUS_WITH(rdma_create_qp(id, NULL, &attr), EINVAL);
	MINUS_WITH(rdma_resolve_route(id, 1000), EINVAL);
	MINUS_WITH(rdma_connect(id, &param), EINVAL);
	MINUS_WITH(rdma_accept(id, &param), EINVAL);
	MINUS_WITH(rdma_reject(id, NULL, 0), EINVAL);
	MINUS_WITH(rdma_disconnect(id), EINVAL);
	MINUS_WITH(rdma_establish(id), EINVAL);
	MINUS_WITH(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
	MINUS_WITH(rdma_init_qp_attr(id, &qp_attr, &mask), EINVAL);
	MINUS_WITH(rdma_get_request(id, &id), EINVAL);
	MINUS_WITH(rdma_join_multicast(id, SA(&to), NULL), EINVAL);
	MINUS_WITH(rdma_leave_multicast(id, SA(&to)), EADDRNOTAVAIL);
	MINUS_WITH(rdma_resolve_addr(id, NULL, NULL, 1000), EINVAL);
	CHECK(!rdma_bind_addr(id, SA(&mine)));
	MINUS_WITH(rdma_connect(id, &param), EINVAL);
	CHECK(!rdma_init_qp_attr(id, &qp_attr, &mask));
	CHECK(qp_attr.port_num == 1 && (mask & IBV_QP_STATE) && (mask & IBV_QP_PORT));
	qp_attr.qp_state = IBV_QPS_RTR;
	MINUS_WITH(rdma_init_qp_attr(id, &qp_attr, &mask), EINVAL);
	qp_attr.qp_state = IBV_QPS_SQD;
	MINUS_WITH(rdma_init_qp_attr(id, &qp_attr, &mask), EINVAL);
	attr.qp_type = IBV_QPT_UD;
	MINUS_WITH(rdma_create_qp(id, NULL, &attr), EINVAL);
	attr.qp_type = IBV_QPT_RC;
	CHECK(!rdma_create_qp(id, NULL, &attr));
	CHECK(state_of(id->qp) == IBV_QPS_INIT);
	MINUS_WITH(rdma_create_qp(id, NULL, &attr), EINVAL);
	rdma_destroy_qp(id);
	CHECK(!id->qp && !id->send_cq && !id->recv_cq);
	CHECK(!rdma_destroy_id(id));
}

static void parameters(void)
{
	static char data[255];
	struct rdma_conn_param param = { .private_data = data, .private_data_len = 57, .retry_count = 7 };
	struct rdma_cm_id *id = resolved(channel, RDMA_PS_TCP, htons(1));

	CHECK(id->route.num_paths == 1 && id->route.path_rec && id->route.path_rec->mtu >= 1);
	CHECK(rdma_get_dst_port(id) == htons(1) && rdma_get_src_port(id) != 0);
	MINUS_WITH(rdma_connect(id, NULL), EINVAL); /* No queue pair, and no number of one. */
	give_qp(id);
	MINUS_WITH(rdma_connect(id, &param), EINVAL);
	param.private_data_len = 0;
	param.responder_resources = 0xfe;
	MINUS_WITH(rdma_connect(id, &param), EINVAL);
	param.responder_resources = 1;
	/* Nobody listens there. */
	CHECK(!rdma_connect(id, &param));
	struct rdma_cm_event *event = next_event(channel, RDMA_CM_EVENT_REJECTED);
	CHECK(event->status == 8 && event->id == id);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(state_of(id->qp) == IBV_QPS_ERR);
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id));
	MINUS_WITH(rdma_ack_cm_event(NULL), EINVAL);
}

static void options(void)
{
	struct rdma_cm_id *id = new_id(channel, RDMA_PS_TCP);
	uint8_t byte = 3;
	int on = 1;
	struct ibv_path_data path = { .flags = IBV_PATH_FLAG_GMP };

	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1));
	MINUS_WITH(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &on, sizeof on), EINVAL);
	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on));
	MINUS_WITH(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &byte, 1), EINVAL);
	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on));
	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1));
	MINUS_WITH(rdma_set_option(id, RDMA_OPTION_ID, 99, &byte, 1), ENOSYS);
	MINUS_WITH(rdma_set_option(id, 7, RDMA_OPTION_ID_TOS, &byte, 1), ENOSYS);
	MINUS_WITH(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, 5), EINVAL);
	MINUS_WITH(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof path), EINVAL);
	MINUS_WITH(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 1), EINVAL);
	CHECK(!rdma_destroy_id(id));
}

static void channels(void)
{
	struct rdma_event_channel *own = rdma_create_event_channel();
	struct rdma_cm_event *event;
	CHECK(own);
	CHECK(!fcntl(own->fd, F_SETFL, fcntl(own->fd, F_GETFL) | O_NONBLOCK));
	MINUS_WITH(rdma_get_cm_event(own, &event), EAGAIN);
	MINUS_WITH(rdma_get_cm_event(own, NULL), EINVAL);
	CHECK(!is_pending(own));
	rdma_destroy_event_channel(own);
}

static void address_information(void)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE | RAI_FAMILY, .ai_family = AF_INET6 }, *res = NULL;
	struct sockaddr_in source = local(5);

	MINUS_WITH(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
	CHECK(!rdma_getaddrinfo(NULL, "7471", &hints, &res));
	CHECK(res->ai_src_len == sizeof(struct sockaddr_in6) && !res->ai_dst_len && res->ai_family == AF_INET6);
	CHECK(res->ai_qp_type == IBV_QPT_RC && res->ai_port_space == RDMA_PS_TCP);
	rdma_freeaddrinfo(res);
	hints = (struct rdma_addrinfo){ .ai_port_space = RDMA_PS_UDP, .ai_src_addr = SA(&source), .ai_src_len = sizeof source };
	CHECK(!rdma_getaddrinfo("127.0.0.1", "7471", &hints, &res));
	CHECK(res->ai_qp_type == IBV_QPT_UD && res->ai_src_len == sizeof source && res->ai_dst_len == sizeof source);
	CHECK(!memcmp(res->ai_src_addr, &source, sizeof source) && res->ai_src_addr != SA(&source) && !res->ai_next);
	rdma_freeaddrinfo(res);
	hints = (struct rdma_addrinfo){ .ai_flags = RAI_NUMERICHOST };
	RETURNS(rdma_getaddrinfo("localhost", "7471", &hints, &res), EAI_NONAME);
	hints.ai_flags = 1 << 20;
	RETURNS(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &res), EAI_BADFLAGS);
	hints = (struct rdma_addrinfo){ .ai_flags = RAI_FAMILY, .ai_family = 27 };
	RETURNS(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &res), EAI_FAMILY);
	RETURNS(rdma_getaddrinfo("127.0.0.1", "no such service", NULL, &res), EAI_SERVICE);
	rdma_freeaddrinfo(NULL);
	/* Programs make such lists themselves, as libfabric does. */
	res = calloc(1, sizeof *res);
	res->ai_src_addr = malloc(16);
	res->ai_route = malloc(8);
	res->ai_dst_canonname = strdup("own");
	rdma_freeaddrinfo(res);
}

static void devices(void)
{
	int count = -1;
	struct ibv_context **list = rdma_get_devices(&count), **again = rdma_get_devices(NULL);
	CHECK(list && count > 0 && !list[count] && list[0] == again[0]);
	struct rdma_cm_id *id = new_id(channel, RDMA_PS_UDP);
	struct sockaddr_in mine = local(0);
	CHECK(!rdma_bind_addr(id, SA(&mine)));
	int found = 0;
	for (int i = 0; i < count; i++)
		found |= list[i] == id->verbs;
	CHECK(found, "one context per device");
	CHECK(!rdma_destroy_id(id));
	rdma_free_devices(list);
	rdma_free_devices(again);
	rdma_free_devices(NULL);
	CHECK(!strcmp(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT"));
	CHECK(rdma_event_str(1000) && rdma_event_str(-1));
}

int main(void)
{
	channel = rdma_create_event_channel();
	CHECK(channel);
	ids_and_addresses();
	out_of_order();
	parameters();
	options();
	channels();
	address_information();
	devices();
	rdma_destroy_event_channel(channel);
	return verdict();
}
