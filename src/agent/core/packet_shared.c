/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <string.h>
#include <time.h>

#include "agent/core/clock.h"
#include "agent/core/packet_find.h"
#include "agent/core/process.h"

/*
 * The shared packet. Whoever has it for longer than that has been stopped; we cannot wait for him.
 */
#define SHARED_WAITS 2000
#define SHARED_WAIT_NS 50000

static bool lock_shared(struct slot *s, uint32_t tid)
{
	static const struct timespec a_moment = { 0, SHARED_WAIT_NS };
	uint32_t *lock = &s->channel->lock;
	int i, spins;

	for (i = 0; i < SHARED_WAITS; i++) {
		uint32_t holder;

		for (spins = 0; spins < 50; spins++) {
			holder = 0;
			if (__atomic_compare_exchange_n(lock, &holder, tid, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return true;
			cpu_relax();
		}
		if (i % 20 == 19 && thread_is_dead(holder))
			__atomic_compare_exchange_n(lock, &holder, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
		else if (i < 20)
			sys0(SYS_sched_yield);
		else
			sys3(SYS_nanosleep, &a_moment, NULL, 0);
	}
	return false;
}

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
	char *at = packet_data(s, h) + h->committed;

	memcpy(at, record, size);
	*(uint64_t *)at = clock_stamp();
	__atomic_store_n(&h->committed, h->committed + size, __ATOMIC_RELEASE);
	__atomic_fetch_add(&s->channel->shared, 1, __ATOMIC_RELAXED);
}

bool packet_shared_put(struct slot *s, const char *record, size_t size)
{
	uint32_t space = __atomic_load_n(&s->channel->space, __ATOMIC_ACQUIRE) + 1;
	struct spoor_arena_packet *h;

	if (__atomic_load_n(&s->shared_gave_up, __ATOMIC_RELAXED) == space && packets_before_orphans())
		return false;
	if (!lock_shared(s, sys_tid()))
		return false;
	h = shared_with_room(s, size);
	__atomic_store_n(&s->shared_gave_up, h ? 0 : space, __ATOMIC_RELAXED);
	if (h)
		put(s, h, record, size);
	__atomic_store_n(&s->channel->lock, 0, __ATOMIC_RELEASE);
	return h;
}
