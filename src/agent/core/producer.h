/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * A thread's producers: one for each slot (a channel of an arena) and level. A block of them in memory that fork wipes:
 *
 *   thread-local pointer --> +--------+--------+--------+-----+   level 0
 *                            | head   | slot 0 | slot 1 | ... |
 *                            +--------+--------+--------+-----+
 *                              deeper --> the same for events of signal handlers over a half-written event, level 1
 *                                         deeper --> 2, ...
 *
 * On the first SPOOR_PACKET_LEVELS events are written into packets; on those beyond, of which there may be any number,
 * into the block's draft first (aside.h).
 *
 * All 0 is a valid producer: one that has no packet. That is what a thread has before its first event (`nobody`, a
 * block of all threads together) and what is left after a fork: both go the slow way without being asked for.
 */
#include "agent/core/arena.h"
#include "agent/core/sys.h"
#include <spoor/site.h>

#define SPOOR_SLOTS 15 /* channels of all sessions that record a program at once */
#define SPOOR_PACKET_LEVELS 3 /* that have packets to write in */

struct producer {
	struct spoor_producer p;
	uint32_t tid;
	uint32_t packet;     /* index + 1 in the arena; 0: none */
	uint32_t gave_up;    /* channel->space when no packet was found, + 1; 0: not so */
	uint32_t generation; /* of the slot, when the packet was taken */
	uint64_t in_vain;    /* ns that it has waited for room since there was any */
};
_Static_assert(sizeof(struct producer) == 64, "");

enum { BLOCK_SHARED_TLS = 1 };

/* Where a function of ours was called. */
struct caller {
	uintptr_t pc, sp, bp; /* as they are after our return */
};

/* A record that is in the block's draft with its head and contexts: the slot that it is for. */
struct aside {
	uintptr_t pc; /* 0 */
	uint32_t slot;
	uint32_t generation;
};

struct block {
	uint32_t tid; /* whose; 0: nobody's */
	uint32_t level;
	uint32_t flags;
	uint32_t index; /* among all blocks */
	struct block *deeper;
	uintptr_t drafting; /* stack pointer of the event that is in the block's draft (draft.h); 0: none */
	union {
		struct caller site; /* where it was begun; no pc: */
		struct aside aside; /* in place of an event that is to be copied to whoever wants it */
	};
	void *scratch; /* NULL: none yet */
	struct producer slot[SPOOR_SLOTS];
};
_Static_assert(sizeof(struct block) == 1024, "");
#define SPOOR_SLOT_OFFSET(i) (offsetof(struct block, slot) + (i) * sizeof(struct producer))

/* What tracepoints are given while other threads go by them. */
static inline size_t tp_offset(const struct spoor_tracepoint *tp)
{
	return __atomic_load_n(&tp->slot, __ATOMIC_RELAXED);
}

static inline unsigned tp_id(const struct spoor_tracepoint *tp)
{
	return __atomic_load_n(&tp->id, __ATOMIC_RELAXED);
}

/* Which slot a tracepoint's events go to. */
static inline unsigned tp_slot(const struct spoor_tracepoint *tp)
{
	return (unsigned)((tp_offset(tp) - SPOOR_SLOT_OFFSET(0)) / sizeof(struct producer));
}

static inline bool producer_has_room(const struct producer *p, size_t size)
{
	return p->packet && (ptrdiff_t)size <= __atomic_load_n(&p->p.end, __ATOMIC_RELAXED) - p->p.at;
}

extern __thread struct block *block HIDDEN __attribute__((tls_model("initial-exec")));
extern struct block nobody HIDDEN;

/* Others, that look for a block, try to change it. */
static inline uint32_t block_tid(const struct block *b)
{
	return __atomic_load_n(&b->tid, __ATOMIC_RELAXED);
}

/* Threads that share their thread-local storage have one block: none of them writes into packets of its own. */
static inline bool block_is_shared(const struct block *b)
{
	return __atomic_load_n(&b->flags, __ATOMIC_RELAXED) & BLOCK_SHARED_TLS;
}
/* So it is from here on. Packets stay with the block: somebody may be in the midst of an event there. */
void block_share(struct block *b);

/* This thread's own block, made if it has none. NULL: no memory. With its signals blocked. */
struct block *block_own(void);
/* The block one level deeper. NULL: no memory. Likewise. */
struct block *block_deeper(struct block *b);
/*
 * Memory of the block for walks and counters, all 0 at first; its first word is the stack pointer of the walk that uses
 * it, or 0. NULL: none. With its signals blocked.
 */
#define SPOOR_SCRATCH (32 << 10)
#define SPOOR_SCRATCH_OWN 40   /* of these, at the begin: its thread's, 0 for a new one */
#define SPOOR_SCRATCH_PERF 512 /* of these, at the end: for counters */
void *block_scratch(struct block *b);
/* Takes the room of some slots from all producers of all threads, so that they ask before their next event. */
void blocks_forget(unsigned first_slot, unsigned n);
/* Whether no thread is in the midst of an event there. Those that begin one now have no room there any more. */
bool blocks_left(const char *begin, const char *end);
/* Gives a thread's blocks back (their packets have been given back before). */
void blocks_free(struct block *b);
