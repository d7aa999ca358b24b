/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whose packet can be had: a free one, one that its owner left, the oldest, one that is written out or waited for. */

#include "agent/core/clock.h"
#include "agent/core/packet_find.h"
#include "agent/core/process.h"
#include "trace/record.h"

#define ORPHANS_EVERY 20000000 /* ns */

void packet_count_space(struct slot *s)
{
	__atomic_fetch_add(&s->channel->space, 1, __ATOMIC_RELEASE);
	if (__atomic_load_n(&s->channel->waiters, __ATOMIC_RELAXED))
		futex_wake(&s->channel->space, INT32_MAX);
}

#define FREE_ENOUGH 64 /* packets, however many there are */

/* Three in four packets, or more than are filled until the consumer looks. The last ones are those taken last. */
static bool enough_free(const struct slot *s)
{
	uint32_t n = s->n_packets - s->n_shared, want = n - n / 4, i;

	want = want < FREE_ENOUGH ? want : FREE_ENOUGH;
	for (i = s->n_packets; want && i-- > s->n_shared;)
		want -= SPOOR_OWNER_STATE(packet_owner(&s->packets[i])) == SPOOR_PACKET_FREE;
	return !want;
}

/* Waking the consumer for each packet would cost more than taking what is in it. */
void packet_count_full(struct slot *s)
{
	__atomic_fetch_add(&s->channel->full, 1, __ATOMIC_RELEASE);
	if (!__atomic_load_n(&s->arena->consumer_waits, __ATOMIC_RELAXED) || enough_free(s))
		return;
	__atomic_fetch_add(&s->arena->wake, 1, __ATOMIC_RELEASE);
	futex_wake(&s->arena->wake, INT32_MAX);
}

/* What others count up meanwhile. */
static uint64_t counted(const __u64 *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* How many events are in a packet that nobody writes in. */
static uint64_t count_events(struct slot *s, const struct spoor_arena_packet *h)
{
	const char *at = packet_data(s, h), *end = at + counted(&h->committed);
	uint64_t n = 0;

	while (at + sizeof(struct spoor_event_header) <= end) {
		const struct spoor_event_header *e = (const void *)at;

		if (!e->size4)
			break;
		n += e->id != 0;
		at += spoor_event_size(e);
	}
	return n;
}

/* Of the thread that holds the packet: a new one begins in it. The order is drawn in arena.h. */
static void open_packet(struct slot *s, struct spoor_arena_packet *h)
{
	struct spoor_arena_clock now = clock_pair();
	uint64_t serial = __atomic_fetch_add(&s->arena->serial, 1, __ATOMIC_RELAXED);

	h->tsc = now.tsc;
	h->mono = now.mono;
	h->channel = (uint32_t)(s->channel - s->arena->channels);
	h->owners = 1;
	if (s->mode == SPOOR_ARENA_OVERWRITE && h->begun == h->serial)
		__atomic_store_n(&h->gone_next, h->gone + count_events(s, h), __ATOMIC_RELAXED);
	__atomic_store_n(&h->serial, serial, __ATOMIC_RELEASE);
	__atomic_store_n(&h->committed, 0, __ATOMIC_RELEASE); /* `consumed` is 0, or of another serial */
	__atomic_store_n(&h->gone, h->gone_next, __ATOMIC_RELEASE);
	__atomic_store_n(&h->begun, serial, __ATOMIC_RELEASE);
}

/* A packet that was never used has no memory yet. */
static bool has_memory(struct slot *s, struct spoor_arena_packet *h)
{
	return counted(&h->serial) || !arena_populate(packet_data(s, h), s->packet_size);
}

/* FREE, or IDLE with room: now tid's. */
static bool take(struct slot *s, struct spoor_arena_packet *h, unsigned level, uint32_t tid, size_t size)
{
	uint64_t o = packet_owner(h);

	switch (SPOOR_OWNER_STATE(o)) {
	case SPOOR_PACKET_FREE:
		if (!has_memory(s, h) || !packet_change(h, o, level, SPOOR_PACKET_OWNED, tid))
			return false;
		open_packet(s, h);
		return true;
	case SPOOR_PACKET_IDLE:
		if (counted(&h->committed) + size > s->packet_size)
			return false; /* as it is now: who has it meanwhile has changed its owner */
		if (!packet_change(h, o, level, SPOOR_PACKET_OWNED, tid))
			return false;
		h->owners++;
		return true;
	default:
		return false;
	}
}

/* The oldest that nobody writes in: FULL or IDLE. */
static struct spoor_arena_packet *oldest(struct slot *s, uint32_t begin, uint32_t end, uint64_t *ret_owner)
{
	struct spoor_arena_packet *found = NULL;
	uint32_t i;

	for (i = begin; i < end; i++) {
		struct spoor_arena_packet *h = &s->packets[i];
		uint64_t o = packet_owner(h);

		if (SPOOR_OWNER_STATE(o) != SPOOR_PACKET_FULL && SPOOR_OWNER_STATE(o) != SPOOR_PACKET_IDLE)
			continue;
		if (found && counted(&h->serial) >= counted(&found->serial))
			continue;
		found = h;
		*ret_owner = o;
	}
	return found;
}

/*
 * Held as READING until the new serial stands, so that no reader takes old bytes for new ones.
 */
static struct spoor_arena_packet *overwrite(struct slot *s, uint32_t begin, uint32_t end, unsigned level, uint32_t tid)
{
	struct spoor_arena_packet *h;
	uint64_t o;
	int i;

	for (i = 0; i < 4 && (h = oldest(s, begin, end, &o)); i++) {
		if (!packet_change(h, o, level, SPOOR_PACKET_READING, tid))
			continue;
		open_packet(s, h);
		o = packet_owner(h);
		__atomic_store_n(&h->owner, SPOOR_OWNER(SPOOR_OWNER_GEN(o) + 1, level, SPOOR_PACKET_OWNED, tid),
				 __ATOMIC_RELEASE);
		return h;
	}
	return NULL;
}

/* Makes room by writing full packets out, where there is no consumer, and it has not ended meanwhile. */
static bool spill_some(struct slot *s, uint32_t begin, uint32_t end)
{
	struct output *to = __atomic_load_n(&s->output, __ATOMIC_SEQ_CST);
	struct spoor_arena_packet *h;
	uint64_t o;

	h = to ? oldest(s, begin, end, &o) : NULL;
	if (!h || !packet_change(h, o, 0, SPOOR_PACKET_READING, SPOOR_OWNER_TID(o)))
		return false;
	o = packet_owner(h);
	if (output_spill(to, h, packet_data(s, h))) {
		__atomic_store_n(&h->owner,
				 SPOOR_OWNER(SPOOR_OWNER_GEN(o) + 1, 0, SPOOR_PACKET_FULL, SPOOR_OWNER_TID(o)),
				 __ATOMIC_RELEASE);
		return false;
	}
	__atomic_store_n(&h->committed, 0, __ATOMIC_RELAXED);
	h->consumed = 0;
	__atomic_store_n(&h->owner, SPOOR_OWNER(SPOOR_OWNER_GEN(o) + 1, 0, SPOOR_PACKET_FREE, 0), __ATOMIC_RELEASE);
	packet_count_space(s);
	return true;
}

/* Threads that ended without a destructor left packets behind. Looks for them now and then. */
static void free_orphans(struct slot *s)
{
	uint32_t i;

	if (!now_and_then(&process->next_orphans, ORPHANS_EVERY))
		return;
	for (i = s->n_shared; i < s->n_packets; i++) {
		uint64_t o = packet_owner(&s->packets[i]);

		if (SPOOR_OWNER_STATE(o) == SPOOR_PACKET_OWNED && thread_is_dead(SPOOR_OWNER_TID(o)) &&
		    packet_change(&s->packets[i], o, SPOOR_OWNER_LEVEL(o), SPOOR_PACKET_FULL, SPOOR_OWNER_TID(o)))
			packet_count_full(s);
	}
}

struct spoor_arena_packet *packet_find(struct slot *s, uint32_t begin, uint32_t end, unsigned level, uint32_t tid,
				       size_t size)
{
	uint32_t i;

	for (i = begin; i < end; i++)
		if (take(s, &s->packets[i], level, tid, size))
			return &s->packets[i];
	if (s->mode == SPOOR_ARENA_OVERWRITE)
		return overwrite(s, begin, end, level, tid);
	while (spill_some(s, begin, end))
		for (i = begin; i < end; i++)
			if (take(s, &s->packets[i], level, tid, size))
				return &s->packets[i];
	return NULL;
}

/* Until the consumer has freed something, or the channel's time is over. */
static bool wait_for_space(struct slot *s, uint32_t seen, uint64_t until)
{
	struct spoor_arena_channel *c = s->channel;
	uint64_t now = clock_monotonic();

	if (now >= until)
		return false;
	__atomic_fetch_add(&c->waiters, 1, __ATOMIC_SEQ_CST);
	futex_wait(&c->space, seen, until - now);
	__atomic_fetch_sub(&c->waiters, 1, __ATOMIC_SEQ_CST);
	return true;
}

struct spoor_arena_packet *packet_find_or_wait(struct slot *s, unsigned level, uint32_t tid, size_t size)
{
	uint64_t until = 0;

	for (;;) {
		uint32_t seen = __atomic_load_n(&s->channel->space, __ATOMIC_ACQUIRE);
		struct spoor_arena_packet *h = packet_find(s, s->n_shared, s->n_packets, level, tid, size);

		if (h)
			return h;
		if (!__atomic_load_n(&s->output, __ATOMIC_SEQ_CST))
			return NULL; /* it ended meanwhile */
		free_orphans(s);
		if (s->mode == SPOOR_ARENA_DISCARD && seen != __atomic_load_n(&s->channel->space, __ATOMIC_ACQUIRE))
			continue;
		if (s->mode == SPOOR_ARENA_OVERWRITE)
			return packet_find(s, s->n_shared, s->n_packets, level, tid, size);
		if (s->mode == SPOOR_ARENA_DISCARD)
			return NULL;
		if (!__atomic_load_n(&s->channel->block_us, __ATOMIC_RELAXED))
			return NULL; /* the session is over, for the recorder */
		if (!until)
			until = clock_monotonic() + s->channel->block_us * 1000ULL;
		if (!wait_for_space(s, seen, until))
			return NULL;
	}
}

bool packets_before_orphans(void)
{
	return clock_monotonic() < __atomic_load_n(&process->next_orphans, __ATOMIC_RELAXED);
}
