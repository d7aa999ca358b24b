/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * From arenas to the lanes of a trace, in rounds. A round takes from all programs what they wrote up to one moment, its
 * horizon, and writes it; the next begins there. So what comes later fits behind what was written, whichever lane it
 * is written to. Each event is copied once, from the arena to the round's buffer, and made an event of the trace
 * there. Not thread-safe.
 *
 *   pair of clocks            spoor_taker_take() each program        spoor_taker_write()
 *   = the horizon     ---->   copy, check, convert: runs      ---->  runs to lanes, packets to files,
 *                                                                    then packets back to their programs
 */
#include "base/error.h"
#include "collect/user/arena.h"
#include "collect/user/events.h"
#include "collect/user/lanes.h"
#include "trace/source_list.h"
#include "trace/writer.h"

/* A program whose arena is read. */
struct spoor_source {
	struct spoor_user_arena *arena;
	struct spoor_user_clock *clock; /* its own, for stamps that are older than the taker; NULL: the taker's */
	bool own_clock;                 /* it is freed with the source */
	uint64_t read_until;            /* ns: what was written before was there to be taken, and was */
	uint32_t pid;                   /* the host's; 0: it is gone, its arena's is taken */
	bool live;                      /* /proc can be asked for its threads */
	bool foreign;                   /* it calls its threads otherwise: it is of another pid namespace */
	uint64_t ino;                   /* of its memfd */
	bool told;                      /* SPOOR_EV_PROGRAM of it is in the trace */
	unsigned state;                 /* enum spoor_program_state, once it has ended; 0: it runs */
	uint64_t lost, overwritten;     /* of the arena's, what lanes have told of, or will with their next packet */
	uint64_t lost_child;            /* of `lost` */
	uint64_t taken;                 /* of the arena's, how many are in the trace, as its packets tell it */
	bool untold;                    /* with the next */
	bool known;                     /* recorders before us wrote of it, and counted it */
	uint64_t lost_earlier;          /* of its losses, what they told */
	uint64_t named;                 /* the last packet that told of it */
	void **numbers; /* of files: whose thread has which number, a tree for all; NULL: the host says */
	uint64_t until; /* with it, ns: so long its process lived at least */
	struct spoor_source_threads *threads;
	struct spoor_user_addresses *addresses;
	uint64_t n, bytes; /* taken: events, bytes of the arena */
	uint64_t refused;  /* events that were taken and could not be written: lost */
	unsigned held;     /* of what was taken, pieces that are not released */
	size_t rows_asked; /* of its objects */
	uint64_t memory;   /* once its program has ended: what its arena takes */
};

#define SPOOR_TAKER_END (1ULL << 62) /* no clock has come so far, ns */

struct spoor_taker;

int spoor_taker_new(struct spoor_writer *w, struct spoor_taker **ret);
void spoor_taker_free(struct spoor_taker *t);

/*
 * If the arena is older than the taker: a clock by the pairs that the program noted, so that what it wrote before is
 * right. Those of a program are believed for itself alone. -ENOMEM.
 */
int spoor_taker_look_back(struct spoor_taker *t, struct spoor_source *s);
struct spoor_user_classes *spoor_taker_classes(struct spoor_taker *t);

/* Begins a round that takes everything up to now. */
void spoor_taker_round(struct spoor_taker *t);
/* Goes on with one that came to nothing for want of room: up to the same moment. */
void spoor_taker_go_on(struct spoor_taker *t);
/* So many bytes are taken at once, and with 0 none. */
void spoor_taker_limit(struct spoor_taker *t, size_t bytes);
/* The same up to a moment in the past, CLOCK_MONOTONIC ns. */
void spoor_taker_round_until(struct spoor_taker *t, uint64_t ns);

/*
 * All packets of a program. -EAGAIN: the buffer is full, or the limit is reached; write, and take again, until it is 0;
 * with nothing to write, later. Other errors are of no program but ours: -ENOMEM.
 */
int spoor_taker_take(struct spoor_taker *t, struct spoor_source *s);
/* One packet. */
int spoor_taker_take_packet(struct spoor_taker *t, struct spoor_source *s, unsigned i);
/*
 * Writes what was taken. Even if it fails the packets go back: programs do not wait for a disk. What could not be
 * written is counted, see `refused`; where the writer had no room (-ENOBUFS) it is no failure.
 */
int spoor_taker_write(struct spoor_taker *t, struct spoor_error *e);
/*
 * For a trace that is written elsewhere, and later: from here on what is written is held. mark(): all of it so far has
 * this number. release(): what has a number up to this one goes back to its programs. forget(): the program is gone.
 */
void spoor_taker_hold(struct spoor_taker *t);
void spoor_taker_mark(struct spoor_taker *t, uint64_t mark);
void spoor_taker_release(struct spoor_taker *t, uint64_t acked);
void spoor_taker_forget(struct spoor_taker *t, struct spoor_source *s);
/* The taker takes nothing of it any more; another one may, from its beginning. forget() does that, too. */
void spoor_taker_leave(struct spoor_taker *t, struct spoor_source *s);
/* Forgets what was taken, as if it had not been. */
void spoor_taker_undo(struct spoor_taker *t);
size_t spoor_taker_bytes(const struct spoor_taker *t);

/* What was discarded and overwritten since this was asked last goes into the next packet. take() does that, too. */
void spoor_taker_lost(struct spoor_taker *t, struct spoor_source *s);
/* What a program lost: what it discarded, and what was refused. */
uint64_t spoor_source_lost(const struct spoor_source *s);
/* What newer events of it have overwritten, and we do not have. */
uint64_t spoor_source_overwritten(const struct spoor_source *s);
/* What became of a program: SPOOR_EV_PROGRAM. */
void spoor_taker_tell(struct spoor_taker *t, struct spoor_source *s, unsigned state);
void spoor_taker_tell_program(struct spoor_taker *t, const struct spoor_program *p); /* but for the header */
/* Programs in whose buffers something made no sense. */
struct spoor_user_damaged {
	unsigned n;
	uint64_t places; /* in all */
	char who[128];   /* the first ones: "name[pid], name[pid]" */
};
#define SPOOR_DAMAGED_NAMED 3
void spoor_user_damaged_add(struct spoor_user_damaged *d, const char *comm, uint32_t pid, uint64_t places);
void spoor_source_damaged(const struct spoor_source *s, struct spoor_user_damaged *d); /* if it is */
uint32_t spoor_source_pid(const struct spoor_source *s); /* the host's, if it is known */
/* A number of the recording: it goes into the manifest. */
void spoor_taker_counter(struct spoor_taker *t, const char *name, uint64_t value);
/* A segment began, for all programs; and then: says again what of the program its events refer to. */
void spoor_taker_segment(struct spoor_taker *t);
void spoor_taker_repeat(struct spoor_taker *t, struct spoor_source *s);
void spoor_source_done(struct spoor_source *s);

/* Another one has written so many events to this trace, and told of so many that were lost or overwritten. */
struct spoor_written_sum;
void spoor_taker_count_from(struct spoor_taker *t, const struct spoor_written_sum *written);

/*
 * What packets that could not be written would have told: the next one does. on_unwritten() is called when there is
 * more of it, before what was in them goes back to its programs: a recorder that follows one that was killed is to be
 * told it by other ways, spoor_taker_untold().
 */
int spoor_taker_unwritten(const struct spoor_taker *t, struct spoor_source_list *to); /* 0 or -ENOMEM */
void spoor_taker_on_unwritten(struct spoor_taker *t, void (*on_unwritten)(void *ctx), void *ctx);
/* Without memory it is not told. */
void spoor_taker_untold(struct spoor_taker *t, const struct spoor_source_list *unwritten);
/* How far that had come with the packets of this arena stands there now, and need not be told any more. */
void spoor_taker_knows(struct spoor_taker *t, const uint8_t arena[16]);

struct spoor_taker_counts {
	uint64_t events, packets, merged; /* merged: rounds */
	uint64_t late;                    /* events that came too late for any lane: lost */
	uint64_t undescribed;             /* events whose class has no description that makes sense: lost */
	uint64_t overwritten;             /* as far as it was told */
	uint64_t lost_child;              /* likewise: by children without buffers */
};
void spoor_taker_counts(const struct spoor_taker *t, struct spoor_taker_counts *ret);
