/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent/core/packet_find.h"

void packet_give_back(struct slot *s, struct producer *p, bool full)
{
	struct spoor_arena_packet *h;
	uint64_t o;

	if (!p->packet)
		return;
	h = &s->packets[p->packet - 1];
	p->p.at = NULL;
	__atomic_store_n(&p->p.end, NULL, __ATOMIC_RELAXED);
	p->packet = 0;
	barrier();
	if (p->generation != slot_generation(s))
		return; /* that arena is no more */
	o = packet_owner(h);
	if (SPOOR_OWNER_STATE(o) != SPOOR_PACKET_OWNED || SPOOR_OWNER_TID(o) != p->tid)
		return; /* taken for dead: it is the consumer's */
	packet_change(h, o, SPOOR_OWNER_LEVEL(o), full ? SPOOR_PACKET_FULL : SPOOR_PACKET_IDLE, p->tid);
	if (full)
		packet_count_full(s);
	else
		packet_count_space(s);
}

#define WAITS_IN_VAIN 1000000000 /* ns, then nobody is believed to make room */

/* Need nobody look for room at present? There was none when there was as much space, not long ago. */
static bool is_without_room(const struct slot *s, const struct producer *p, uint32_t space)
{
	return p->gave_up == space && s->mode != SPOOR_ARENA_OVERWRITE &&
	       (s->mode != SPOOR_ARENA_BLOCK || p->in_vain >= WAITS_IN_VAIN) && packets_before_orphans();
}

bool packets_gave_up(const struct slot *s, const struct producer *p)
{
	uint32_t space = __atomic_load_n(&s->channel->space, __ATOMIC_ACQUIRE) + 1;

	return __atomic_load_n(&s->shared_gave_up, __ATOMIC_RELAXED) == space &&
	       p->generation == slot_generation(s) && is_without_room(s, p, space);
}

bool packet_next(struct slot *s, struct producer *p, unsigned level, size_t size)
{
	uint32_t space = __atomic_load_n(&s->channel->space, __ATOMIC_ACQUIRE) + 1, generation = slot_generation(s);
	struct spoor_arena_packet *h;
	uint32_t waits;
	char *data;

	packet_give_back(s, p, true);
	if (p->generation != generation) /* of another arena */
		p->gave_up = p->in_vain = 0;
	p->generation = generation;
	if (p->gave_up && is_without_room(s, p, space))
		return false;
	h = packet_find_or_wait(s, level, p->tid, size);
	if (!h) {
		p->gave_up = space;
		waits = __atomic_load_n(&s->channel->block_us, __ATOMIC_RELAXED); /* 0: for the recorder it is over */
		p->in_vain += waits ? waits * 1000ULL : WAITS_IN_VAIN;
		return false;
	}
	p->gave_up = p->in_vain = 0;
	data = packet_data(s, h);
	p->packet = (uint32_t)(h - s->packets) + 1;
	__atomic_store_n(&p->p.begin, data, __ATOMIC_RELAXED);
	p->p.committed = (uint64_t *)&h->committed;
	__atomic_store_n(&p->p.end, data + s->packet_size, __ATOMIC_RELAXED);
	barrier();
	p->p.at = data + h->committed;
	return true;
}

void packets_give_back_all(struct block *b)
{
	unsigned i;

	for (; b; b = b->deeper)
		for (i = 0; i < SPOOR_SLOTS; i++)
			if (b->slot[i].packet && slot_enter(&slots[i])) {
				packet_give_back(&slots[i], &b->slot[i], false);
				slot_leave(&slots[i]);
			}
}
