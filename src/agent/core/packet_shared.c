/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent/core/packet_find.h"
#include "agent/core/process.h"

static struct spoor_arena_packet *shared_now(struct slot *s)
{
	uint32_t i;

	for (i = 0; i < s->n_shared; i++) {
		uint64_t o = packet_owner(&s->packets[i]);

		if (SPOOR_OWNER_STATE(o) == SPOOR_PACKET_OWNED && !SPOOR_OWNER_TID(o))
			return &s->packets[i];
	}
	return NULL;
}

static struct spoor_arena_packet *shared_with_room(struct slot *s, size_t size)
{
	struct spoor_arena_packet *h = shared_now(s);

	if (h && h->committed + size <= s->packet_size)
		return h;
	if (h && packet_change(h, packet_owner(h), 0, SPOOR_PACKET_FULL, 0))
		packet_count_full(s);
	h = packet_find(s, 0, s->n_shared, 0, 0, size);
	if (h)
		h->owners = 2; /* or more: never one thread's */
	return h;
}

static void put(struct slot *s, struct spoor_arena_packet *h, const char *record, size_t size)
{
	packet_copy(packet_data(s, h) + h->committed, record, size);
	__atomic_store_n(&h->committed, h->committed + size, __ATOMIC_RELEASE);
	__atomic_fetch_add(&s->channel->shared, 1, __ATOMIC_RELAXED);
}

bool packet_shared_put(struct slot *s, const char *record, size_t size)
{
	uint32_t space = __atomic_load_n(&s->channel->space, __ATOMIC_ACQUIRE) + 1;
	struct spoor_arena_packet *h;

	if (__atomic_load_n(&s->shared_gave_up, __ATOMIC_RELAXED) == space && packets_before_orphans())
		return false;
	if (!lock_in_turn(&s->channel->lock, &s->shared_hangs))
		return false;
	h = shared_with_room(s, size);
	__atomic_store_n(&s->shared_gave_up, h ? 0 : space, __ATOMIC_RELAXED);
	if (h)
		put(s, h, record, size);
	unlock_in_turn(&s->channel->lock, &s->shared_hangs);
	return h;
}
