/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Packets of an arena: what is in them, and whose they are. */
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collect/user/arena_internal.h"

/* What of a packet's header is of one moment. */
struct moment {
	uint64_t owner, serial, committed, gone;
};

/* As its program would count them. Of an arena that was cut, those that are there. */
static uint64_t count_events(const struct spoor_user_arena *a, const struct spoor_user_packet *p, uint64_t to)
{
	uint64_t there = p->offset < a->size ? a->size - p->offset : 0, most = there < p->size ? there : p->size;
	const uint8_t *at = a->base + p->offset, *end = at + (to < most ? to : most);
	struct spoor_event_header h;
	uint64_t n = 0;

	for (; at + sizeof(h) <= end; at += spoor_event_size(&h)) {
		memcpy(&h, at, sizeof(h));
		if (!h.size4)
			break;
		n += h.id != 0;
	}
	return n;
}

/*
 * It holds the packet, to overwrite it. What is there yet has gone: a thread that is kept from doing so may have it for
 * longer than all the others of its age are there.
 */
static bool leaves(const struct spoor_user_packet *p, uint64_t owner)
{
	return p->overwritten && SPOOR_OWNER_STATE(owner) == SPOOR_PACKET_READING &&
	       SPOOR_OWNER_LEVEL(owner) != SPOOR_LEVEL_CONSUMER;
}

bool spoor_user_packet_leaves(const struct spoor_user_arena *a, unsigned i)
{
	return leaves(&a->packets[i], LOAD(a->headers[i].owner));
}

/* Of one that does not overwrite nothing is gone. false: it changes too fast, the next look will do. */
static bool look(const struct spoor_user_arena *a, unsigned i, struct moment *ret)
{
	const struct spoor_arena_packet *h = &a->headers[i];
	bool overwritten = a->packets[i].overwritten;

	for (int n = 0; n < 100; n++) {
		uint64_t begun;

		ret->owner = LOAD(h->owner);
		ret->serial = LOAD(h->serial);
		begun = LOAD(h->begun);
		ret->committed = LOAD(h->committed);
		ret->gone = LOAD(h->gone);
		if (overwritten && begun != ret->serial) {
			ret->committed = 0;
			ret->gone = LOAD(h->gone_next);
		} else if (leaves(&a->packets[i], ret->owner)) {
			ret->gone += count_events(a, &a->packets[i], ret->committed);
			ret->committed = 0;
		}
		if (LOAD(h->owner) == ret->owner && LOAD(h->serial) == ret->serial && LOAD(h->begun) == begun)
			return true;
	}
	return false;
}

static uint64_t consumed_of(const struct spoor_user_arena *a, unsigned i, uint64_t serial)
{
	uint64_t consumed = LOAD(a->headers[i].consumed);

	return a->packets[i].overwritten ? SPOOR_CONSUMED_BYTES(consumed, serial) : consumed;
}

/* Another serial: a packet that we have not seen. What an earlier consumer took from it, it noted. */
static void begin_packet(struct spoor_user_arena *a, unsigned i, uint64_t serial, uint64_t committed)
{
	struct spoor_user_packet *p = &a->packets[i];
	uint64_t consumed = consumed_of(a, i, serial);

	p->serial = serial;
	p->position = consumed % 8 || consumed > committed ? 0 : consumed;
	p->n = p->overwritten ? count_events(a, p, p->position) : 0;
	p->last = 0;
	p->bad = false;
}

void spoor_user_packets_begin(struct spoor_user_arena *a)
{
	struct moment m;

	for (unsigned i = 0; i < a->n_packets; i++)
		if (a->packets[i].overwritten && look(a, i, &m) && m.serial)
			begin_packet(a, i, m.serial, m.committed);
}

/* What its program is about to overwrite is not ours to give back. */
static bool is_full(const struct spoor_user_packet *p, uint64_t owner)
{
	if (SPOOR_OWNER_STATE(owner) == SPOOR_PACKET_READING)
		return !p->overwritten || SPOOR_OWNER_LEVEL(owner) == SPOOR_LEVEL_CONSUMER;
	return SPOOR_OWNER_STATE(owner) == SPOOR_PACKET_FULL;
}

/* In the arena its owner only adds to it; but for that it is copied, before anything in it is believed. */
static bool copy(const struct spoor_user_arena *a, const struct spoor_user_packet *p, uint8_t *to,
		 struct spoor_user_piece *piece)
{
	if (p->fd < 0)
		memcpy(to, a->base + p->offset + p->position, piece->len);
	else if (pread(p->fd, to, piece->len, p->offset + p->position) != (ssize_t)piece->len)
		return false;
	piece->at = to;
	return true;
}

void spoor_user_packet_look(struct spoor_user_arena *a, unsigned i, uint8_t *room, struct spoor_user_piece *ret)
{
	struct spoor_user_packet *p = &a->packets[i];
	struct spoor_user_piece piece = {};
	struct moment m;

	*ret = piece;
	if (!look(a, i, &m) || SPOOR_OWNER_STATE(m.owner) == SPOOR_PACKET_FREE || leaves(p, m.owner))
		return;
	if (m.serial != p->serial)
		begin_packet(a, i, m.serial, m.committed);
	if (p->bad || m.committed > p->size || m.committed % 8 || m.committed < p->position) {
		if (!p->bad)
			spoor_user_arena_garbage(a, "how far a packet is filled");
		p->bad = true;
		ret->done = is_full(p, m.owner);
		return;
	}
	piece.serial = m.serial;
	piece.len = m.committed - p->position;
	piece.at = a->base + p->offset + p->position;
	if ((p->overwritten || p->fd >= 0) && (!copy(a, p, room, &piece) || !spoor_user_packet_same(a, i, &piece)))
		return;
	piece.done = is_full(p, m.owner);
	*ret = piece;
}

/* A packet that went from one state to the next has the same content still. */
bool spoor_user_packet_same(const struct spoor_user_arena *a, unsigned i, const struct spoor_user_piece *piece)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return LOAD(a->headers[i].serial) == piece->serial;
}

/*
 * Up to here the packet is written. One that was given back has its old serial until its program opens it, which
 * expects nothing consumed of it, where it does not overwrite.
 */
static void note(struct spoor_user_arena *a, unsigned i, uint64_t position)
{
	const struct spoor_user_packet *p = &a->packets[i];
	struct spoor_arena_packet *h = &a->headers[i];

	if (p->overwritten)
		STORE(h->consumed, SPOOR_CONSUMED(p->serial, position));
	else if (SPOOR_OWNER_STATE(LOAD(h->owner)) != SPOOR_PACKET_FREE && LOAD(h->serial) == p->serial &&
		 position > LOAD(h->consumed))
		STORE(h->consumed, position);
}

/* Whoever waits for room looks again. */
static void wake(struct spoor_arena_channel *c)
{
	__atomic_fetch_add(&c->space, 1, __ATOMIC_SEQ_CST);
	if (LOAD(c->waiters))
		syscall(SYS_futex, &c->space, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void give_back(struct spoor_user_arena *a, unsigned i)
{
	const struct spoor_arena_channel *fixed = spoor_user_arena_channel(a, i);
	struct spoor_arena_channel *c = &live(a)->channels[fixed - a->head.channels];
	struct spoor_arena_packet *h = &a->headers[i];
	__u64 owner = LOAD(h->owner), reading;

	if (!is_full(&a->packets[i], owner))
		return;
	reading = SPOOR_OWNER(SPOOR_OWNER_GEN(owner) + 1, SPOOR_LEVEL_CONSUMER, SPOOR_PACKET_READING, getpid());
	if (!__atomic_compare_exchange_n(&h->owner, &owner, reading, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return; /* the program has overwritten it */
	if (LOAD(h->serial) != a->packets[i].serial) { /* by another one, which is full again already */
		STORE(h->owner, SPOOR_OWNER(SPOOR_OWNER_GEN(owner) + 2, 0, SPOOR_PACKET_FULL, SPOOR_OWNER_TID(owner)));
		return;
	}
	/* Who takes it has it with the old serial for a moment. */
	if (a->packets[i].overwritten) {
		note(a, i, a->packets[i].position);
	} else {
		a->packets[i].serial = 0;
		a->packets[i].position = 0;
		STORE(h->committed, 0);
		STORE(h->consumed, 0);
	}
	STORE(h->owner, SPOOR_OWNER(SPOOR_OWNER_GEN(owner) + 2, 0, SPOOR_PACKET_FREE, 0));
	wake(c);
}

void spoor_user_arena_let_go(struct spoor_user_arena *a)
{
	for (unsigned i = 0; i < a->head.n_channels; i++) {
		struct spoor_arena_channel *c = &live(a)->channels[i];

		STORE(c->block_us, 0);
		wake(c);
	}
}

/* What of an overwriting packet is ours, whatever becomes of it. */
static void count_taken(struct spoor_user_arena *a, struct spoor_user_packet *p, uint64_t n)
{
	if (!p->overwritten || a->peek)
		return;
	p->n += n;
	a->taken += n;
}

void spoor_user_packet_taken(struct spoor_user_arena *a, unsigned i, size_t bytes, uint64_t n, bool done)
{
	struct spoor_user_packet *p = &a->packets[i];

	p->position += bytes;
	count_taken(a, p, n);
	if (!a->mapped || a->peek)
		return;
	STORE(live(a)->taken, a->taken);
	if (done)
		give_back(a, i);
	else
		note(a, i, p->position);
}

void spoor_user_packet_resume(struct spoor_user_arena *a, unsigned i, uint64_t serial, uint64_t position)
{
	struct spoor_user_packet *p = &a->packets[i];
	struct moment m;

	if (!look(a, i, &m) || m.serial != serial)
		return; /* it went meanwhile */
	begin_packet(a, i, serial, m.committed); /* which may have more: that could not be written */
	if (position > p->position)
		p->position = position < m.committed ? position : m.committed; /* 0: killed while it gave it back */
	p->n = p->overwritten ? count_events(a, p, p->position) : 0;
	note(a, i, p->position);
}

void spoor_user_packet_hold(struct spoor_user_arena *a, unsigned i, size_t bytes, uint64_t n)
{
	a->packets[i].position += bytes;
	count_taken(a, &a->packets[i], n);
	a->packets[i].held++;
}

void spoor_user_packet_release(struct spoor_user_arena *a, unsigned i, uint64_t serial, uint64_t position, bool done)
{
	struct spoor_user_packet *p = &a->packets[i];

	p->held--;
	if (!a->mapped || LOAD(a->headers[i].serial) != serial || p->serial != serial)
		return; /* overwritten meanwhile */
	if (done && !p->held)
		give_back(a, i);
	else if (!done)
		note(a, i, position);
}

uint64_t spoor_user_arena_waiting(const struct spoor_user_arena *a)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < a->n_packets; i++) {
		const struct spoor_user_packet *p = &a->packets[i];
		struct moment m;
		uint64_t from;

		if (!look(a, i, &m) || m.committed > p->size || SPOOR_OWNER_STATE(m.owner) == SPOOR_PACKET_FREE)
			continue;
		from = m.serial == p->serial ? p->position : 0;
		sum += m.committed > from ? m.committed - from : 0;
	}
	return sum;
}

/* Events that were written, and are gone or were taken. UINT64_MAX: no such number. */
static uint64_t sum_of_gone(const struct spoor_user_arena *a)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < a->n_packets; i++) {
		const struct spoor_user_packet *p = &a->packets[i];
		struct moment m;

		if (!p->overwritten || !look(a, i, &m))
			continue;
		if (__builtin_add_overflow(sum, m.gone, &sum) ||
		    __builtin_add_overflow(sum, m.serial == p->serial && m.committed ? p->n : 0, &sum))
			return UINT64_MAX;
	}
	return sum;
}

uint64_t spoor_user_arena_overwritten(struct spoor_user_arena *a)
{
	uint64_t sum;

	if (a->counts_bad)
		return a->overwritten;
	sum = sum_of_gone(a);
	if (!spoor_user_arena_can_have(a, sum, a->head.made))
		spoor_user_arena_counts_bad(a, "how many of its events were overwritten");
	else
		a->overwritten = sum > a->taken ? sum - a->taken : 0;
	return a->overwritten;
}

void spoor_user_arena_peek(struct spoor_user_arena *a, bool on)
{
	a->peek = on;
	if (on) {
		a->malformed_before = a->malformed;
		a->counts_bad_before = a->counts_bad;
	} else {
		a->malformed = a->malformed_before;
		a->counts_bad = a->counts_bad_before;
	}
	memset(a->classes, 0, SPOOR_ARENA_MAX_CLASSES * sizeof(*a->classes)); /* those are another trace's */
	a->n_classes = 0;
	a->defs_read = 0;
	a->defs_bad = false;
	for (unsigned i = 0; i < a->n_packets; i++) {
		a->packets[i].serial = 0; /* seen for the first time */
		a->packets[i].position = 0;
	}
}
