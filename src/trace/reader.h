/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Reading a trace: all parts and segments merged by time, zero-copy. Damaged, truncated or hostile input gives file,
 * offset and reason, and every event before the damage. Not thread-safe; several readers may read one trace.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trace/class.h"
#include "trace/record.h"
#include "trace/schema.h"

struct spoor_trace;   /* NAME.spoor, opened */
struct spoor_segment; /* one segment of one part, its definitions loaded */

/* path: NAME.spoor, or a directory in it that holds CTF streams. -EXDEV: of several hosts; read one at a time. */
int spoor_trace_open(const char *path, struct spoor_trace **ret, struct spoor_error *e);
void spoor_trace_close(struct spoor_trace *t);

struct spoor_trace_info {
	const char *hostname, *release, *command, *mode; /* from the manifest; "" if unknown */
	const char *root; /* the trace's directory: that of the manifest, or what was opened */
	uint8_t boot_id[16];
	uint64_t torn_bytes;   /* after the last whole packets of files; complete once spoor_trace_next() returned 0 */
	uint64_t lost_writing; /* of the discarded events: those that could not be written */
	uint64_t lost_child;   /* and those of child processes that could have no buffers, */
	uint64_t lost_undescribed; /* and those of classes without a description that makes sense */
	uint64_t overwritten;  /* events, not discarded: by newer ones, as was asked for; complete as torn_bytes is */
	uint64_t dropped_segments, dropped_bytes; /* by the recording's limit of size, before what is here */
	uint64_t threads_not_recorded;
	/* Programs that traced themselves from later than their main() on, for the recorder did not answer; and not at
	 * all, being in as many other sessions as they can. Complete as torn_bytes is. */
	uint64_t programs_late, programs_not_recorded;
	uint64_t programs_turned_away; /* likewise: found no room, at a daemon or to wait for one */
	uint64_t held_lost;    /* likewise: 1: programs may have ended of which what they left was lost */
	uint64_t uncounted;    /* likewise: counters (perf:NAME) that are 0 in some events, as they could not be had */
	uint64_t ring_damages; /* stretches of a buffer that made no sense to the recorder */
	/* What a network cost on the way to a relay: events discarded while that was behind, reconnects, and time. */
	uint64_t relay_discarded, relay_reconnects, relay_away_ms;
	uint64_t epoch_offset; /* add to an event's ts: ns since 1970 */
	unsigned n_segments, n_damages;
	uint8_t ended; /* 1: the recording ended in order; 0: it was cut off, or is live */
	uint8_t suspended; /* 1: whoever wrote it has left it in order, for another one to go on with */
	uint8_t snapshot; /* 1: taken of a recording that went on */
	uint8_t has_calls; /* 1: the kernel side was recorded; 0: programs' own events alone */
	uint8_t live;  /* 1: it was being written when it was opened; what was not whole then is not seen */
	uint8_t away;  /* 1: followed; who wrote it is no more, and it may be gone on with */
};
const struct spoor_trace_info *spoor_trace_info(const struct spoor_trace *t);
/* The i-th damage found while opening or reading, one line "FILE: offset N: reason". */
const char *spoor_trace_damage(const struct spoor_trace *t, unsigned i);

/*
 * Checked, so that users may trust it whatever the file: spoor_event_size(h) bytes are there; ids from 1024 on have at
 * least their struct, their strings have a NUL, stacks' n frames and pendings' len bytes are there, and what follows is
 * less than 4 bytes of padding; ids below 1024 have at least their fixed part, up to the result (spoor_call_decode()
 * checks the rest).
 * User events have a class, and spoor_class_values() finds each of its fields within the event.
 * Of one stream, times never go backwards.
 * Ids that this reader does not know may come: skip them. Numbers that name things (stack, file, object) may name
 * nothing.
 */
struct spoor_event {
	const struct spoor_event_header *h; /* points into the file: at least spoor_event_size(h) bytes */
	const struct spoor_segment *segment;
	const struct spoor_event_class *class; /* of a user event (h->id >= SPOOR_EV_USER); else NULL */
	uint32_t cpu; /* SPOOR_CPU_UNKNOWN: of a lane */
};
#define SPOOR_CPU_UNKNOWN UINT32_MAX

/* Next event in time order (ties: by stream). Returns 1, or 0 at the end, or -errno. Borrowed until the next call. */
int spoor_trace_next(struct spoor_trace *t, struct spoor_event *ret);
int spoor_trace_rewind(struct spoor_trace *t);

/*
 * Following a trace that is being written: spoor_trace_follow() before the first next(); and whenever that has returned
 * 0, spoor_trace_more(), after which next() gives what was written meanwhile, in order of time by itself: what another
 * stream had from before comes late. info->live tells whether still more may come; of a trace that is
 * suspended, or at a relay and has not ended, it may whatever comes (info->away). 0 or -errno.
 */
void spoor_trace_follow(struct spoor_trace *t);
int spoor_trace_more(struct spoor_trace *t);
/* Discarded events so far, all streams, for whatever reason. Complete once spoor_trace_next() returned 0. */
uint64_t spoor_trace_discarded(const struct spoor_trace *t);

/*
 * Definitions of a segment; NULL if it has none of that id. Borrowed until spoor_trace_close(). Of two with the same id
 * the later one counts. Only what stands in a definition stream defines. Equal stacks are one: its id may be another
 * than the one that was asked for.
 */
const struct spoor_stack *spoor_segment_stack(const struct spoor_segment *s, uint32_t id);
const struct spoor_object *spoor_segment_object(const struct spoor_segment *s, uint32_t id);
/* By which path its recorder reached an object's file; NULL: by the object's own, or not at all. */
const char *spoor_segment_place(const struct spoor_segment *s, uint32_t object);
/* A spoor_file, spoor_socket or spoor_socket4: look at h.id. */
const struct spoor_event_header *spoor_segment_file(const struct spoor_segment *s, uint32_t id);
/* Who tid was at time ts: NULL if nobody. From the thread's start on, even if it was defined later. */
const struct spoor_thread *spoor_segment_thread(const struct spoor_segment *s, uint32_t tid, uint64_t ts);
/* The i-th definition of a thread, from 0; NULL beyond the last. */
const struct spoor_thread *spoor_segment_thread_at(const struct spoor_segment *s, size_t i);

/* A segment in memory, for definitions that are in no file; each is copied. free() takes NULL. */
int spoor_definitions_new(struct spoor_segment **ret);
int spoor_definitions_add(struct spoor_segment *s, const struct spoor_event_header *def);
void spoor_definitions_free(struct spoor_segment *s);

/*
 * A system call's event taken apart. Returns 0; -EBADMSG if the event is shorter or longer than its class says; -EPROTO
 * if the trace's metadata lays this call out otherwise than this Spoor does (a damage tells it); -EINVAL if it is no
 * call.
 * Strings and bytes are borrowed from the event. Also takes SPOOR_EV_PENDING (dur 0, ret 0) and SYSCALL_OTHER.
 */
struct spoor_call {
	const struct spoor_syscall_info *info; /* name NULL for numbers that the table does not have */
	uint32_t id; /* spoor_syscall_id(); of a pending call the id that it will have */
	uint32_t nr; /* the kernel's number, x86-64's or i386's */
	uint32_t pid, tid, stack, cpu;
	uint64_t start, dur;
	int64_t ret;
	uint8_t pending; /* enum spoor_pending_why, 0: completed */
	uint8_t flags;   /* enum spoor_event_flag */
	uint8_t i386;
	uint8_t entry_unseen; /* of its arguments only the path is known */
	uint8_t n_args;
	struct spoor_call_arg {
		uint64_t value; /* sign-extended where the kind is signed */
		uint32_t file;  /* FD: file id, 0 none */
		const char *path;                 /* PATH */
		const uint8_t *bytes; uint16_t len; /* SOCKADDR, BUF_*: NULL if none kept */
	} args[6];
	uint32_t ret_file; /* of a returned descriptor, 0 none */
	uint8_t ret_is_fd; /* unless it failed, ret is a descriptor */
};
int spoor_call_decode(const struct spoor_event *ev, struct spoor_call *ret);

/*
 * Which calls never ended. A call that sleeps is written once when it falls asleep (SPOOR_EV_PENDING) and again when
 * it has ended; only the second counts. In a loop over spoor_trace_next(), give every event to see() and pass over
 * PENDING ones; at the end, next() gives those that no completed event replaced. Constant time per event, and memory
 * for the calls that are under way, not for the trace.
 */
struct spoor_pendings;
/* see() returns 1 for a completed call whose begin is only a bound (it began before): it took at least its dur. */
int spoor_pendings_new(struct spoor_pendings **ret);
void spoor_pendings_free(struct spoor_pendings *p);
int spoor_pendings_see(struct spoor_pendings *p, const struct spoor_event *ev);
enum spoor_unfinished {
	SPOOR_UNFINISHED_IN_FLIGHT = 1, /* nothing later is known of its thread: look at its why */
	SPOOR_UNFINISHED_LOST = 2,      /* its thread went on: the completed event was lost (and counted) */
	SPOOR_UNFINISHED_KILLED = 3,    /* ended by the signal that killed its thread: there is a completed event */
};
/* *it: 0 at first. Returns 1, or 0 after the last one. Borrowed until spoor_pendings_free() or see(). */
int spoor_pendings_next(const struct spoor_pendings *p, size_t *it, struct spoor_event *ret,
			enum spoor_unfinished *ret_why);
/*
 * The same of calls that had slept and were ended by what killed their thread; their ts is when. Only if they are to be
 * kept, which is said before the first is seen. from, ns: from then on the end of a thread may be missing.
 */
void spoor_pendings_keep_killed(struct spoor_pendings *p);
int spoor_pendings_next_killed(const struct spoor_pendings *p, size_t *it, uint64_t from, struct spoor_event *ret);

/*
 * Where the user events in this trace were taken from: gives every source of every whole packet, of all segments. So
 * whoever writes on knows what is written. A non-zero result of `each` ends it and is returned.
 */
int spoor_trace_sources(struct spoor_trace *t, int (*each)(const struct spoor_packet_source *source, void *p), void *p);

/*
 * Cuts what stands after the last whole packet of each stream file, as a killed writer or a crash may leave it, so that
 * other readers of CTF take the trace (babeltrace2 refuses a trace with a torn packet; this reader needs no repair, and
 * gives the whole events of a torn packet too). *ret_cut: bytes cut. -EBUSY: it is being written.
 */
int spoor_trace_repair(const char *path, uint64_t *ret_cut, struct spoor_error *e);
