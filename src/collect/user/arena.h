/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * A program's arena (agent/core/arena.h), seen from outside. The program may write into it whatever it likes, whenever
 * it likes: what is fixed is copied once and checked, what is live is read once and checked each time, and events are
 * checked as they were copied. Garbage ends a packet, is counted, and harms nobody else. Not thread-safe.
 *
 * A live arena must be a memfd sealed against shrinking: another file could be cut under our hands (SIGBUS). A dead
 * one is read into memory.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/core/arena.h"
#include "base/error.h"
#include "collect/user/classes.h"
#include "collect/user/clock.h"
#include "collect/user/code.h"

#define SPOOR_ARENA_LARGEST (4ULL << 30)
#define SPOOR_ARENA_MOST_PACKETS 65536

/* What we know of one of its packets. */
struct spoor_user_packet {
	uint64_t serial;   /* whose the following are */
	uint64_t position; /* bytes taken */
	uint64_t last;     /* stamp of the last event taken, as it stands in the arena */
	uint32_t size;     /* bytes of the packet */
	int fd;            /* where it is: a file that it was spilled to; -1: the arena */
	uint64_t offset;   /* there */
	bool bad;          /* the rest of this serial's makes no sense */
	bool overwritten;  /* its program may begin it anew at any time, taken or not */
	uint64_t n;        /* then: events taken of this serial's */
	uint32_t held;     /* times that something was taken and is not released */
};

struct spoor_user_arena {
	struct spoor_arena head; /* a copy, checked; its live fields are as of then */
	uint8_t *base;
	size_t size;      /* of a dead one that was cut: less than head.size, and nothing is read behind it */
	uint64_t missing; /* then: bytes of events that were behind it, as far as is known */
	bool mapped;
	uid_t uid; /* of a live one: whose it is, as the kernel says */
	bool peek; /* what is taken stays in it, for others to take */
	struct spoor_arena_packet *headers; /* live, in base; of a dead one, with those of packets that were spilled */
	struct spoor_user_packet *packets;
	unsigned n_packets;
	const struct spoor_user_class **classes; /* by the arena's id; NULL: not defined */
	size_t n_classes;
	struct spoor_code code;
	uint64_t defs_read;
	bool defs_bad; /* no more of them is understood */
	uint64_t taken; /* events of overwriting channels that we, and those before us, ever took */
	uint64_t lost, overwritten; /* as its program said last, and can have been */
	uint64_t lost_at;           /* when it said so, ns */
	bool counts_bad, counts_bad_before;
	uint64_t shared; /* likewise: events in shared packets */
	bool shared_bad;
	uint64_t malformed, malformed_before;
	char what[96]; /* of the first: what was wrong */
};

/* Maps a live one; fd stays the caller's. -EBADMSG, -EPROTO (another version), -EPERM (not sealed), -ENOMEM. */
int spoor_user_arena_map(int fd, struct spoor_user_arena **ret, struct spoor_error *e);
/* Takes `size` bytes at base, allocated by malloc(); frees them on failure too. They may be cut behind the head. */
int spoor_user_arena_own(uint8_t *base, size_t size, struct spoor_user_arena **ret, struct spoor_error *e);
void spoor_user_arena_free(struct spoor_user_arena *a);

/* What is defined by now, into the registry. */
void spoor_user_arena_define(struct spoor_user_arena *a, struct spoor_user_classes *r);
/* Pairs of clocks that the program noted; each fits or is left out. */
void spoor_user_arena_clocks(struct spoor_user_arena *a, struct spoor_user_clock *c);

/* Counts garbage and keeps the first words about it. */
void spoor_user_arena_garbage(struct spoor_user_arena *a, const char *what);

/*
 * What channels lost, and what they overwrote of what was not taken. What was looked at counts as taken once
 * spoor_user_packet_taken() or hold() has been told. More than there was time for is garbage, and less that was lost
 * than before: from then on both stay as they were.
 */
uint64_t spoor_user_arena_lost(struct spoor_user_arena *a);
/*
 * Of those that were lost when it was asked last, by child processes that could have no buffers; and, without a daemon,
 * how many such there were: what cannot be is garbage, and none.
 */
uint64_t spoor_user_arena_lost_child(const struct spoor_user_arena *a);
uint32_t spoor_user_arena_children(struct spoor_user_arena *a);
/* Counters that some of its events could not have, as the program says: bits of contexts. */
uint32_t spoor_user_arena_uncounted(const struct spoor_user_arena *a);
uint64_t spoor_user_arena_overwritten(struct spoor_user_arena *a);
/* Of a live one: events that were written into shared packets, as the program says, and as far as that can be. */
uint64_t spoor_user_arena_shared(struct spoor_user_arena *a);
/* How its program ended, of which nothing is known but that it is gone: ENDED, CRASHED, or UNSEEN. */
enum spoor_program_state spoor_user_arena_end(const struct spoor_user_arena *a);
const struct spoor_arena_channel *spoor_user_arena_channel(const struct spoor_user_arena *a, unsigned packet);

/* What a packet has that was not taken yet. */
struct spoor_user_piece {
	const uint8_t *at; /* in the program's memory, so each word is to be read once; or in `room` */
	size_t len;
	uint64_t serial;
	bool done; /* nothing more can come under this serial */
};
/*
 * `room` has room for the whole packet: what may go away meanwhile is copied there. Nothing new: len is 0. What was
 * looked at is not taken before spoor_user_packet_taken() says so.
 */
void spoor_user_packet_look(struct spoor_user_arena *a, unsigned i, uint8_t *room, struct spoor_user_piece *ret);
/* Its program is about to overwrite it: it has nothing any more. */
bool spoor_user_packet_leaves(const struct spoor_user_arena *a, unsigned i);
/* After it was read: is it that packet still? */
bool spoor_user_packet_same(const struct spoor_user_arena *a, unsigned i, const struct spoor_user_piece *piece);
/* So many bytes, n events, of it have been written. done: it is full, and goes back to the program. */
void spoor_user_packet_taken(struct spoor_user_arena *a, unsigned i, size_t bytes, uint64_t n, bool done);
/* Nothing more is taken of it: none of its program's threads is to wait for room. */
void spoor_user_arena_let_go(struct spoor_user_arena *a);
/* So many bytes of the packet that has this serial now were written by a consumer before us. */
void spoor_user_packet_resume(struct spoor_user_arena *a, unsigned i, uint64_t serial, uint64_t position);
/*
 * The same in two steps, for a trace that is not on a disk yet: what is held is not taken a second time, and stays in
 * the program's buffer until it is released, up to this position.
 */
void spoor_user_packet_hold(struct spoor_user_arena *a, unsigned i, size_t bytes, uint64_t n);
void spoor_user_packet_release(struct spoor_user_arena *a, unsigned i, uint64_t serial, uint64_t position, bool done);
/* Bytes that are there to be taken. */
uint64_t spoor_user_arena_waiting(const struct spoor_user_arena *a);
/* Bytes of memory that it takes: a program touches only what it needs. */
uint64_t spoor_user_arena_memory(const struct spoor_user_arena *a);
/* Begins and ends looking without taking: from the start of all packets, and nothing is given back. */
void spoor_user_arena_peek(struct spoor_user_arena *a, bool on);
