/*
 * Loads libraries of a distribution that are linked against libibverbs, every symbol at once. Asks
 * libmlx5 and libefa about a device that is none of theirs.
 */
#include "check.h"
#include <dlfcn.h>
#include <stdbool.h>

int main(void)
{
	struct ibv_context *context = open_first();
	const char *names[] = { "libmlx5.so.1", "libefa.so.1", "librdmacm.so.1" };
	void *loaded[3];
	for (int i = 0; i < 3; i++) {
		loaded[i] = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
		CHECK(loaded[i], "%s", dlerror());
	}
	bool (*is_mlx5)(struct ibv_device *) = (bool (*)(struct ibv_device *))dlsym(loaded[0], "mlx5dv_is_supported");
	CHECK(is_mlx5 && !is_mlx5(context->device));
	int (*query_efa)(struct ibv_context *, void *, uint32_t) =
		(int (*)(struct ibv_context *, void *, uint32_t))dlsym(loaded[1], "efadv_query_device");
	char attr[256];
	CHECK(query_efa && query_efa(context, attr, sizeof(attr)) == EOPNOTSUPP);
	CHECK(!ibv_close_device(context));
	puts("loaded");
	return 0;
}
