/* Verbs that came after release 44: buffers, regions by attributes, parent domains, the context's newer entries. */
#include "errors.h"
#include <dlfcn.h>

/* As in the header of release 65. */
struct buf;
struct mr_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct buf *buf;
};
enum { IOVA = 1, ADDR = 1 << 1, FD = 1 << 2, FD_OFFSET = 1 << 3, DMAH = 1 << 4, BUF = 1 << 5 };
enum { ALLOW_CC_UNPROTECTED_ALLOC = 1 << 2 };

static void *(*alloc_buf)(struct ibv_pd *, size_t, struct buf **);
static void (*free_buf)(struct buf *);
static struct ibv_mr *(*reg_buf_mr)(struct ibv_pd *, struct buf *, void *, size_t, int);
static int (*export_buf)(struct buf *);
static struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *, struct mr_attr *);
static void *(*alloc_dmah)(struct ibv_context *, void *);
static int (*dm_export)(struct ibv_dm *);

static void *symbol(const char *name, const char *node)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);
	void *found = library ? dlvsym(library, name, node) : NULL;
	CHECK(found, "%s", name);
	return found;
}

static struct ibv_context *context;
static struct ibv_pd *pd, *another;

static void registered(struct ibv_mr *mr)
{
	CHECK(mr && !ibv_dereg_mr(mr));
}

static void buffers(struct ibv_pd *domain)
{
	struct buf *buf = NULL;
	char *start = alloc_buf(domain, 100, &buf);
	CHECK(start && buf);
	memset(start, 1, 100);
	registered(reg_buf_mr(domain, buf, start, 100, IBV_ACCESS_LOCAL_WRITE));
	registered(reg_buf_mr(domain, buf, start + 60, 40, IBV_ACCESS_LOCAL_WRITE));
	NULL_WITH(reg_buf_mr(domain, buf, start, 101, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	NULL_WITH(reg_buf_mr(domain, buf, start, 4096, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	NULL_WITH(reg_buf_mr(domain, buf, start + 60, 41, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	NULL_WITH(reg_buf_mr(domain, buf, start - 1, 1, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	NULL_WITH(reg_buf_mr(domain, buf, start + 60, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	NULL_WITH(reg_buf_mr(another, buf, start, 100, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	NULL_WITH(reg_buf_mr(domain, NULL, start, 100, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	struct mr_attr attr = { .length = 50, .access = IBV_ACCESS_LOCAL_WRITE, .comp_mask = BUF, .addr = start, .buf = buf };
	NULL_WITH(reg_mr_ex(domain, &attr), EINVAL);
	attr.comp_mask = BUF | ADDR;
	registered(reg_mr_ex(domain, &attr));
	attr.comp_mask = BUF | ADDR | FD;
	NULL_WITH(reg_mr_ex(domain, &attr), EINVAL);
	attr.comp_mask = BUF | ADDR | FD_OFFSET;
	NULL_WITH(reg_mr_ex(domain, &attr), EINVAL);
	attr.comp_mask = BUF | ADDR | IOVA, attr.iova = (uintptr_t)start + 4096;
	registered(reg_mr_ex(domain, &attr));
	attr.comp_mask = BUF | ADDR, attr.length = 101;
	NULL_WITH(reg_mr_ex(domain, &attr), EINVAL);
	MINUS_WITH(export_buf(buf), ENODATA);
	free_buf(buf);
	free_buf(NULL);

	struct buf *empty = NULL;
	void *nothing = alloc_buf(domain, 0, &empty);
	CHECK(nothing && empty);
	NULL_WITH(reg_buf_mr(domain, empty, nothing, 1, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	free_buf(empty);
	NULL_WITH(alloc_buf(domain, SIZE_MAX, &empty), ENOMEM);
}

/* A device that reaches protected memory accepts the permission to share memory with the host, and does not need it. */
static void parents(void)
{
	struct ibv_parent_domain_init_attr attr = { .pd = pd, .comp_mask = ALLOW_CC_UNPROTECTED_ALLOC };
	struct ibv_pd *shared = ibv_alloc_parent_domain(context, &attr);
	CHECK(shared);
	buffers(shared);
	CHECK(!ibv_dealloc_pd(shared));
	attr.comp_mask = 1 << 3;
	NULL_WITH(ibv_alloc_parent_domain(context, &attr), EINVAL);
}

/* The entries before the ones that an older header knows, the newest first. */
struct newer_entries {
	void (*free_buf)(struct buf *);
	void *(*alloc_buf)(struct ibv_pd *, size_t, struct buf **);
	int (*dm_export_dmabuf_fd)(struct ibv_dm *);
	struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *, struct mr_attr *);
	int (*dealloc_dmah)(void *);
	void *(*alloc_dmah)(struct ibv_context *, void *);
	void *query_port;
};

static void entries(void)
{
	struct verbs_context *table = verbs_get_ctx(context);
	struct newer_entries *newer = (void *)((char *)&table->query_port - offsetof(struct newer_entries, query_port));
	/* Release 65: the oldest program and the newest find each entry at one distance from the context. */
	CHECK(table->sz == 696 && newer->query_port == (void *)table->query_port);
	struct buf *buf = NULL;
	void *start = newer->alloc_buf(pd, 10, &buf);
	CHECK(start && buf);
	struct mr_attr attr = { .length = 10, .access = IBV_ACCESS_LOCAL_WRITE, .comp_mask = BUF | ADDR, .addr = start, .buf = buf };
	registered(newer->reg_mr_ex(pd, &attr));
	newer->free_buf(buf);
	uint32_t dmah_attr[4] = { 0 };
	NULL_WITH(newer->alloc_dmah(context, dmah_attr), EOPNOTSUPP);
	NULL_WITH(alloc_dmah(context, dmah_attr), EOPNOTSUPP);
	struct ibv_alloc_dm_attr dm_attr = { .length = 64 };
	struct ibv_dm *dm = ibv_alloc_dm(context, &dm_attr);
	CHECK(dm);
	MINUS_WITH(newer->dm_export_dmabuf_fd(dm), EOPNOTSUPP);
	MINUS_WITH(dm_export(dm), EOPNOTSUPP);
	CHECK(!ibv_free_dm(dm));
	RETURNS(newer->dealloc_dmah(NULL), EOPNOTSUPP);
}

int main(void)
{
	alloc_buf = symbol("ibv_alloc_buf", "IBVERBS_1.17");
	free_buf = symbol("ibv_free_buf", "IBVERBS_1.17");
	reg_buf_mr = symbol("ibv_reg_buf_mr", "IBVERBS_1.17");
	export_buf = symbol("ibv_export_buf_dmabuf_fd", "IBVERBS_1.18");
	reg_mr_ex = symbol("ibv_reg_mr_ex", "IBVERBS_1.15");
	alloc_dmah = symbol("ibv_alloc_dmah", "IBVERBS_1.15");
	dm_export = symbol("ibv_dm_export_dmabuf_fd", "IBVERBS_1.16");
	context = open_first();
	pd = ibv_alloc_pd(context), another = ibv_alloc_pd(context);
	CHECK(pd && another);
	buffers(pd);
	parents();
	entries();
	CHECK(!ibv_dealloc_pd(pd) && !ibv_dealloc_pd(another) && !ibv_close_device(context));
	return verdict();
}
