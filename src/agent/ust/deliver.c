/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent/core/aside.h"
#include "agent/core/clock.h"
#include "agent/core/draft.h"
#include "agent/core/process.h"
#include "agent/core/reserve.h"
#include "agent/ust/callstack.h"
#include "agent/ust/context.h"
#include "agent/ust/deliver.h"
#include "agent/ust/filter.h"
#include <spoor/record.h>

#define NO_HANDLE ((struct spoor_handle){ NULL, NULL })

/* The event of which there is no draft is lost in each of its channels. */
static void count_lost(const struct class *c, size_t size)
{
	uint32_t left = __atomic_load_n(&c->slots, __ATOMIC_RELAXED) | __atomic_load_n(&c->refused, __ATOMIC_RELAXED);

	for (; left; left &= left - 1) {
		struct slot *s = &slots[__builtin_ctz(left)];
		uint64_t signals;

		if (!process->alive) {
			slot_lose(s);
			continue;
		}
		signals = signals_block();
		if (slot_enter(s)) {
			__atomic_fetch_add(size > RESERVE_MOST ? &s->channel->lost_large : &s->channel->lost, 1,
					   __ATOMIC_RELAXED);
			slot_leave(s);
		}
		signals_restore(signals);
	}
}

struct spoor_handle reserve_draft(struct spoor_tracepoint *tp, size_t size, const void *site)
{
	const struct caller caller = CALLER_();
	char *at = NULL;

	if (size <= RESERVE_MOST)
		at = draft_begin(&caller);
	if (!at) {
		count_lost(tp->agent, size);
		return NO_HANDLE;
	}
	*(uint64_t *)(at + size - 8) = 0; /* the padding; the fields come over it */
	*(const void **)at = site;       /* where a record has its head */
	return (struct spoor_handle){ at, NULL };
}

/* Stamped there: whatever this thread wrote into that packet meanwhile, in signal handlers, lies before it. */
static void deliver(const struct class *c, unsigned slot, const char *draft, size_t size, const struct caller *caller)
{
	const void *site = *(const void *const *)draft;
	struct spoor_tracepoint one = { .id = c->ids[slot], .slot = (uint16_t)SPOOR_SLOT_OFFSET(slot) };
	struct spoor_handle h;

	if (slots[slot].contexts)
		h = reserve_with_contexts_from(&one, size, site, caller);
	else
		h = clock_kind() == SPOOR_ARENA_TSC ? reserve_tsc(&one, size, site) :
							reserve_monotonic(&one, size, site);
	if (!h.at)
		return;
	spoor_copy_(h.at + SPOOR_RECORD_HEAD_, draft + SPOOR_RECORD_HEAD_, size - SPOOR_RECORD_HEAD_);
	if (h.producer)
		spoor_commit_(&one, h, size);
	else
		aside_commit(h.at, size);
}

static void deliver_to_all(const struct class *c, const char *draft, size_t size, const struct caller *caller)
{
	uint32_t refused = __atomic_load_n(&c->refused, __ATOMIC_ACQUIRE);
	uint32_t left = __atomic_load_n(&c->slots, __ATOMIC_ACQUIRE) | refused;

	for (; left; left &= left - 1) {
		unsigned slot = (unsigned)__builtin_ctz(left);
		const struct filter *f = class_filter(c, slot);

		if (f && !filter_keeps(f, c, draft + SPOOR_RECORD_HEAD_, draft + size, *(const uintptr_t *)draft))
			continue;
		if (refused >> slot & 1)
			slot_lose(&slots[slot]);
		else
			deliver(c, slot, draft, size, caller);
	}
}

void commit_called(struct spoor_tracepoint *tp, char *at, size_t size)
{
	const struct caller *caller = draft_site(at);

	if (!caller) {
		aside_commit(at, size);
		return;
	}
	deliver_to_all(tp->agent, at, size, caller);
	draft_end(at);
}
