/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * Where events go: an output is an arena and, without a daemon, the spill file beside it; each of its channels has a
 * slot, by whose number tracepoints and producers know it. A slot that is given back and taken again has another
 * generation: producers notice that they are of the old one.
 */
#include "agent/core/memory.h"
#include "agent/core/process.h"
#include "agent/core/producer.h"

#define SPOOR_OUTPUTS 8   /* sessions that record a program at once */
#define SPOOR_FD_FROM 500 /* descriptors that stay open have numbers from here on */

struct output {
	struct arena_wish wish;
	struct arena_made made;
	uint32_t first_slot;
	bool used;
	uint64_t fd_dev, fd_ino; /* of made.fd, which the program may have closed */
	/* The spill file (arena.h), made at the first full packet; and which file the number was of. */
	int spill_fd;
	bool spill_made;
	uint64_t spill_dev, spill_ino;
	uint32_t spill_lock;
	uint64_t spill_hangs; /* until then nobody waits for who writes (lock_in_turn()) */
	uint64_t spilled, spill_limit; /* bytes; limit 0: none */
};

struct slot {
	struct output *output; /* NULL: not in use */
	struct spoor_arena *arena;
	struct spoor_arena_channel *channel;
	struct spoor_arena_packet *packets;
	char *data;
	uint32_t packet_size, n_packets, n_shared, mode, contexts;
	uint16_t stack_mode, stack_budget;
	uint32_t generation;
	uint32_t users; /* threads that take or give back a packet; it is not another arena's before they are out */
	uint64_t shared_hangs; /* until then nobody waits for who has the shared packet */
	uint32_t shared_gave_up;                    /* channel->space when the shared packet found no room, + 1 */
	uint8_t known[SPOOR_ARENA_MAX_CLASSES / 8]; /* ids that are defined in the arena for this channel */
};
extern struct output outputs[SPOOR_OUTPUTS] HIDDEN;
extern struct slot slots[SPOOR_SLOTS] HIDDEN;

/* False: it is in no use. Else its arena stays until slot_leave(). With the thread's signals blocked. */
static inline bool slot_enter(struct slot *s)
{
	__atomic_fetch_add(&s->users, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&s->output, __ATOMIC_SEQ_CST))
		return true;
	__atomic_fetch_sub(&s->users, 1, __ATOMIC_RELEASE);
	return false;
}

static inline void slot_leave(struct slot *s)
{
	__atomic_fetch_sub(&s->users, 1, __ATOMIC_RELEASE);
}

/*
 * An event is lost. Without slot_enter(): the addresses stay, and every arena has its counts at the same place, so that
 * where a session ends at this instant it is at worst counted in another one.
 */
static inline void slot_lose(struct slot *s)
{
	if (!__atomic_load_n(&s->output, __ATOMIC_RELAXED))
		return;
	__atomic_fetch_add(&s->channel->lost, 1, __ATOMIC_RELAXED);
	if (!process->alive)
		__atomic_fetch_add(&s->channel->lost_child, 1, __ATOMIC_RELAXED);
}

/* Counters that an event of it could not have. Without slot_enter(), likewise. */
static inline void slot_uncounted(const struct slot *s, uint32_t contexts)
{
	if (!contexts || !__atomic_load_n(&s->output, __ATOMIC_RELAXED))
		return;
	if (contexts & ~__atomic_load_n(&s->arena->uncounted, __ATOMIC_RELAXED))
		__atomic_fetch_or(&s->arena->uncounted, contexts, __ATOMIC_RELAXED);
}

static inline bool slot_knows(const struct slot *s, uint16_t id)
{
	return __atomic_load_n(&s->known[id / 8], __ATOMIC_RELAXED) >> (id % 8) & 1;
}

static inline uint32_t slot_generation(const struct slot *s)
{
	return __atomic_load_n(&s->generation, __ATOMIC_RELAXED);
}

static inline uint32_t output_generation(const struct output *o)
{
	return slot_generation(&slots[o->first_slot]);
}

/* Makes the arena and takes slots. 0; -EBUSY: there are too many; or another -errno. Under the process's lock. */
int output_open(const struct arena_wish *wish, struct output **ret);

/*
 * Its session is over, its tracepoints off: the arena is ended and its memory given up. Events that are half written go
 * nowhere. Under the process's lock.
 */
void output_close(struct output *o);

/* The arena's memfd, if the program has not closed it; else -EBADF. Async-signal-safe. */
int output_fd(const struct output *o);

/* An arena that was made like its own takes its place. Under the process's lock. */
void output_take_arena(struct output *o, const struct arena_made *made);

/*
 * In a child: arenas of its own in place of the parent's, with the same definitions. 0 or -errno: it has none, which is
 * told once. It is tried once a second then, or at_once (somebody asks for it): -EAGAIN between.
 */
int outputs_renew(bool at_once);
/* When the library begins: children that fork() makes are to leave at once what their parent has half written. */
void outputs_begin_forks(void);
/* In a child (process->alive is 0): it has just failed, and is not to be tried now. */
bool outputs_missing(void);
/* A child by fork tells a recorder that is new what it goes on with. False: it is none, or there is nothing. */
bool outputs_offer_again(void);
/* Is what is recorded here from a parent, which may have been told other rules? */
bool outputs_inherited(void);

/*
 * The process's lock, for whoever is going to change what is recorded: in a child its own arenas come first, or its
 * definitions would go into its parent's. As process_lock() and process_trylock().
 */
bool outputs_lock(bool wait);

/* agent/ust: says, without a recorder, that a child can make no buffers in dir. Async-signal-safe. */
void outputs_child_failed(const char *dir, int error);

/* exit() has run. */
void outputs_end(void);

/*
 * This thread goes into what ends the program without exit(), or puts another one in its place; the arenas say so.
 * Returns what outputs_stay() takes if it comes back. Async-signal-safe, and nothing in children by vfork.
 */
uint32_t outputs_leave(void);
void outputs_stay(uint32_t left);

/*
 * Writes a packet that this thread owns (whose state is READING) to the spill file, which makes room without anybody
 * outside. 0: written; -errno: it stays as it is.
 */
int output_spill(struct output *o, const struct spoor_arena_packet *packet, const char *data);
/* If it is still there. Under the process's lock. */
void output_close_spill(struct output *o);
