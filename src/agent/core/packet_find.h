/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* What handing packets over, finding them and the shared ones have in common. */
#include "agent/core/packets.h"

static inline uint64_t packet_owner(const struct spoor_arena_packet *h)
{
	return __atomic_load_n(&h->owner, __ATOMIC_ACQUIRE);
}

static inline bool packet_change(struct spoor_arena_packet *h, __u64 from, unsigned level, unsigned state,
				 uint32_t tid)
{
	uint64_t to = SPOOR_OWNER(SPOOR_OWNER_GEN(from) + 1, level, state, tid);

	return __atomic_compare_exchange_n(&h->owner, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static inline char *packet_data(struct slot *s, const struct spoor_arena_packet *h)
{
	return s->data + (uint64_t)(h - s->packets) * s->packet_size;
}

/* There is room again, or a packet for the consumer: whoever waits for that is woken. */
void packet_count_space(struct slot *s);
void packet_count_full(struct slot *s);

/* One of the packets from begin to end, with room for size bytes, now tid's. NULL: there is none. */
struct spoor_arena_packet *packet_find(struct slot *s, uint32_t begin, uint32_t end, unsigned level, uint32_t tid,
				       size_t size);
/* The same of those that are not shared; waits as the channel says. */
struct spoor_arena_packet *packet_find_or_wait(struct slot *s, unsigned level, uint32_t tid, size_t size);
/* Nobody looks for orphans yet: what was not to be had is not to be had. */
bool packets_before_orphans(void);
