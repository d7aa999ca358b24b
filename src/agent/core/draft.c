/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <sys/mman.h>

#include "agent/core/clock.h"
#include "agent/core/draft.h"
#include "agent/core/output.h"
#include "agent/core/process.h"
#include "agent/core/reserve.h"
#include "agent/core/stack.h"

#define DRAFT (64UL << 10)
#define TOGETHER 16
#define MOST_GROUPS 8192
#define LOOKS 3 /* before one's own is made */
#define MOST_TURNS 1000
#define COMMON 8
#define KEPT 2 /* of these, for who can have no other: who leaves an event in one and lives on keeps it */
_Static_assert(RESERVE_MOST <= DRAFT, "");

static char *groups[MOST_GROUPS];

/* Of those who have no block of their own, and of records of threads that find no packet: for one event at a time. */
static struct common {
	char data[DRAFT] __attribute__((aligned(64)));
	uint32_t tid; /* whose event is in it; 0: none */
	uintptr_t sp; /* the rest is as in a block */
	union {
		struct caller site;
		struct aside aside;
	};
} common[COMMON];
static uint32_t n_given_back; /* while somebody waited; futex word */

static char *group_of(const struct block *b)
{
	return b->index / TOGETHER < MOST_GROUPS ? __atomic_load_n(&groups[b->index / TOGETHER], __ATOMIC_ACQUIRE) :
						   NULL;
}

static char *draft_of(const struct block *b)
{
	char *group = group_of(b);

	return group ? group + b->index % TOGETHER * DRAFT : NULL;
}

/* One at a time: ten thousand threads in mmap() hold up who has the shared packet, and needs memory, for seconds. */
static bool make_group(const struct block *b)
{
	static uint32_t lock;
	static uint64_t lock_hangs;
	char **group = &groups[b->index / TOGETHER % MOST_GROUPS];

	if (b->index / TOGETHER >= MOST_GROUPS || !lock_in_turn(&lock, &lock_hangs))
		return false;
	if (!*group) {
		long at = sys6(SYS_mmap, 0, TOGETHER * DRAFT, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (!sys_failed(at))
			__atomic_store_n(group, (char *)at, __ATOMIC_RELEASE);
	}
	unlock_in_turn(&lock, &lock_hangs);
	return *group;
}

static bool is_own(const struct block *b)
{
	return b != &nobody && block_tid(b) && !block_is_shared(b);
}

static char *begin_in(struct block *b, const struct caller *site)
{
	char *at = draft_of(b);

	if (!at)
		return NULL;
	*(volatile uintptr_t *)&b->drafting = site->sp;
	barrier();
	b->site = *site;
	return at;
}

/* The block of the first level that no unfinished event is on. NULL: it is to be made. */
static __attribute__((noinline, cold)) struct block *find_level(struct block *b, uintptr_t sp)
{
	struct stack_here here = STACK_HERE(sp);

	for (; b->drafting && !stack_was_left(&here, b->drafting); b = b->deeper)
		if (!b->deeper || !block_tid(b->deeper))
			return NULL;
	return b;
}

/* With the signals blocked: made, too. NULL: no memory. */
static struct block *make_level(struct block *b, uintptr_t sp)
{
	struct stack_here here = STACK_HERE(sp);

	while (b && b->drafting && !stack_was_left(&here, b->drafting))
		b = block_deeper(b);
	return b && (draft_of(b) || make_group(b)) ? b : NULL;
}

/* Is it nobody's, or of an event that was left? Else its thread may have ended. */
static bool may_take(const struct common *d, uint32_t holder, uint32_t tid, struct stack_here *here, bool ask)
{
	if (!holder)
		return true;
	return holder == tid ? stack_was_left(here, d->sp) : ask && thread_is_dead(holder);
}

/* With the signals blocked; ask: also from threads that have ended. NULL: others have them all. */
static struct common *take_common(uintptr_t sp, bool ask)
{
	struct stack_here here = STACK_HERE(sp);
	uint32_t tid = sys_tid(), holder;
	int n = is_own(block) ? COMMON - KEPT : COMMON, i;

	for (i = 0; i < (ask ? 2 * n : n); i++) {
		struct common *d = &common[i % n];

		holder = __atomic_load_n(&d->tid, __ATOMIC_RELAXED);
		if (!may_take(d, holder, tid, &here, i >= n) ||
		    !__atomic_compare_exchange_n(&d->tid, &holder, tid, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		d->sp = sp;
		return d;
	}
	return NULL;
}

/* None was given back while one looked so often: NULL. As long as some are, ten thousand threads get them in turn. */
static struct common *wait_for_common(uintptr_t sp, int looks)
{
	struct common *d;
	int i, n = 0;

	__atomic_fetch_add(&process->drafts_awaited, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < MOST_TURNS; i++) {
		uint32_t seen = __atomic_load_n(&n_given_back, __ATOMIC_SEQ_CST);

		d = take_common(sp, n > 0);
		if (d || n == looks)
			break;
		n = futex_wait(&n_given_back, seen, WAIT_LOOK) ? 0 : n + 1;
	}
	__atomic_fetch_sub(&process->drafts_awaited, 1, __ATOMIC_SEQ_CST);
	return d;
}

/* Who can have no other. Those who have them all may be stopped: then one waits for all the others. */
static struct common *wait_long_for_common(uintptr_t sp)
{
	struct common *d;

	if (clock_monotonic() < __atomic_load_n(&process->drafts_hang, __ATOMIC_RELAXED))
		return NULL;
	d = wait_for_common(sp, WAIT_MOST);
	if (!d)
		__atomic_store_n(&process->drafts_hang, clock_monotonic() + WAIT_HANGS, __ATOMIC_RELAXED);
	return d;
}

static void give_back(struct common *d)
{
	if (__atomic_load_n(&process->drafts_hang, __ATOMIC_RELAXED))
		__atomic_store_n(&process->drafts_hang, 0, __ATOMIC_RELAXED);
	__atomic_exchange_n(&d->tid, 0, __ATOMIC_SEQ_CST); /* before it is asked who waits */
	if (!__atomic_load_n(&process->drafts_awaited, __ATOMIC_SEQ_CST))
		return;
	__atomic_fetch_add(&n_given_back, 1, __ATOMIC_SEQ_CST);
	futex_wake(&n_given_back, d - common < COMMON - KEPT ? 1 : INT32_MAX); /* not everybody may have those kept */
}

static char *begin_common(const struct caller *site)
{
	struct common *d = take_common(site->sp, true);

	if (!d)
		d = wait_long_for_common(site->sp);
	if (!d)
		return NULL;
	d->site = *site;
	return d->data;
}

/* With the signals blocked. */
static char *begin_slow(const struct caller *site)
{
	struct block *b;

	if (!process->alive && outputs_renew(false))
		return NULL;
	b = reserve_enter();
	b = b && is_own(b) ? make_level(b, site->sp) : NULL;
	return b ? begin_in(b, site) : begin_common(site);
}

char *draft_begin(const struct caller *site)
{
	uint64_t signals;
	char *at = NULL;

	if (likely(is_own(block))) {
		struct block *b = block;

		if (unlikely(b->drafting))
			b = find_level(b, site->sp);
		at = b ? begin_in(b, site) : NULL;
		if (likely(at))
			return at;
	}
	if (!process->alive && outputs_missing())
		return NULL;
	signals = signals_block();
	at = begin_slow(site);
	signals_restore(signals);
	return at;
}

/* This thread's own draft, if it has one, or there is memory to make it. */
static struct block *own_level(uintptr_t sp, bool make)
{
	struct block *b = !is_own(block) ? NULL : make ? make_level(block, sp) : find_level(block, sp);

	return b && draft_of(b) ? b : NULL;
}

/* Memory of its own a thread gets for that only if those before it keep all the others. */
char *draft_begin_aside(uintptr_t sp, const struct aside *aside, bool deep)
{
	struct common *d = deep ? NULL : take_common(sp, true);
	struct block *b = d ? NULL : own_level(sp, deep);

	if (!d && !b && !deep)
		d = wait_for_common(sp, LOOKS);
	if (!d && !b)
		b = own_level(sp, true);
	if (!d && !b)
		d = wait_long_for_common(sp);
	if (d) {
		d->aside = *aside;
		return d->data;
	}
	if (!b)
		return NULL;
	b->drafting = sp;
	b->aside = *aside;
	return draft_of(b);
}

static struct block *block_of(const char *at)
{
	struct block *b;

	for (b = block; b && b != &nobody && block_tid(b); b = b->deeper)
		if (b->drafting && (uintptr_t)at - (uintptr_t)draft_of(b) < DRAFT)
			return b;
	return NULL;
}

static struct common *common_of(const char *at)
{
	uintptr_t offset = (uintptr_t)at - (uintptr_t)common;
	struct common *d = &common[offset < sizeof(common) ? offset / sizeof(*common) : 0];

	return offset < sizeof(common) && __atomic_load_n(&d->tid, __ATOMIC_RELAXED) == sys_tid() ? d : NULL;
}

const struct aside *draft_aside(const char *at, char **ret_begin)
{
	struct common *d = common_of(at);
	struct block *b = d ? NULL : block_of(at);

	if (d ? d->site.pc : !b || b->site.pc)
		return NULL;
	*ret_begin = d ? d->data : draft_of(b);
	return d ? &d->aside : &b->aside;
}

const struct caller *draft_site(const char *at)
{
	const struct common *d = common_of(at);
	const struct block *b = d ? NULL : block_of(at);
	const struct caller *site = d ? &d->site : b ? &b->site : NULL;

	return site && site->pc ? site : NULL;
}

void draft_end(const char *at)
{
	struct common *d = common_of(at);
	struct block *b = d ? NULL : block_of(at);

	barrier();
	if (b)
		b->drafting = 0;
	if (d)
		give_back(d);
}
