/*
 * A program opens the device, connects queue pairs, forks, and ends. Its child lives on and does nothing. The hub
 * is killed. Another program gets the device nevertheless: the child keeps neither the UDP port nor anything else. Calls
 * of the child with its parent's objects are refused.
 */
#include "check.h"
#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static ino_t network_of(const char *pid)
{
	char path[300];
	struct stat status;
	snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
	return stat(path, &status) ? 0 : status.st_ino;
}

/* Kills the hub of this network namespace. */
static void kill_hub(void)
{
	int killed = 0;
	DIR *dir = opendir("/proc");
	CHECK(dir);
	for (struct dirent *entry; (entry = readdir(dir));) {
		char path[300], name[64] = "";
		if (!isdigit(entry->d_name[0]) || network_of(entry->d_name) != network_of("self"))
			continue;
		snprintf(path, sizeof path, "/proc/%s/comm", entry->d_name);
		FILE *file = fopen(path, "r");
		if (file && fgets(name, sizeof name, file) && !strcmp(name, "longarm-hub\n")) {
			CHECK(!kill(atoi(entry->d_name), SIGKILL));
			killed++;
		}
		if (file)
			fclose(file);
	}
	closedir(dir);
	CHECK(killed == 1, "%d hubs", killed);
}

/* From the child, and to it. */
static int report[2], lives[2];

/* The child: says whether its parent's objects were refused, and stays until the test ends. */
static void stay(struct ibv_context *context, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	char refused = !ibv_alloc_pd(context) && ibv_modify_qp(qp, &attr, IBV_QP_STATE) &&
		       !ibv_create_cq(context, 1, NULL, NULL, 0);
	CHECK(write(report[1], &refused, 1) == 1);
	close(lives[1]);
	CHECK(read(lives[0], &refused, 1) == 0);
	_exit(0);
}

static void open_and_fork(void)
{
	struct ibv_context *context = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	CHECK(pd && cq);
	struct ibv_qp *qp[2];
	for (int i = 0; i < 2; i++)
		CHECK((qp[i] = make_qp(pd, cq, IBV_QPT_RC)));
	for (int i = 0; i < 2; i++)
		connect_rc(qp[i], qp[1 - i]->qp_num, first_gid(context));
	pid_t child = fork();
	CHECK(child >= 0);
	if (!child)
		stay(context, qp[0]);
	_exit(0);
}

int main(void)
{
	int status;
	char refused = 0;
	CHECK(!pipe(report) && !pipe(lives));
	pid_t parent = fork();
	if (!parent)
		open_and_fork();
	CHECK(waitpid(parent, &status, 0) == parent && WIFEXITED(status) && !WEXITSTATUS(status), "%x", status);
	CHECK(read(report[0], &refused, 1) == 1 && refused, "the child could use its parent's objects");
	kill_hub();
	CHECK(!ibv_close_device(open_first()));
	puts("the port is free");
	return 0;
}
