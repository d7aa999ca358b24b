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

/* Another serial: a packet that we have not seen. What an earlier consumer took from it, it noted. */
static void begin_packet(struct spoor_user_packet *p, const struct spoor_arena_packet *h, uint64_t serial,
			 uint64_t committed)
{
	uint64_t consumed = LOAD(h->consumed);

	p->serial = serial;
	p->position = consumed % 8 || consumed > committed ? 0 : consumed;
	p->last = 0;
	p->bad = false;
}

static bool is_full(uint64_t owner)
{
	return SPOOR_OWNER_STATE(owner) == SPOOR_PACKET_FULL || SPOOR_OWNER_STATE(owner) == SPOOR_PACKET_READING;
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
	if (piece.serial != p->serial)
		begin_packet(p, h, piece.serial, committed);
	if (p->bad || committed > p->size || committed % 8 || committed < p->position) {
		if (!p->bad)
			spoor_user_arena_garbage(a, "how far a packet is filled");
		p->bad = true;
		ret->done = is_full(owner);
		return;
	}
	piece.len = committed - p->position;
	piece.at = a->base + p->offset + p->position;
	if ((p->overwritten || p->fd >= 0) && (!copy(a, p, room, &piece) || !spoor_user_packet_same(a, i, &piece)))
		return;
	piece.done = is_full(owner);
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

	if (!is_full(owner))
		return;
	reading = SPOOR_OWNER(SPOOR_OWNER_GEN(owner) + 1, 0, SPOOR_PACKET_READING, getpid());
	if (!__atomic_compare_exchange_n(&h->owner, &owner, reading, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return; /* the program has overwritten it */
	if (LOAD(h->serial) != a->packets[i].serial) { /* by another one, which is full again already */
		STORE(h->owner, SPOOR_OWNER(SPOOR_OWNER_GEN(owner) + 2, 0, SPOOR_PACKET_FULL, SPOOR_OWNER_TID(owner)));
		return;
	}
	/* Who takes it has it with the old serial for a moment. */
	a->packets[i].serial = 0;
	a->packets[i].position = 0;
	STORE(h->committed, 0);
	STORE(h->consumed, 0);
	STORE(h->owner, SPOOR_OWNER(SPOOR_OWNER_GEN(owner) + 2, 0, SPOOR_PACKET_FREE, 0));
	__atomic_fetch_add(&c->space, 1, __ATOMIC_SEQ_CST);
	if (LOAD(c->waiters))
		syscall(SYS_futex, &c->space, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void spoor_user_packet_taken(struct spoor_user_arena *a, unsigned i, size_t bytes, bool done)
{
	struct spoor_user_packet *p = &a->packets[i];

	p->position += bytes;
	if (!a->mapped || a->peek)
		return;
	if (done)
		give_back(a, i);
	else if (LOAD(a->headers[i].serial) == p->serial)
		STORE(a->headers[i].consumed, p->position);
}

void spoor_user_packet_hold(struct spoor_user_arena *a, unsigned i, size_t bytes)
{
	a->packets[i].position += bytes;
	a->packets[i].held++;
}

void spoor_user_packet_release(struct spoor_user_arena *a, unsigned i, uint64_t serial, uint64_t position, bool done)
{
	struct spoor_user_packet *p = &a->packets[i];

	p->held--;
	if (!a->mapped || LOAD(a->headers[i].serial) != serial || p->serial != serial)
		return; /* overwritten meanwhile */
	if (!done)
		STORE(a->headers[i].consumed, position);
	else if (!p->held)
		give_back(a, i);
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
