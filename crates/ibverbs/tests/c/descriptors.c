/*
 * Descriptors and threads of the library: descriptors that the program does not see have high numbers, and all end with
 * the last object, each time. The first argument is the number of rounds, the second the lowest number of such descriptors.
 */
#include "cm.h"
#include "peer.h"
#include <dirent.h>
#include <rdma/rsocket.h>
#include <sys/resource.h>

enum { BYTES = 100000, MAX_FDS = 4096 };

/* The open descriptors. */
static int listed(char open[MAX_FDS])
{
	int count = 0;
	memset(open, 0, MAX_FDS);
	DIR *all = opendir("/proc/self/fd");
	CHECK(all);
	for (struct dirent *entry; (entry = readdir(all));) {
		int fd = atoi(entry->d_name);
		if (entry->d_name[0] == '.' || fd == dirfd(all))
			continue;
		CHECK(fd < MAX_FDS);
		open[fd] = 1;
		count++;
	}
	closedir(all);
	return count;
}

static int threads(void)
{
	int count = 0;
	DIR *all = opendir("/proc/self/task");
	for (struct dirent *entry; (entry = readdir(all));)
		count += entry->d_name[0] != '.';
	closedir(all);
	return count;
}

static void tell(int fd)
{
	char path[64], target[256] = "";
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	CHECK(readlink(path, target, sizeof(target) - 1) > 0);
	fprintf(stderr, "descriptor %d: %s\n", fd, target);
}

static char at_first[MAX_FDS];
static int lowest;

/* The first low descriptor that is neither the program's nor one that it sees; -1 if there is none. */
static int first_low(const int *seen, int count)
{
	char now[MAX_FDS];
	listed(now);
	for (int fd = 0; fd < lowest; fd++) {
		int is_seen = 0;
		for (int i = 0; i < count; i++)
			is_seen |= seen[i] == fd;
		if (now[fd] && !at_first[fd] && !is_seen)
			return fd;
	}
	return -1;
}

/*
 * Descriptors that the program sees may be anywhere; all others are high. The kernel creates each one low, and a
 * thread of the library moves it a moment later, which takes longer on a busy machine.
 */
static void check_numbers(const int *seen, int count)
{
	int fd = first_low(seen, count);
	for (int attempt = 0; fd >= 0 && attempt < 5000; attempt++) {
		usleep(1000);
		fd = first_low(seen, count);
	}
	if (fd >= 0)
		tell(fd);
	CHECK(fd < 0, "%d is not high", fd);
}

static void check_all_gone(const char *after, int threads_at_first)
{
	char now[MAX_FDS];
	listed(now);
	for (int fd = 0; fd < MAX_FDS; fd++) {
		if (now[fd] && !at_first[fd])
			tell(fd);
		CHECK(now[fd] == at_first[fd], "%d after %s", fd, after);
	}
	/* The kernel takes a thread that was waited for out of its list a moment later. */
	for (int look = 0; threads() > threads_at_first && look < 1000; look++)
		usleep(1000);
	CHECK(threads() == threads_at_first, "%d of %d threads after %s", threads(), threads_at_first, after);
}

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp[2];
	unsigned char *bytes;
};

static struct side open_side(void)
{
	struct side s = { .context = open_first() };
	s.pd = ibv_alloc_pd(s.context);
	s.channel = ibv_create_comp_channel(s.context);
	s.cq = ibv_create_cq(s.context, 64, NULL, s.channel, 0);
	s.bytes = aligned_alloc(4096, 2 * BYTES + 4096 - 2 * BYTES % 4096);
	s.mr = ibv_reg_mr(s.pd, s.bytes, 2 * BYTES, ALL_ACCESS);
	CHECK(s.pd && s.channel && s.cq && s.mr);
	for (int i = 0; i < 2; i++)
		CHECK((s.qp[i] = make_qp(s.pd, s.cq, IBV_QPT_RC)));
	return s;
}

static void close_side(struct side *s)
{
	CHECK(!ibv_destroy_qp(s->qp[0]) && !ibv_destroy_qp(s->qp[1]) && !ibv_destroy_cq(s->cq));
	CHECK(!ibv_destroy_comp_channel(s->channel) && !ibv_dereg_mr(s->mr) && !ibv_dealloc_pd(s->pd));
	CHECK(!ibv_close_device(s->context));
	free(s->bytes);
}

static void write_and_compare(struct side *s, int seed)
{
	memset(s->bytes, seed, BYTES);
	memset(s->bytes + BYTES, 0, BYTES);
	CHECK(!post(s->qp[0], IBV_WR_RDMA_WRITE, s->bytes, BYTES, s->mr->lkey, (uintptr_t)s->bytes + BYTES, s->mr->rkey, 1));
	CHECK(next_wc(s->cq).status == IBV_WC_SUCCESS);
	CHECK(!memcmp(s->bytes, s->bytes + BYTES, BYTES));
}

/* Both ends in this process. */
static void verbs(int seed)
{
	struct side s = open_side();
	for (int i = 0; i < 2; i++)
		connect_rc(s.qp[i], s.qp[1 - i]->qp_num, first_gid(s.context));
	write_and_compare(&s, seed);
	check_numbers((int[]){ s.context->async_fd, s.channel->fd }, 2);
	close_side(&s);
}

/* A connection by address, both ends here. Objects made on `id->verbs` are destroyed after the ids. */
static void connections(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listens = listener(channel, RDMA_PS_TCP);
	struct rdma_cm_id *id = resolved(channel, RDMA_PS_TCP, rdma_get_src_port(listens));
	give_qp(id);
	struct ibv_pd *pd = ibv_alloc_pd(id->verbs);
	CHECK(pd);
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	CHECK(!rdma_connect(id, &param));
	struct rdma_cm_event *event = next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *other = event->id;
	CHECK(!rdma_ack_cm_event(event));
	give_qp(other);
	CHECK(!rdma_accept(other, &param));
	pass(channel, RDMA_CM_EVENT_ESTABLISHED);
	pass(channel, RDMA_CM_EVENT_ESTABLISHED);
	check_numbers((int[]){ channel->fd, id->verbs->async_fd, id->recv_cq_channel->fd, id->send_cq_channel->fd,
			       other->recv_cq_channel->fd, other->send_cq_channel->fd }, 6);
	CHECK(!rdma_disconnect(id));
	rdma_destroy_qp(id);
	rdma_destroy_qp(other);
	CHECK(!rdma_destroy_id(id) && !rdma_destroy_id(other) && !rdma_destroy_id(listens));
	rdma_destroy_event_channel(channel);
	CHECK(!ibv_dealloc_pd(pd));
}

static void sockets(void)
{
	struct sockaddr_in from = local(0), to = local(0);
	socklen_t len = sizeof(to);
	int out = rsocket(AF_INET, SOCK_DGRAM, 0), in = rsocket(AF_INET, SOCK_DGRAM, 0);
	int listens = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(out >= 0 && in >= 0 && !rbind(out, SA(&from), sizeof(from)) && !rbind(in, SA(&to), sizeof(to)));
	CHECK(!rbind(listens, SA(&from), sizeof(from)) && !rlisten(listens, 1));
	CHECK(!rgetsockname(in, SA(&to), &len));
	char word[8] = "";
	CHECK(rsendto(out, "word", 5, 0, SA(&to), len) == 5);
	CHECK(rrecvfrom(in, word, sizeof(word), 0, NULL, NULL) == 5 && !strcmp(word, "word"));
	CHECK(!rclose(out) && !rclose(in) && !rclose(listens));
}

/* The other end in another process. */
static void neighbour(int socket, int seed, int writes)
{
	struct side s = open_side();
	struct address peer = meet_peer(socket, s.qp[0], s.mr);
	if (writes) {
		memset(s.bytes, seed, BYTES);
		CHECK(!post(s.qp[0], IBV_WR_RDMA_WRITE, s.bytes, BYTES, s.mr->lkey, peer.addr, peer.rkey, 1));
		CHECK(next_wc(s.cq).status == IBV_WC_SUCCESS);
		check_numbers((int[]){ s.context->async_fd, s.channel->fd, socket }, 3);
	}
	both_are_ready(socket);
	for (int i = 0; !writes && i < BYTES; i++)
		CHECK(s.bytes[i] == (unsigned char)seed);
	close_side(&s);
	both_are_ready(socket);
}

int main(int count, char **words)
{
	int rounds = atoi(words[count - 1]);
	if (!strcmp(words[0], "peer")) {
		begin_peer();
		for (int round = 0; round < rounds; round++)
			neighbour(PARENT, round, 0);
		return 0;
	}
	rounds = atoi(words[1]);
	lowest = atoi(words[2]);
	listed(at_first);
	verbs(0);
	struct peer peer = start_peer("other", rounds / 10);
	listed(at_first);
	int threads_at_first = threads();
	for (int round = 0; round < rounds; round++) {
		verbs(round);
		check_all_gone("verbs", threads_at_first);
		connections();
		check_all_gone("connections", threads_at_first);
		if (round % 10)
			continue;
		sockets();
		check_all_gone("sockets", threads_at_first);
		neighbour(peer.socket, round / 10, 1);
		check_all_gone("traffic with another process", threads_at_first);
	}
	CHECK(waitpid(peer.pid, NULL, 0) == peer.pid);
	puts("all closed");
	return 0;
}
