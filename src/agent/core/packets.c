/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <time.h>

#include "agent/core/clock.h"
#include "agent/core/packets.h"
#include "agent/core/process.h"
#include "trace/record.h"

#define ORPHANS_EVERY 20000000 /* ns */

static uint64_t owner_of(const struct spoor_arena_packet *h)
{
	return __atomic_load_n(&h->owner, __ATOMIC_ACQUIRE);
}

static bool change(struct spoor_arena_packet *h, uint64_t from, unsigned level, unsigned state, uint32_t tid)
{
	uint64_t to = SPOOR_OWNER(SPOOR_OWNER_GEN(from) + 1, level, state, tid);

	return __atomic_compare_exchange_n(&h->owner, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static char *data_of(struct slot *s, const struct spoor_arena_packet *h)
{
	return s->data + (uint64_t)(h - s->packets) * s->packet_size;
}

static void count_space(struct slot *s)
{
	__atomic_fetch_add(&s->channel->space, 1, __ATOMIC_RELEASE);
	if (__atomic_load_n(&s->channel->waiters, __ATOMIC_RELAXED))
		sys3(SYS_futex, &s->channel->space, FUTEX_WAKE, INT32_MAX);
}

#define FREE_ENOUGH 64 /* packets, however many there are */

/* Three in four packets, or more than are filled until the consumer looks. The last ones are those taken last. */
static bool enough_free(const struct slot *s)
{
	uint32_t n = s->n_packets - s->n_shared, want = n - n / 4, i;

	want = want < FREE_ENOUGH ? want : FREE_ENOUGH;
	for (i = s->n_packets; want && i-- > s->n_shared;)
		want -= SPOOR_OWNER_STATE(owner_of(&s->packets[i])) == SPOOR_PACKET_FREE;
	return !want;
}

/* Waking the consumer for each packet would cost more than taking what is in it. */
static void count_full(struct slot *s)
{
	__atomic_fetch_add(&s->channel->full, 1, __ATOMIC_RELEASE);
	if (!__atomic_load_n(&s->arena->consumer_waits, __ATOMIC_RELAXED) || enough_free(s))
		return;
	__atomic_fetch_add(&s->arena->wake, 1, __ATOMIC_RELEASE);
	sys3(SYS_futex, &s->arena->wake, FUTEX_WAKE, INT32_MAX);
}

/* What others count up meanwhile. */
static uint64_t counted(const __u64 *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* Of the thread that holds the packet: a new one begins in it. */
static void open_packet(struct slot *s, struct spoor_arena_packet *h)
{
	struct spoor_arena_channel *c = s->channel;
	struct spoor_arena_clock now = clock_pair();

	h->committed = 0;
	h->consumed = 0;
	h->tsc = now.tsc;
	h->mono = now.mono;
	h->lost_before = counted(&c->lost) + counted(&c->lost_large) + counted(&c->lost_nested);
	h->channel = (uint32_t)(c - s->arena->channels);
	h->owners = 1;
	barrier();
	__atomic_store_n(&h->serial, __atomic_fetch_add(&s->arena->serial, 1, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* A packet that was never used has no memory yet. */
static bool has_memory(struct slot *s, struct spoor_arena_packet *h)
{
	return counted(&h->serial) || !arena_populate(data_of(s, h), s->packet_size);
}

/* FREE, or IDLE with room: now tid's. */
static bool take(struct slot *s, struct spoor_arena_packet *h, unsigned level, uint32_t tid, size_t size)
{
	uint64_t o = owner_of(h);

	switch (SPOOR_OWNER_STATE(o)) {
	case SPOOR_PACKET_FREE:
		if (!has_memory(s, h) || !change(h, o, level, SPOOR_PACKET_OWNED, tid))
			return false;
		open_packet(s, h);
		return true;
	case SPOOR_PACKET_IDLE:
		if (h->committed + size > s->packet_size || !change(h, o, level, SPOOR_PACKET_OWNED, tid))
			return false;
		h->owners++;
		return true;
	default:
		return false;
	}
}

/* How many events are in a packet that is about to be overwritten. */
static uint64_t count_events(struct slot *s, const struct spoor_arena_packet *h)
{
	const char *at = data_of(s, h) + h->consumed, *end = data_of(s, h) + h->committed;
	uint64_t n = 0;

	while (at + sizeof(struct spoor_event_header) <= end) {
		const struct spoor_event_header *e = (const void *)at;

		if (!e->size8)
			break;
		n += e->id != 0;
		at += e->size8 * 8;
	}
	return n;
}

/* The oldest that nobody writes in: FULL or IDLE. */
static struct spoor_arena_packet *oldest(struct slot *s, uint32_t begin, uint32_t end, uint64_t *ret_owner)
{
	struct spoor_arena_packet *found = NULL;
	uint32_t i;

	for (i = begin; i < end; i++) {
		struct spoor_arena_packet *h = &s->packets[i];
		uint64_t o = owner_of(h);

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
		if (!change(h, o, level, SPOOR_PACKET_READING, tid))
			continue;
		__atomic_fetch_add(&s->channel->overwritten, count_events(s, h), __ATOMIC_RELAXED);
		open_packet(s, h);
		o = owner_of(h);
		__atomic_store_n(&h->owner, SPOOR_OWNER(SPOOR_OWNER_GEN(o) + 1, level, SPOOR_PACKET_OWNED, tid),
				 __ATOMIC_RELEASE);
		return h;
	}
	return NULL;
}

/* Makes room by writing full packets out, where there is no consumer. */
static bool spill_some(struct slot *s, uint32_t begin, uint32_t end)
{
	struct spoor_arena_packet *h;
	uint64_t o;

	h = oldest(s, begin, end, &o);
	if (!h || !change(h, o, 0, SPOOR_PACKET_READING, SPOOR_OWNER_TID(o)))
		return false;
	o = owner_of(h);
	if (output_spill(s->output, h, data_of(s, h))) {
		__atomic_store_n(&h->owner,
				 SPOOR_OWNER(SPOOR_OWNER_GEN(o) + 1, 0, SPOOR_PACKET_FULL, SPOOR_OWNER_TID(o)),
				 __ATOMIC_RELEASE);
		return false;
	}
	h->committed = 0;
	h->consumed = 0;
	__atomic_store_n(&h->owner, SPOOR_OWNER(SPOOR_OWNER_GEN(o) + 1, 0, SPOOR_PACKET_FREE, 0), __ATOMIC_RELEASE);
	count_space(s);
	return true;
}

/* Threads that ended without a destructor left packets behind. Looks for them now and then. */
static void free_orphans(struct slot *s)
{
	uint32_t i;

	if (!now_and_then(&process->next_orphans, ORPHANS_EVERY))
		return;
	for (i = s->n_shared; i < s->n_packets; i++) {
		uint64_t o = owner_of(&s->packets[i]);

		if (SPOOR_OWNER_STATE(o) == SPOOR_PACKET_OWNED && thread_is_dead(SPOOR_OWNER_TID(o)) &&
		    change(&s->packets[i], o, SPOOR_OWNER_LEVEL(o), SPOOR_PACKET_FULL, SPOOR_OWNER_TID(o)))
			count_full(s);
	}
}

static struct spoor_arena_packet *find(struct slot *s, uint32_t begin, uint32_t end, unsigned level, uint32_t tid,
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
	struct timespec t;

	if (now >= until)
		return false;
	t.tv_sec = (time_t)((until - now) / 1000000000);
	t.tv_nsec = (long)((until - now) % 1000000000);
	__atomic_fetch_add(&c->waiters, 1, __ATOMIC_SEQ_CST);
	sys6(SYS_futex, (long)&c->space, FUTEX_WAIT, seen, (long)&t, 0, 0);
	__atomic_fetch_sub(&c->waiters, 1, __ATOMIC_SEQ_CST);
	return true;
}

static struct spoor_arena_packet *find_or_wait(struct slot *s, unsigned level, uint32_t tid, size_t size)
{
	uint64_t until = 0;

	for (;;) {
		uint32_t seen = __atomic_load_n(&s->channel->space, __ATOMIC_ACQUIRE);
		struct spoor_arena_packet *h = find(s, s->n_shared, s->n_packets, level, tid, size);

		if (h)
			return h;
		if (!__atomic_load_n(&s->output, __ATOMIC_SEQ_CST))
			return NULL; /* it ended meanwhile */
		free_orphans(s);
		if (s->mode == SPOOR_ARENA_DISCARD && seen != __atomic_load_n(&s->channel->space, __ATOMIC_ACQUIRE))
			continue;
		if (s->mode != SPOOR_ARENA_BLOCK)
			return s->mode == SPOOR_ARENA_OVERWRITE ? find(s, s->n_shared, s->n_packets, level, tid, size) :
								  NULL;
		if (!until)
			until = clock_monotonic() + s->channel->block_us * 1000ULL;
		if (!wait_for_space(s, seen, until))
			return NULL;
	}
}

/* Nobody looks for orphans yet: what was not to be had is not to be had. */
static bool before_orphans(void)
{
	return clock_monotonic() < __atomic_load_n(&process->next_orphans, __ATOMIC_RELAXED);
}

void packet_give_back(struct slot *s, struct producer *p, bool full)
{
	struct spoor_arena_packet *h;
	uint64_t o;

	if (!p->packet)
		return;
	h = &s->packets[p->packet - 1];
	p->p.at = NULL;
	p->p.end = NULL;
	p->packet = 0;
	barrier();
	if (p->generation != s->generation)
		return; /* that arena is no more */
	o = owner_of(h);
	if (SPOOR_OWNER_STATE(o) != SPOOR_PACKET_OWNED || SPOOR_OWNER_TID(o) != p->tid)
		return; /* taken for dead: it is the consumer's */
	change(h, o, SPOOR_OWNER_LEVEL(o), full ? SPOOR_PACKET_FULL : SPOOR_PACKET_IDLE, p->tid);
	if (full)
		count_full(s);
	else
		count_space(s);
}

bool packet_next(struct slot *s, struct producer *p, unsigned level, size_t size)
{
	uint32_t space = __atomic_load_n(&s->channel->space, __ATOMIC_ACQUIRE) + 1;
	struct spoor_arena_packet *h;
	char *data;

	packet_give_back(s, p, true);
	if (p->generation != s->generation)
		p->gave_up = 0; /* of another arena */
	p->generation = s->generation;
	if (p->gave_up && p->gave_up == space && s->mode != SPOOR_ARENA_OVERWRITE &&
	    before_orphans())
		return false;
	h = find_or_wait(s, level, p->tid, size);
	if (!h) {
		p->gave_up = space;
		return false;
	}
	p->gave_up = 0;
	data = data_of(s, h);
	p->packet = (uint32_t)(h - s->packets) + 1;
	p->p.begin = data;
	p->p.committed = (uint64_t *)&h->committed;
	p->p.end = data + s->packet_size;
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
		uint64_t o = owner_of(&s->packets[i]);

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
	if (h && change(h, owner_of(h), 0, SPOOR_PACKET_FULL, 0))
		count_full(s);
	h = find(s, 0, s->n_shared, 0, 0, size);
	if (h)
		h->owners = 2; /* or more: never one thread's */
	return h;
}

char *packet_shared_reserve(struct slot *s, size_t size, uint64_t signals)
{
	uint32_t space = __atomic_load_n(&s->channel->space, __ATOMIC_ACQUIRE) + 1;
	struct spoor_arena_packet *h;

	if (__atomic_load_n(&s->shared_gave_up, __ATOMIC_RELAXED) == space && before_orphans())
		return NULL;
	if (!lock_shared(s, sys_tid()))
		return NULL;
	s->shared_signals = signals;
	__atomic_store_n(&s->shared_holder, sys_tid(), __ATOMIC_RELAXED);
	h = shared_with_room(s, size);
	__atomic_store_n(&s->shared_gave_up, h ? 0 : space, __ATOMIC_RELAXED);
	if (h)
		return data_of(s, h) + h->committed;
	__atomic_store_n(&s->shared_holder, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&s->channel->lock, 0, __ATOMIC_RELEASE);
	return NULL;
}

void packet_shared_commit(struct slot *s, char *at, size_t size)
{
	struct spoor_arena_packet *h = &s->packets[(uint64_t)(at - s->data) / s->packet_size];
	uint64_t signals = s->shared_signals;

	if (size) {
		__atomic_store_n(&h->committed, (uint64_t)(at + size - data_of(s, h)), __ATOMIC_RELEASE);
		__atomic_fetch_add(&s->channel->shared, 1, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&s->shared_holder, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&s->channel->lock, 0, __ATOMIC_RELEASE);
	slot_leave(s);
	signals_restore(signals);
}

char *packet_shared_from(struct slot *s, char *at)
{
	uint32_t holder = __atomic_load_n(&s->shared_holder, __ATOMIC_RELAXED);
	uint64_t i;

	if (!holder || at < s->data || holder != sys_tid())
		return NULL;
	i = (uint64_t)(at - s->data) / s->packet_size;
	if (i >= s->n_shared)
		return NULL;
	return data_of(s, &s->packets[i]) + s->packets[i].committed;
}
