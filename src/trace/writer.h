/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Writing a trace directory: manifest, segments, CTF packets. The bytes of events come ready-made.
 *
 *   NAME.spoor/manifest                        JSON, versioned: docs/formats/trace.md
 *   NAME.spoor/HOST/kernel/seg-000001/metadata CTF 1.8 text (the same in every segment: a hard link)
 *                                    /defs     definition stream (stream instances 65534 and 65535 in turn)
 *                                    /cpuN     nesting level 0 of CPU N (stream instance N)
 *                                    /cpuN.1   nesting level 1 (stream instance N + 4096)
 *                /ust/seg-000001/metadata         its own text, which grows: classes of user events
 *                               /defs  /laneN     lane N (stream instance N)
 *
 * A writer writes one part or both; their segments begin and end together.
 *
 * Not thread-safe. Every function may fail with -ENOSPC, -EIO, -ENOENT (directory vanished): the writer then stays
 * usable for spoor_writer_close(), and what was written stays readable.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/error.h"
#include "trace/class.h"
#include "trace/record.h"
#include "trace/schema.h"
#include "trace/store.h"

struct spoor_writer;

/* How the directory of a host of that name is called: of printable characters, and as nothing else in NAME.spoor. */
void spoor_host_directory(const char *host, char *ret, size_t size);

struct spoor_writer_options {
	const char *path;    /* NAME.spoor; must not exist */
	const char *command; /* for the manifest */
	const char *mode;    /* words for the manifest, e.g. "app-all, S=5, cfi" */
	unsigned n_cpus;       /* 0: no part `kernel` */
	unsigned n_lanes;      /* 0: no part `ust`; at most SPOOR_MAX_LANES */
	uint8_t resume;        /* 1: path exists; see spoor_writer_open() */
	uint64_t max_size;     /* bytes kept on disk: whole old segments are dropped, and events for which there is
				* no room all the same are lost and counted; 0: no limit */
	uint64_t segment_size; /* rotate when a segment has this many bytes; 0: never */
	uint64_t segment_ns;   /* rotate after this much time; 0: never */
	/* Of events that were recorded before, elsewhere: the machine's boot, and CLOCK_REALTIME - CLOCK_MONOTONIC. */
	const uint8_t *boot_id; /* 16 bytes; NULL: those of now */
	uint64_t epoch_offset;
	struct spoor_store *store; /* written to this instead of a directory; path is for messages. Borrowed */
};
/*
 * resume: goes on with a trace of user events alone that has no writer any more, in a new segment. What was torn is
 * cut; uuid, command and mode, lanes' ends and counts of what was discarded, and classes are those that it has. -EBUSY:
 * it is being written. -ESTALE: it is of another boot. -EPROTO, -EBADMSG: it cannot be gone on with; but for what was
 * torn it is as it was. With a store, what is there is what its digest says.
 */
int spoor_writer_open(const struct spoor_writer_options *o, struct spoor_writer **ret, struct spoor_error *e);
/*
 * Where the events of a trace that was resumed in its directory come from: of each packet of a buffer, how far. A
 * non-zero result of `each` ends it and is returned.
 */
int spoor_writer_sources(const struct spoor_writer *w, int (*each)(const struct spoor_packet_source *source, void *p),
			 void *p);
/* Before it is closed: it is to be gone on with, so who follows the trace waits for that. */
void spoor_writer_suspend(struct spoor_writer *w);
/* Nobody is going to resume it: what is kept for that is removed. */
void spoor_writer_last(struct spoor_writer *w);

/*
 * Appends whole, time-ordered events of one stream as one packet (or several, if large), by one writev:
 * spans are written where they are. ts_begin/ts_end: of the first and last event; ts_begin must not be before the
 * ts_end of the stream's last packet (-EINVAL). discarded: the stream's total so far. level < 8.
 * If it fails, the packet is not there at all and its events are added to the stream's discarded ones.
 */
int spoor_writer_packet(struct spoor_writer *w, unsigned cpu, unsigned level, const struct iovec *spans, int n_spans,
			uint64_t ts_begin, uint64_t ts_end, uint64_t discarded, struct spoor_error *e);
/*
 * The same for a lane. Never split: n_spans < 1000; none: a packet without events, at the end of the lane's last one
 * (of a lane that has none yet the next one tells of what is discarded). sources: where the events were taken from, on
 * disk with them or not at all; their positions are what spoor_trace_sources() tells a consumer that is started again.
 * -ENOBUFS, without words: its store has no room for it now, and what was in it is counted as lost.
 */
struct spoor_lane_packet {
	const struct iovec *spans;
	int n_spans;
	uint64_t ts_begin, ts_end, discarded;
	uint32_t vtid; /* of the only thread; 0: of several */
	uint32_t n_sources;
	const struct spoor_packet_source *sources;
};
int spoor_writer_lane_packet(struct spoor_writer *w, unsigned lane, const struct spoor_lane_packet *p,
			     struct spoor_error *e);
/* How many packets the lane has: one more, and the last one was written. */
uint64_t spoor_writer_lane_packets(const struct spoor_writer *w, unsigned lane);
/* The end of the lane's last packet: none of its next may begin before. 0: it has none. */
uint64_t spoor_writer_lane_end(const struct spoor_writer *w, unsigned lane);

/*
 * Makes a class of user events known, before the first event of it: to the metadata's text at once, and as a
 * definition, which flush() writes. c->id does not matter. *ret_id: the id that its events have. The writer repeats the
 * classes in each segment. ts: the definition's time. -EINVAL: no such class can be; -E2BIG: too many fields, names or
 * classes.
 */
int spoor_writer_class(struct spoor_writer *w, const struct spoor_event_class *c, uint64_t ts, uint16_t *ret_id,
		       struct spoor_error *e);

/* The definition of the class of id SPOOR_EV_USER + i; NULL: there is none yet. Borrowed. */
const struct spoor_class *spoor_writer_known_class(const struct spoor_writer *w, unsigned i);

/* Of a trace that is gone on with: the greatest id of its stacks, the least of its objects; 0: it has none. */
void spoor_writer_known_ids(const struct spoor_writer *w, uint32_t *ret_last_stack, uint32_t *ret_least_object);

/*
 * Appends one definition (any event struct with h.size4 set); buffered. A batch is put in order of time; a ts before
 * the last batch's is raised to it. So: define() from all rings, flush(), then packet() the events that refer to them:
 * the times stay true, and whatever kills us, no reference dangles. CLOCK and COUNTER also go to the manifest.
 * A stack that is equal to one that a segment defines is written there as an alias of it, if its id is another, or not
 * at all (stack_set.h). A stack's id is of that stack for the whole recording.
 */
int spoor_writer_define(struct spoor_writer *w, const struct spoor_event_header *def); /* to `kernel` */
int spoor_writer_define_user(struct spoor_writer *w, const struct spoor_event_header *def); /* to `ust` */
/* The two that a recording of either part tells of itself; define: one of those above. */
typedef int spoor_writer_definer(struct spoor_writer *w, const struct spoor_event_header *def);
int spoor_define_clock(struct spoor_writer *w, spoor_writer_definer *define); /* the clocks as they are now */
int spoor_define_counter(struct spoor_writer *w, spoor_writer_definer *define, uint64_t ts, const char *name,
			 uint64_t value);
/* Definitions that wait: all, or, where many of them found no space just now, not yet, and what it said then. */
int spoor_writer_flush(struct spoor_writer *w, struct spoor_error *e);
int spoor_writer_flush_due(struct spoor_writer *w, struct spoor_error *e);
/* Definitions that were not flushed, or could not be written yet. */
int spoor_writer_has_unwritten(const struct spoor_writer *w);

/*
 * Rotation. A segment ends when every CPU's ring has delivered its mark, so two are open for a short time:
 * begin() opens the next one; a stream is switched to it with switch_stream() when its mark is seen; end() closes
 * the old one, drops what max_size no longer allows, and updates the manifest. While two are open, definitions
 * go to both, but for those of what the old one knows: define_anew(), to `kernel`.
 * The writer repeats no state by itself: after begin() the session defines again what calls in flight refer to, and a
 * clock pair. repeated(): the present segment has been told that, or more of it, and is none the fuller for it: it does
 * not count to segment_size. end() implies it.
 */
int spoor_writer_should_rotate(const struct spoor_writer *w, uint64_t now_ns);
void spoor_writer_repeated(struct spoor_writer *w);
int spoor_writer_define_anew(struct spoor_writer *w, const struct spoor_event_header *def);
int spoor_writer_segment_begin(struct spoor_writer *w, struct spoor_error *e);
int spoor_writer_switch_stream(struct spoor_writer *w, unsigned cpu, unsigned level);
/* All lanes at once: what is written to them from now on is the next segment's. */
void spoor_writer_switch_lanes(struct spoor_writer *w);
int spoor_writer_segment_end(struct spoor_writer *w, struct spoor_error *e);
/*
 * What was last told of in a segment before this one is to be told of again in the present one, which has just begun:
 * max_size may soon drop the older ones. 0: nothing is ever dropped.
 */
unsigned spoor_writer_lasting(const struct spoor_writer *w);

/*
 * Makes a trace of its own at path, which must not exist, of the closed segments that are still kept: hard links, so
 * that it takes no time and no space. (To another file system they are copied, and the caller waits for it.) What is
 * not in closed segments yet is not in it: rotate first. -ENODATA: none is closed. -EEXIST, -ENOSPC...: nothing is left
 * of it, and the recording is as it was.
 */
int spoor_writer_snapshot(struct spoor_writer *w, const char *path, struct spoor_error *e);

/*
 * Taking over: a process that was forked from the one that writes goes on with the part `kernel` once that one is no
 * more, where its files end. What is torn there is cut. oldest: the oldest segment for which there is still something;
 * *ret_newest: the one that is now written. If these differ, a rotation was under way, and goes on.
 */
int spoor_writer_take_over(struct spoor_writer *w, unsigned oldest, unsigned *ret_newest, struct spoor_error *e);
/* The end of a stream on disk: its last packet there, if that is in the segment that was asked for. */
struct spoor_last_packet {
	uint64_t bytes; /* of its events; 0: there is none */
	struct spoor_event_header first;
};
/* After taking over, before the first packet of a stream: where it goes on. segment: of the first event to come. */
int spoor_writer_continue(struct spoor_writer *w, unsigned cpu, unsigned level, unsigned segment,
			  struct spoor_last_packet *ret, struct spoor_error *e);
/*
 * Definitions of older segments, the newest first, until each() has returned non-zero, which is returned after the
 * segment's last. What is damaged is passed over.
 */
int spoor_writer_old_definitions(struct spoor_writer *w, int (*each)(void *ctx, const struct spoor_event_header *def),
				 void *ctx);
/* Who forks to take over some day needs these descriptors, some of which may be -1. Returns how many. */
#define SPOOR_WRITER_DESCRIPTORS 8
unsigned spoor_writer_descriptors(const struct spoor_writer *w, int *ret, unsigned most);

uint64_t spoor_writer_bytes(const struct spoor_writer *w);
unsigned spoor_writer_dropped(const struct spoor_writer *w); /* segments, for max_size */
/* Counts events as lost that are not even tried: their definitions could not be written. */
void spoor_writer_lose(struct spoor_writer *w, unsigned cpu, unsigned level, const struct iovec *spans, int n_spans);
/* Events that could not be written so far: a full disk, a vanished directory. */
uint64_t spoor_writer_lost(const struct spoor_writer *w);
/* Of these, the events that the kernel's iterators told: calls under way. Of one with a part `kernel`. */
uint64_t spoor_writer_lost_told(const struct spoor_writer *w);
/* A writer before this one counted so many, whether it could still write that or not. */
void spoor_writer_lost_before(struct spoor_writer *w, uint64_t lost);
/* From now on each of them is shown to lost() as it is counted. */
void spoor_writer_on_loss(struct spoor_writer *w, void (*lost)(void *ctx, const struct spoor_event_header *event),
			  void *ctx);
/* Who has heard of a failure and goes no further: the trace is not called whole, even if nothing of it is missing. */
void spoor_writer_fails(struct spoor_writer *w);
/* Who has gone on all the same, and could write all that came since: the trace ends in order, with what is counted. */
void spoor_writer_goes_on(struct spoor_writer *w);
/* Marks the recording as ended in order, writes the manifest, frees w. NULL is fine. */
int spoor_writer_close(struct spoor_writer *w, struct spoor_error *e);
