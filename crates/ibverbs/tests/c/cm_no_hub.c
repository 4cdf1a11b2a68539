/* No hub can be started: every call fails, and the reason is printed once. */
#include "cm.h"
#include <rdma/rsocket.h>

int main(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in to = local(1);
	struct rdma_cm_id *id;
	CHECK(channel);
	for (int i = 0; i < 3; i++)
		CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == -1 && errno);
	int socket = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(socket < 0 || rconnect(socket, SA(&to), sizeof to) == -1);
	rdma_destroy_event_channel(channel);
	return verdict();
}
