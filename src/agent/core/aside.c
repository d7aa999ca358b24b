/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent/core/aside.h"
#include "agent/core/draft.h"
#include "agent/core/packets.h"
#include <spoor/record.h>

char *aside_begin(const struct slot *s, uintptr_t sp, bool deep)
{
	struct aside aside = { .slot = (uint32_t)(s - slots), .generation = slot_generation(s) };

	return draft_begin_aside(sp, &aside, deep);
}

/*
 * That of the first level on which no event was begun; room of the last one is for who finds none such only. NULL: no
 * memory, or who shares this thread's storage may be in the midst of an event there.
 */
static struct producer *free_level(const struct slot *s, unsigned *ret_level)
{
	struct block *b = block == &nobody || block_is_shared(block) ? NULL : block;
	struct producer *p;
	unsigned level;

	for (level = 0; b && level < SPOOR_PACKET_LEVELS && b->slot[s - slots].p.busy; level++)
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
	return producer_has_room(p, size) || (level == SPOOR_PACKET_LEVELS && packet_next(s, p, level, size));
}

/* In the slot, with the signals blocked. */
static void move(struct slot *s, const char *record, size_t size)
{
	unsigned level = 0;
	struct producer *p = free_level(s, &level);

	if (p && has_room(s, p, level, size)) {
		struct spoor_handle h = { p->p.at, &p->p };

		packet_copy(h.at, record, size);
		spoor_commit_(NULL, h, size);
	} else if (!packet_shared_put(s, record, size)) {
		slot_lose(s);
	}
}

void aside_commit(const char *at, size_t size)
{
	uint64_t signals = signals_block(); /* first: in a child that a handler forks it is nobody's */
	char *record;
	const struct aside *a = draft_aside(at, &record);
	struct slot *s = a ? &slots[a->slot] : NULL;

	if (a && slot_enter(s)) {
		if (a->generation == slot_generation(s)) /* else that session is over */
			move(s, record, (size_t)(at + size - record));
		slot_leave(s);
	}
	if (a)
		draft_end(at);
	signals_restore(signals);
}
