/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The reader's parts: reader.c (opening, merging), scan.c (which files there are), cursor.c (packets of one file),
 * event_check.c (every check of an event's bytes), definitions.c, manifest_read.c, layout.c, call.c, class.c,
 * pending.c, sources.c, follow.c, repair.c.
 */
#include <stdbool.h>

#include "trace/reader.h"
#include "trace/schema.h"

#define SPOOR_MAX_DAMAGES 1000

/* One stream file, mapped or read, and where we are in it. All zero: nothing mapped. */
struct spoor_cursor {
	const uint8_t *map;
	size_t len;                /* of the file, as far as we look */
	size_t mapped;             /* in a trace that is followed more than the file has: it grows into it */
	size_t pos, end;           /* events of the packet not yet given out */
	size_t next_packet;        /* SIZE_MAX: none */
	uint64_t ts_begin, ts_end; /* of the packet */
	uint64_t last_ts;          /* of the last event, of this file or one before it */
	uint64_t discarded;
	uint32_t cpu;
	uint32_t instance;                   /* what its packets must say */
	const struct spoor_segment *segment; /* whose classes its user events are of */
	uint8_t stream_id;                   /* of the packet at hand */
	uint8_t torn;                        /* the packet at hand goes on beyond the end of the file */
	uint8_t read;                        /* map is no mapping, but memory of our own */
	const char *path;
};

struct spoor_idmap {
	struct spoor_idmap_slot {
		uint32_t id;
		const struct spoor_event_header *def;
	} * slots;
	size_t size, n; /* size: a power of two */
};

struct spoor_thread_def {
	uint32_t tid, order;
	uint64_t from;
	const struct spoor_thread *def;
};

struct spoor_segment {
	struct spoor_trace *trace;
	char *path;
	const char *defs_path; /* NULL: no definitions; owned by trace->files */
	unsigned part, number;
	uint64_t stream_bytes;        /* of its files, once the trace has ended */
	struct spoor_segment *kernel; /* of a segment of user events: the kernel side's of the same time; else NULL */
	uint8_t loaded;
	uint8_t is_user;          /* of a part `ust` */
	uint8_t has_aliases;      /* among its stacks */
	struct spoor_cursor defs; /* open as long as the trace is: what points into it is handed out */
	struct spoor_idmap stacks, objects, places, files;
	struct spoor_idmap tids; /* def: first of that tid in threads, as an index */
	struct spoor_thread_def *threads;
	size_t n_threads, threads_room;
	struct spoor_event_class **classes; /* by id - SPOOR_EV_USER; NULL: not defined */
	unsigned n_classes;
	struct spoor_own_def *own; /* of a segment in memory: the last one */
};

struct spoor_stream_file {
	char *path;
	struct spoor_segment *segment;
	unsigned part;
	uint32_t instance;
};

/* The files of one CTF stream, oldest segment first; one of them is mapped at a time. */
struct spoor_stream {
	const struct spoor_stream_file *files;
	unsigned part;
	uint32_t instance;
	unsigned n_files, file; /* file: those begun */
	struct spoor_cursor c;
	const struct spoor_event_header *h;
	uint64_t discarded;
};

struct spoor_heap_slot {
	uint64_t ts;
	struct spoor_stream *stream;
};

struct spoor_trace {
	struct spoor_trace_info info;
	char *path, *root; /* root: where the manifest is, or path if there is none */
	int above;         /* how many directories path is below it; negative: there is none */
	char *host;        /* its directory below root; NULL: not known */
	uint8_t uuid[16];
	uint8_t has_uuid;
	void *manifest;     /* json_t */
	uint64_t discarded; /* in all, as the manifest says: a loss after a stream's last packet is told only there */
	char *damages[SPOOR_MAX_DAMAGES];
	struct spoor_segment **segments; /* by part and number */
	unsigned n_segments;
	unsigned defs_mapped;            /* segments whose definitions are, and not read */
	unsigned after;                  /* segments up to this one are as if they were not there */
	int scan_errno;                  /* of a directory that could not be read; 0: none */
	struct spoor_stream_file *files; /* by part, instance and number */
	size_t n_files;
	struct spoor_stream *streams;
	unsigned n_streams;
	struct spoor_heap_slot *heap;
	unsigned n_heap;
	uint8_t started;
	uint8_t following;
	uint8_t changed[SPOOR_EV_MAX]; /* by event id: laid out otherwise than we know it */
};

/* Notes a damage once, and returns 1 if it is new; beyond SPOOR_MAX_DAMAGES only that there are more. */
int spoor_trace_note(struct spoor_trace *t, const char *path, uint64_t offset, const char *reason);

/* scan.c: parts of the below; a segment and a file that were not there, and their order. */
int spoor_trace_add_segment(struct spoor_trace *t, const char *path, unsigned part, unsigned nr,
			    struct spoor_segment **ret);
int spoor_trace_add_file(struct spoor_trace *t, struct spoor_segment *s, const char *name, uint32_t instance);
int spoor_trace_order(struct spoor_trace *t);
/* scan.c: fills segments, files, and host if path is above it. */
int spoor_trace_scan(struct spoor_trace *t, const char *path, struct spoor_error *e);
/* manifest_read.c: where its manifest is, and whether it is being written. Before the scan: what is then written, and
 * ends before the manifest is read, has files that the scan does not know. */
int spoor_trace_find(struct spoor_trace *t, struct spoor_error *e);
/* manifest_read.c: fills info and uuid; a manifest that is missing or damaged is noted, not an error. */
int spoor_trace_read_manifest(struct spoor_trace *t, struct spoor_error *e);
/* manifest_read.c: it is gone as a whole, and the manifest says that --max-size dropped it. */
bool spoor_trace_was_dropped(struct spoor_trace *t, const struct spoor_segment *s);

/* "01234567-89ab-...": 0 or -EINVAL. */
int spoor_parse_uuid(const char *text, uint8_t ret[16]);
/* repair.c: where the first byte stands that is in no whole packet; *ret_last: where the packet before it begins. */
uint64_t spoor_packets_end(int fd, uint64_t size, uint64_t *ret_last);
/* repair.c: *cut grows by the bytes that were cut. */
int spoor_repair_fd(int fd, uint64_t *cut);
int spoor_repair_file(const char *path, uint64_t *cut, struct spoor_error *e);
/* The file as a string, at most max bytes. free() *ret. */
int spoor_read_text(const char *path, size_t max, char **ret);
/* layout.c: fills changed. */
int spoor_trace_check_layout(struct spoor_trace *t);

/* cursor.c */
int spoor_cursor_open(struct spoor_trace *t, struct spoor_cursor *c, const char *path,
		      const struct spoor_segment *segment, uint32_t instance);
void spoor_cursor_close(struct spoor_cursor *c);
/* Next whole and valid event; NULL at the end of the file. */
const struct spoor_event_header *spoor_cursor_next(struct spoor_trace *t, struct spoor_cursor *c);
/* Why a packet with this header cannot be at this place, or NULL. left: bytes from its begin to the end of the file. */
const char *spoor_packet_check(const struct spoor_packet *p, uint64_t left);

/* event_check.c: why the event at h, whose header is readable, makes no sense; NULL: it does. left: bytes from h on. */
const char *spoor_event_check(const struct spoor_trace *t, const struct spoor_cursor *c,
			      const struct spoor_event_header *h, size_t left);

/* Of a segment: the class of this id; NULL: none. */
static inline const struct spoor_event_class *spoor_class_of(const struct spoor_segment *s, unsigned id)
{
	return s && id - SPOOR_EV_USER < s->n_classes ? s->classes[id - SPOOR_EV_USER] : NULL;
}

/* What was appended since it was opened can be read. */
void spoor_cursor_grow(struct spoor_trace *t, struct spoor_cursor *c);

static inline void spoor_trace_closep(struct spoor_trace **t)
{
	spoor_trace_close(*t);
}

/* definitions.c */
int spoor_segment_load(struct spoor_segment *s);
/* Definitions that came since; of a trace that is followed. */
int spoor_segment_load_more(struct spoor_segment *s);
/* reader.c: as spoor_trace_open(), of the segments after this one; there may be none, if it is not 0. */
int spoor_trace_open_after(const char *path, unsigned after, struct spoor_trace **ret, struct spoor_error *e);
/*
 * sources.c: as spoor_trace_sources(), of packets in the last `window` bytes of each stream; of those before, what they
 * count, for the last word about a program may be old.
 */
int spoor_trace_late_sources(struct spoor_trace *t, uint64_t window,
			     int (*each)(const struct spoor_packet_source *source, void *p), void *p);
/* reader.c: makes streams of the files; those that are there go on where they are. */
int spoor_trace_make_streams(struct spoor_trace *t);
/* manifest_read.c */
int spoor_trace_is_live(const char *root);
void spoor_segment_unload(struct spoor_segment *s);
