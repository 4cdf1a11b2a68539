/*
 * Opens the first device and prints its name. Also built against our static library:
 *
 *   cc -o device_list device_list.c libibverbs.a -lpthread -ldl -lm -lgcc_s
 */
#include "check.h"

int main(void)
{
	struct ibv_context *context = open_first();
	struct ibv_device_attr attr;
	CHECK(!ibv_query_device(context, &attr));
	CHECK(attr.phys_port_cnt == 1);
	printf("%s\n", ibv_get_device_name(context->device));
	CHECK(!ibv_close_device(context));
	return 0;
}
