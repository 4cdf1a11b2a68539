/*
 * More processes than the hub has slots for are killed one after the other with the device
 * open. The next one still gets a slot: the dead processes keep none.
 */
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

enum { PLACES = 250 };

int main(void)
{
	for (int i = 0; i < PLACES + 10; i++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (!child) {
			struct ibv_context *context = open_first();
			struct ibv_pd *pd = ibv_alloc_pd(context);
			struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
			CHECK(pd && cq && make_qp(pd, cq, IBV_QPT_UD));
			raise(SIGKILL);
		}
		int status;
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "process %d: %x", i, status);
	}
	CHECK(!ibv_close_device(open_first()));
	puts("none leaked");
	return 0;
}
