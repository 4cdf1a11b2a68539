/* A peer in another process: this program executed again with a role, and a socket between the two. */
#ifndef PEER_H
#define PEER_H

#include "check.h"
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

/* The peer's end of the socket. */
enum { PARENT = 53 };

struct peer {
	pid_t pid;
	int socket;
};

extern char **environ;

static inline void say(int socket, const void *bytes, size_t len)
{
	CHECK(write(socket, bytes, len) == (ssize_t)len);
}

static inline void hear(int socket, void *bytes, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t count = read(socket, (char *)bytes + at, len - at);
		CHECK(count > 0, "the peer is gone");
		at += count;
	}
}

/* Starts a process whose `main` gets the role and the socket's number, with these variables. */
static inline struct peer start_with(const char *role, int number, char **variables)
{
	int ends[2];
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	posix_spawn_file_actions_t actions;
	CHECK(!posix_spawn_file_actions_init(&actions));
	CHECK(!posix_spawn_file_actions_adddup2(&actions, ends[1], PARENT));
	char word[16];
	snprintf(word, sizeof(word), "%d", number);
	char *arguments[] = { "peer", (char *)role, word, NULL };
	struct peer peer = { .socket = ends[0] };
	CHECK(!posix_spawn(&peer.pid, "/proc/self/exe", &actions, NULL, arguments, variables));
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	return peer;
}

static inline struct peer start_peer(const char *role, int number)
{
	return start_with(role, number, environ);
}

/* Called by a peer first: it ends with the process that started it. */
static inline void begin_peer(void)
{
	CHECK(!prctl(PR_SET_PDEATHSIG, SIGKILL));
}

static inline void end_peer(struct peer *peer, int signal)
{
	CHECK(!kill(peer->pid, signal));
	CHECK(waitpid(peer->pid, NULL, 0) == peer->pid);
	close(peer->socket);
}

/* Sends the addresses of `qp` and `bytes`, and receives those of the peer. */
static inline struct address exchange(int socket, struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct address own = { qp->qp_num, mr ? mr->rkey : 0, mr ? (uintptr_t)mr->addr : 0, first_gid(qp->context) }, other;
	say(socket, &own, sizeof(own));
	hear(socket, &other, sizeof(other));
	return other;
}

static inline void both_are_ready(int socket)
{
	char ready = 1;
	say(socket, &ready, 1);
	hear(socket, &ready, 1);
}

static inline struct address meet_peer(int socket, struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct address peer = exchange(socket, qp, mr);
	connect_rc(qp, peer.qpn, peer.gid);
	both_are_ready(socket);
	return peer;
}

static inline int post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, void *bytes, uint32_t len, uint32_t lkey,
		       uint64_t addr, uint32_t rkey, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)bytes, len, lkey };
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode }, *bad;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.swap = 1;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(qp, &wr, &bad);
}

static inline int post_receive(struct ibv_qp *qp, void *bytes, uint32_t len, uint32_t lkey, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)bytes, len, lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;
	return ibv_post_recv(qp, &wr, &bad);
}

/* Mappings of this process whose line contains a word; of all words if it is NULL. */
static inline int mappings(pid_t pid, const char *word)
{
	char path[64], line[4096];
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "r");
	CHECK(maps);
	int count = 0;
	while (fgets(line, sizeof(line), maps))
		count += !word || strstr(line, word) != NULL;
	fclose(maps);
	return count;
}

/* The hub's process. */
static inline pid_t hub(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	char command[300];
	snprintf(command, sizeof(command), "find %s -type s | head -1", getenv("LONGARM_RUNTIME_DIR"));
	FILE *find = popen(command, "r");
	CHECK(find && fgets(to.sun_path, sizeof(to.sun_path), find));
	pclose(find);
	to.sun_path[strcspn(to.sun_path, "\n")] = 0;
	int type = SOCK_SEQPACKET, fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	CHECK(!connect(fd, (struct sockaddr *)&to, sizeof(to)), "%s", to.sun_path);
	struct ucred who;
	socklen_t len = sizeof(who);
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len));
	close(fd);
	return who.pid;
}

#endif
