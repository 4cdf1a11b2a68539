/*
 * Signals sent to the process reach the program, never a thread of the library: the device's, the connection
 * manager's, that of sockets, and the resolver's.
 */
#include "cm.h"
#include <dirent.h>
#include <dlfcn.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

static pid_t own_thread;
static sig_atomic_t handled_elsewhere, handled_here;
static uint64_t resolver_blocks;

static uint64_t bit(int signal)
{
	return 1ull << (signal - 1);
}

/* The signals that a thread blocks; its name, too. */
static uint64_t blocked_by(const char *thread, char name[64])
{
	char path[64], line[256];
	uint64_t blocked = 0;
	snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread);
	FILE *status = fopen(path, "r");
	CHECK(status, "%s", path);
	while (fgets(line, sizeof(line), status)) {
		sscanf(line, "Name: %63s", name);
		sscanf(line, "SigBlk: %" SCNx64, &blocked);
	}
	fclose(status);
	return blocked;
}

/* The library's thread that looks up names comes here: in place of the C library's function. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	char name[64], thread[16];
	pid_t tid = syscall(SYS_gettid);
	if (tid != own_thread) {
		snprintf(thread, sizeof(thread), "%d", tid);
		__atomic_store_n(&resolver_blocks, blocked_by(thread, name), __ATOMIC_SEQ_CST);
	}
	if (!real)
		real = (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))
			dlsym(RTLD_NEXT, "getaddrinfo");
	return real(node, service, hints, result);
}

static void check_mask(const char *name, uint64_t blocked)
{
	static const int sent[] = { SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGCHLD, SIGIO,
				    SIGPROF, SIGWINCH };
	static const int raised[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };
	for (size_t i = 0; i < sizeof(sent) / sizeof(*sent); i++)
		CHECK(blocked & bit(sent[i]), "%s takes %s", name, strsignal(sent[i]));
	for (int signal = SIGRTMIN; signal <= SIGRTMAX; signal++)
		CHECK(blocked & bit(signal), "%s takes real-time signal %d", name, signal);
	for (size_t i = 0; i < sizeof(raised) / sizeof(*raised); i++)
		CHECK(!(blocked & bit(raised[i])), "%s blocks %s", name, strsignal(raised[i]));
}

/* Looks at all threads but this one; returns how many there are. */
static int check_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	CHECK(tasks);
	int count = 0;
	for (struct dirent *task; (task = readdir(tasks));) {
		if (task->d_name[0] == '.' || atoi(task->d_name) == own_thread)
			continue;
		char name[64] = "";
		uint64_t blocked = blocked_by(task->d_name, name);
		/* The C library blocks all in a thread that it is just starting; it has no name of its own yet. */
		for (int look = 0; !strcmp(name, "signals") && look < 5000; look++) {
			usleep(1000);
			blocked = blocked_by(task->d_name, name);
		}
		check_mask(name, blocked);
		count++;
	}
	closedir(tasks);
	return count;
}

/* Everything that has a thread of its own. */
static void start_all(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id = listener(channel, RDMA_PS_TCP);
	open_first();
	struct sockaddr_in any = local(0);
	int datagrams = rsocket(AF_INET, SOCK_DGRAM, 0);
	CHECK(datagrams >= 0 && !rbind(datagrams, SA(&any), sizeof(any)));
	int (*resolve)(struct rdma_cm_id *, const char *, const char *, const struct rdma_addrinfo *) =
		(int (*)(struct rdma_cm_id *, const char *, const char *, const struct rdma_addrinfo *))
			dlsym(RTLD_DEFAULT, "rdma_resolve_addrinfo");
	CHECK(resolve);
	CHECK(!resolve(id, "127.0.0.1", "7471", NULL));
	struct rdma_cm_event *event;
	CHECK(!rdma_get_cm_event(channel, &event));
	CHECK(!rdma_ack_cm_event(event));
	check_mask("the thread that looks up names", __atomic_load_n(&resolver_blocks, __ATOMIC_SEQ_CST));
}

static void note(int signal)
{
	(void)signal;
	if (syscall(SYS_gettid) == own_thread)
		handled_here++;
	else
		handled_elsewhere++;
}

int main(void)
{
	own_thread = syscall(SYS_gettid);
	start_all(rdma_create_event_channel());
	CHECK(check_threads() >= 3, "the device's, the connection manager's, that of sockets");

	/* As tgtd does: blocked in the program's own threads, once the device is open, and read from a descriptor. */
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGRTMIN);
	CHECK(!sigprocmask(SIG_BLOCK, &set, NULL));
	int fd = signalfd(-1, &set, SFD_CLOEXEC);
	for (int round = 0; round < 200; round++) {
		int signal = round % 2 ? SIGUSR1 : SIGRTMIN;
		CHECK(!kill(getpid(), signal));
		struct signalfd_siginfo info;
		CHECK(read(fd, &info, sizeof(info)) == sizeof(info) && (int)info.ssi_signo == signal);
	}
	/* And with a handler, while this thread blocks it for a while. */
	struct sigaction action = { .sa_handler = note };
	CHECK(!sigaction(SIGUSR2, &action, NULL));
	for (int round = 1; round <= 100; round++) {
		sigset_t two, old;
		sigemptyset(&two);
		sigaddset(&two, SIGUSR2);
		CHECK(!sigprocmask(SIG_BLOCK, &two, &old));
		CHECK(!kill(getpid(), SIGUSR2));
		usleep(100);
		CHECK(!sigprocmask(SIG_SETMASK, &old, NULL));
		CHECK(handled_here == round && !handled_elsewhere, "%d here, %d elsewhere", handled_here, handled_elsewhere);
	}
	puts("ours alone");
	fflush(stdout);
	_exit(0);
}
