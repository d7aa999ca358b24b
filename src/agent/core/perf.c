/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "agent/core/descriptors.h"
#include "agent/core/output.h"
#include "agent/core/perf.h"
#include "agent/core/process.h"
#include "agent/core/reserve.h"

#define PAGE 4096
#define NONE (-1) /* it cannot be had */

struct counter {
	int fd; /* fd + 1; 0: not opened yet */
	uint64_t id; /* the kernel's: programs close what they do not know, and the number is another file's then */
	struct perf_event_mmap_page *page; /* of the processor's, if they may be read in place */
};

/* In the thread's scratch. */
struct counters {
	uint32_t tid; /* whose they are: a thread that was killed left them */
	struct counter all[SPOOR_N_PERF];
};
_Static_assert(sizeof(struct counters) <= SPOOR_SCRATCH_PERF, "");

#define COUNTER(bit_, name_, field_, type_, config_) { (type_), (config_) },
static const struct {
	uint32_t type, config;
} known[SPOOR_N_PERF] = { SPOOR_PERF_CONTEXTS(COUNTER) };

/* Open ones, so that a child can close its parent's, whose threads they count. */
static struct {
	uint32_t pid;
	int fd[PERF_MOST_FDS]; /* fd + 1 */
	uint64_t id[PERF_MOST_FDS];
} open_ones;

/* 0: it is no counter. */
static uint64_t id_of(long fd)
{
	uint64_t id = 0;

	return sys_failed(sys3(SYS_ioctl, fd, PERF_EVENT_IOC_ID, &id)) ? 0 : id;
}

static void close_counter(int fd, uint64_t id)
{
	if (id_of(fd) == id)
		sys3(SYS_close, fd, 0, 0);
}

/* ---- opening, closing ---- */

/* Enters it in the list. false: there are too many. */
static bool enter(int fd, uint64_t id)
{
	unsigned i;

	for (i = 0; i < PERF_MOST_FDS; i++) {
		int *at = &open_ones.fd[i], none = 0;

		if (__atomic_load_n(at, __ATOMIC_RELAXED))
			continue;
		if (!__atomic_compare_exchange_n(at, &none, fd + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			continue;
		open_ones.id[i] = id;
		return true;
	}
	return false;
}

static void forget(int fd)
{
	unsigned i;

	for (i = 0; i < PERF_MOST_FDS; i++) {
		int it = fd + 1;

		if (__atomic_compare_exchange_n(&open_ones.fd[i], &it, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return;
	}
}

static void close_parents(void)
{
	uint32_t pid = sys_pid();
	unsigned i;

	if (open_ones.pid == pid)
		return;
	for (i = 0; open_ones.pid && i < PERF_MOST_FDS; i++)
		if (open_ones.fd[i])
			close_counter(open_ones.fd[i] - 1, open_ones.id[i]);
	for (i = 0; i < PERF_MOST_FDS; i++)
		open_ones.fd[i] = 0;
	open_ones.pid = pid;
}

/* Of the program and the kernel; where the kernel may not be counted, of the program alone. */
static long open_counter(unsigned i)
{
	struct perf_event_attr attr = { .type = known[i].type, .size = sizeof(attr), .config = known[i].config };
	long fd = sys6(SYS_perf_event_open, (long)&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC, 0);

	if ((fd == -EACCES || fd == -EPERM) && !(SPOOR_PERF_KERNEL >> SPOOR_PERF_FIRST & 1U << i)) {
		attr.exclude_kernel = attr.exclude_hv = 1;
		fd = sys6(SYS_perf_event_open, (long)&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC, 0);
	}
	return fd;
}

static void open_one(struct counter *c, unsigned i)
{
	long fd = open_counter(i), page;

	c->fd = NONE;
	c->page = NULL;
	if (sys_failed(fd))
		return;
	fd = fd_out_of_the_way(fd, SPOOR_FD_FROM);
	c->id = id_of(fd);
	if (!enter((int)fd, c->id)) {
		sys3(SYS_close, fd, 0, 0);
		return;
	}
	c->fd = (int)fd + 1;
	if (known[i].type != PERF_TYPE_HARDWARE)
		return;
	page = sys6(SYS_mmap, 0, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	if (!sys_failed(page))
		c->page = (struct perf_event_mmap_page *)page;
}

static void close_all(struct counters *c)
{
	unsigned i;

	for (i = 0; i < SPOOR_N_PERF; i++) {
		if (c->all[i].page)
			sys3(SYS_munmap, c->all[i].page, PAGE, 0);
		if (c->all[i].fd > 0) {
			forget(c->all[i].fd - 1);
			close_counter(c->all[i].fd - 1, c->all[i].id);
		}
		c->all[i] = (struct counter){ 0 };
	}
}

static struct counters *counters_in(struct block *b)
{
	return (struct counters *)((char *)b->scratch + SPOOR_SCRATCH - SPOOR_SCRATCH_PERF);
}

void perf_close(struct block *b)
{
	if (b->scratch && counters_in(b)->tid == b->tid)
		close_all(counters_in(b));
}

/* ---- reading ---- */

/* As linux/perf_event.h tells it. false: it cannot be had so now. */
static bool read_in_place(const struct perf_event_mmap_page *p, uint64_t *ret)
{
	uint32_t seq, index, low, high;
	uint64_t count;

	do {
		seq = __atomic_load_n(&p->lock, __ATOMIC_ACQUIRE);
		index = p->index;
		if (!p->cap_user_rdpmc || !index || !p->pmc_width)
			return false;
		count = (uint64_t)p->offset;
		__asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(index - 1));
		count += (uint64_t)((int64_t)(((uint64_t)high << 32 | low) << (64 - p->pmc_width)) >>
				    (64 - p->pmc_width));
		barrier();
	} while (__atomic_load_n(&p->lock, __ATOMIC_ACQUIRE) != seq);
	*ret = count;
	return true;
}

/* false: it cannot be had. */
static bool value_of(const struct counter *c, uint64_t *ret)
{
	if (c->page && read_in_place(c->page, ret))
		return true;
	return c->fd > 0 && id_of(c->fd - 1) == c->id && sys3(SYS_read, c->fd - 1, ret, sizeof(*ret)) == sizeof(*ret);
}

/* With signals blocked. */
static void open_wanted(struct counters *c, uint32_t contexts, uint32_t tid)
{
	unsigned i;

	close_parents();
	if (c->tid != tid)
		close_all(c);
	c->tid = tid;
	for (i = 0; i < SPOOR_N_PERF; i++)
		if (contexts >> SPOOR_PERF_FIRST & 1U << i && !c->all[i].fd)
			open_one(&c->all[i], i);
}

static bool all_open(const struct counters *c, uint32_t contexts, uint32_t tid)
{
	unsigned i;

	for (i = 0; i < SPOOR_N_PERF; i++)
		if (contexts >> SPOOR_PERF_FIRST & 1U << i && !c->all[i].fd)
			return false;
	return c->tid == tid;
}

/* NULL: no memory. */
static struct counters *counters_of(uint32_t contexts)
{
	struct block *b = block;
	uint64_t signals;

	if (b->tid && b->scratch && all_open(counters_in(b), contexts, b->tid))
		return counters_in(b);
	signals = signals_block();
	b = reserve_enter();
	if (b && !block_is_shared(b) && block_scratch(b))
		open_wanted(counters_in(b), contexts, b->tid);
	else
		b = NULL;
	signals_restore(signals);
	return b ? counters_in(b) : NULL;
}

unsigned perf_read(uint32_t contexts, uint64_t *ret, uint32_t *ret_uncounted)
{
	struct counters *c = counters_of(contexts);
	uint32_t uncounted = 0;
	unsigned i, n = 0;

	for (i = 0; i < SPOOR_N_PERF; i++) {
		const uint32_t bit = 1U << (SPOOR_PERF_FIRST + i);

		if (!(contexts & bit))
			continue;
		ret[n] = 0;
		if (!c || !value_of(&c->all[i], &ret[n]))
			uncounted |= bit;
		n++;
	}
	*ret_uncounted = uncounted;
	return n;
}
