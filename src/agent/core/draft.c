/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <sys/mman.h>

#include "agent/core/draft.h"
#include "agent/core/output.h"
#include "agent/core/process.h"
#include "agent/core/reserve.h"
#include "agent/core/stack.h"

#define DRAFT (64UL << 10)
#define TOGETHER 16
#define MOST_GROUPS 8192
#define PATIENCE 1000 /* turns; a thread that is stopped while it has the common draft does not stop the others */
_Static_assert(RESERVE_MOST <= DRAFT, "");

static char *groups[MOST_GROUPS];

/* Of those who have no block of their own; its holder's signals are blocked. */
static struct {
	char data[DRAFT] __attribute__((aligned(64)));
	uint64_t signals;
	struct caller site;
} common;

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

static bool make_group(const struct block *b)
{
	char *none = NULL;
	long at;

	if (b->index / TOGETHER >= MOST_GROUPS)
		return false;
	at = sys6(SYS_mmap, 0, TOGETHER * DRAFT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		  -1, 0);
	if (sys_failed(at))
		return false;
	if (!__atomic_compare_exchange_n(&groups[b->index / TOGETHER], &none, (char *)at, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		sys3(SYS_munmap, at, TOGETHER * DRAFT, 0);
	return true;
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

static char *begin_common(const struct caller *site, uint64_t signals)
{
	int i;

	for (i = 0; i < PATIENCE; i++) {
		if (tid_trylock(&process->draft_lock)) {
			common.signals = signals;
			common.site = *site;
			return common.data;
		}
		sys0(SYS_sched_yield);
	}
	return NULL;
}

/* With the signals blocked. common.data: they stay so. */
static char *begin_slow(const struct caller *site, uint64_t signals)
{
	struct block *b;

	if (!process->alive && outputs_renew(false))
		return NULL;
	b = reserve_enter();
	b = b && is_own(b) ? make_level(b, site->sp) : NULL;
	return b ? begin_in(b, site) : begin_common(site, signals);
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
	at = begin_slow(site, signals);
	if (at != common.data)
		signals_restore(signals);
	return at;
}

char *draft_begin_aside(uintptr_t sp, const struct aside *aside)
{
	struct block *b = make_level(block, sp);

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

struct block *draft_aside(const char *at, char **ret_begin)
{
	struct block *b = block_of(at);

	if (!b || b->site.pc)
		return NULL;
	*ret_begin = draft_of(b);
	return b;
}

const struct caller *draft_site(const char *at)
{
	const struct block *b;

	if (at == common.data)
		return process->draft_lock == sys_tid() ? &common.site : NULL;
	b = block_of(at);
	return b && b->site.pc ? &b->site : NULL;
}

void draft_end(const char *at)
{
	struct block *b;

	if (at == common.data) {
		uint64_t signals = common.signals;

		tid_unlock(&process->draft_lock);
		signals_restore(signals);
		return;
	}
	b = block_of(at);
	barrier();
	if (b)
		b->drafting = 0;
}
