/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Packets of an arena: what is in them, and whose they are. */
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collect/user/arena_internal.h"

/* Owner, serial and committed bytes as of one moment. false: they change too fast, the next look will do. */
static bool look(const struct spoor_arena_packet *h, uint64_t *owner, uint64_t *serial, uint64_t *committed)
{
	for (int i = 0; i < 4; i++) {
		*owner = LOAD(h->owner);
		*serial = LOAD(h->serial);
		*committed = LOAD(h->committed);
		if (LOAD(h->owner) == *owner && LOAD(h->serial) == *serial)
			return true;
	}
	return false;
}

static uint64_t consumed_of(const struct spoor_user_arena *a, unsigned i, uint64_t serial)
{
	uint64_t consumed = LOAD(a->headers[i].consumed);

	return a->packets[i].overwritten ? SPOOR_CONSUMED_BYTES(consumed, serial) : consumed;
}

/*
 * Another serial: a packet that we have not seen. What an earlier consumer took from it, it noted. What we took from
 * the one before and could not note any more, its program has counted as overwritten.
 */
static void begin_packet(struct spoor_user_arena *a, unsigned i, uint64_t serial, uint64_t committed)
{
	struct spoor_user_packet *p = &a->packets[i];
	uint64_t consumed = consumed_of(a, i, serial);

	a->retaken += p->n;
	p->n = 0;
	p->serial = serial;
	p->position = consumed % 8 || consumed > committed ? 0 : consumed;
	p->last = 0;
	p->bad = false;
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
	struct spoor_arena_packet *h = &a->headers[i];
	struct spoor_user_packet *p = &a->packets[i];
	struct spoor_user_piece piece = {};
	uint64_t owner, committed;

	*ret = piece;
	if (!look(h, &owner, &piece.serial, &committed) || SPOOR_OWNER_STATE(owner) == SPOOR_PACKET_FREE)
		return;
	if (piece.serial != p->serial) {
		if (p->overwritten && a->mapped && consumed_of(a, i, piece.serial) == SPOOR_CONSUMED_OVER)
			return; /* it is going, and nobody knows how far it was taken */
		begin_packet(a, i, piece.serial, committed);
	}
	if (p->bad || committed > p->size || committed % 8 || committed < p->position) {
		if (!p->bad)
			spoor_user_arena_garbage(a, "how far a packet is filled");
		p->bad = true;
		ret->done = is_full(p, owner);
		return;
	}
	piece.len = committed - p->position;
	piece.at = a->base + p->offset + p->position;
	if ((p->overwritten || p->fd >= 0) && (!copy(a, p, room, &piece) || !spoor_user_packet_same(a, i, &piece)))
		return;
	piece.done = is_full(p, owner);
	*ret = piece;
}

/* A packet that went from one state to the next has the same content still. */
bool spoor_user_packet_same(const struct spoor_user_arena *a, unsigned i, const struct spoor_user_piece *piece)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return LOAD(a->headers[i].serial) == piece->serial;
}

static void give_back(struct spoor_user_arena *a, unsigned i)
{
	const struct spoor_arena_channel *fixed = spoor_user_arena_channel(a, i);
	struct spoor_arena_channel *c = &live(a)->channels[fixed - a->head.channels];
	struct spoor_arena_packet *h = &a->headers[i];
	uint64_t owner = LOAD(h->owner), reading;

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
	a->packets[i].serial = 0;
	a->packets[i].position = 0;
	a->packets[i].n = 0;
	STORE(h->committed, 0);
	STORE(h->consumed, 0);
	STORE(h->owner, SPOOR_OWNER(SPOOR_OWNER_GEN(owner) + 2, 0, SPOOR_PACKET_FREE, 0));
	__atomic_fetch_add(&c->space, 1, __ATOMIC_SEQ_CST);
	if (LOAD(c->waiters))
		syscall(SYS_futex, &c->space, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* As its program would count them. */
static uint64_t count_events(const struct spoor_user_arena *a, const struct spoor_user_packet *p, uint64_t from,
			     uint64_t to)
{
	const uint8_t *at = a->base + p->offset + from, *end = a->base + p->offset + to;
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

/* Up to here the packet is written. If it is being overwritten, it is too late: what we took is counted there. */
static void note_overwritten(struct spoor_user_arena *a, unsigned i, uint64_t position)
{
	struct spoor_user_packet *p = &a->packets[i];
	struct spoor_arena_packet *h = &a->headers[i];
	uint64_t old = LOAD(h->consumed), from = SPOOR_CONSUMED_BYTES(old, p->serial), n;

	if (from >= position || LOAD(h->serial) != p->serial)
		return;
	n = count_events(a, p, from, position);
	if (__atomic_compare_exchange_n(&h->consumed, &old, SPOOR_CONSUMED(p->serial, position), false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		p->n -= n < p->n ? n : p->n;
}

/* A packet that was given back has its old serial until its program opens it, which expects nothing consumed of it. */
static void note(struct spoor_user_arena *a, unsigned i, uint64_t position)
{
	struct spoor_arena_packet *h = &a->headers[i];

	if (a->packets[i].overwritten)
		note_overwritten(a, i, position);
	else if (SPOOR_OWNER_STATE(LOAD(h->owner)) != SPOOR_PACKET_FREE && LOAD(h->serial) == a->packets[i].serial &&
		 position > LOAD(h->consumed))
		STORE(h->consumed, position);
}

void spoor_user_packet_taken(struct spoor_user_arena *a, unsigned i, size_t bytes, uint64_t n, bool done)
{
	struct spoor_user_packet *p = &a->packets[i];

	p->position += bytes;
	if (!a->mapped || a->peek)
		return;
	p->n += p->overwritten ? n : 0;
	if (done)
		give_back(a, i);
	else
		note(a, i, p->position);
}

void spoor_user_packet_resume(struct spoor_user_arena *a, unsigned i, uint64_t serial, uint64_t position)
{
	struct spoor_user_packet *p = &a->packets[i];
	uint64_t from = consumed_of(a, i, serial), committed = LOAD(a->headers[i].committed);

	p->serial = serial;
	p->position = position < committed ? position : committed; /* 0: it was killed while it gave it back */
	if (p->overwritten && from < p->position)
		p->n = count_events(a, p, from, p->position);
	note(a, i, p->position);
}

void spoor_user_packet_hold(struct spoor_user_arena *a, unsigned i, size_t bytes, uint64_t n)
{
	a->packets[i].position += bytes;
	a->packets[i].n += a->packets[i].overwritten ? n : 0;
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
		uint64_t owner, serial, committed, from;

		if (!look(&a->headers[i], &owner, &serial, &committed) || committed > p->size ||
		    SPOOR_OWNER_STATE(owner) == SPOOR_PACKET_FREE)
			continue;
		from = serial == p->serial ? p->position : 0;
		sum += committed > from ? committed - from : 0;
	}
	return sum;
}

void spoor_user_arena_peek(struct spoor_user_arena *a, bool on)
{
	a->peek = on;
	if (on)
		a->malformed_before = a->malformed;
	else
		a->malformed = a->malformed_before;
	memset(a->classes, 0, SPOOR_ARENA_MAX_CLASSES * sizeof(*a->classes)); /* those are another trace's */
	a->n_classes = 0;
	a->defs_read = 0;
	a->defs_bad = false;
	for (unsigned i = 0; i < a->n_packets; i++) {
		a->packets[i].serial = 0; /* seen for the first time */
		a->packets[i].position = 0;
	}
}
