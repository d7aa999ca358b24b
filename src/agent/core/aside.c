/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <string.h>

#include "agent/core/aside.h"
#include "agent/core/clock.h"
#include "agent/core/draft.h"
#include "agent/core/packets.h"
#include <spoor/record.h>

char *aside_begin(const struct slot *s, uintptr_t sp, bool deep)
{
	struct aside aside = { .slot = (uint32_t)(s - slots), .generation = slot_generation(s) };

	return draft_begin_aside(sp, &aside, deep);
}

bool aside_holds(const char *at)
{
	char *begin;

	return draft_aside(at, &begin);
}

static void put(char *at, const char *record, size_t size)
{
	memcpy(at, record, size);
	*(uint64_t *)at = clock_stamp();
}

/*
 * That of the first level on which no event was begun; room of the last one is for who finds none such only. NULL: no
 * memory, or who shares this thread's storage may be in the midst of an event there.
 */
static struct producer *free_level(const struct slot *s, unsigned *ret_level)
{
	struct block *b = block_is_shared(block) ? NULL : block;
	struct producer *p;
	unsigned level;

	for (level = 0; b && level < SPOOR_LEVELS && b->slot[s - slots].p.busy; level++)
		b = block_deeper(b);
	if (!b)
		return NULL;
	p = &b->slot[s - slots];
	p->tid = block_tid(b);
	*ret_level = level;
	return p;
}

/* Where no packet was found as the event began, none is looked for again. */
static bool has_room(struct slot *s, struct producer *p, unsigned level, size_t size)
{
	return producer_has_room(p, size) || (level == SPOOR_LEVELS && packet_next(s, p, level, size));
}

/* In the slot, with the signals blocked; neither is so afterwards. */
static void move(struct slot *s, const char *record, size_t size, uint64_t signals)
{
	unsigned level = 0;
	struct producer *p = free_level(s, &level);
	char *at;

	if (p && has_room(s, p, level, size)) {
		struct spoor_handle h = { p->p.at, &p->p };

		put(h.at, record, size);
		spoor_commit_(NULL, h, size);
	} else if ((at = packet_shared_reserve(s, size, signals))) {
		put(at, record, size);
		packet_shared_commit(s, at, size);
		return;
	} else {
		slot_lose(s);
	}
	slot_leave(s);
	signals_restore(signals);
}

bool aside_commit(const char *at, size_t size)
{
	char *record;
	const struct aside *a = draft_aside(at, &record);
	uint64_t signals;
	struct slot *s;
	bool entered;

	if (!a)
		return false;
	s = &slots[a->slot];
	signals = signals_block();
	entered = slot_enter(s);
	if (entered && a->generation == slot_generation(s)) {
		move(s, record, (size_t)(at + size - record), signals);
	} else { /* that session is over */
		if (entered)
			slot_leave(s);
		signals_restore(signals);
	}
	draft_end(at);
	return true;
}
