/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The writer's parts: writer.c (opening, closing), writer_packet.c (streams and packets), writer_defs.c (definitions),
 * writer_class.c (classes of user events), writer_resume.c, checkpoint.c, writer_take_over.c, writer_old_defs.c and
 * digest.c (going on), segment.c (directories, rotation), manifest.c, snapshot.c.
 */
#include <jansson.h>
#include <stdlib.h>

#include "trace/schema.h"
#include "trace/source_list.h"
#include "trace/stack_set.h"
#include "trace/writer.h"

#define SPOOR_MAX_SPANS 1000 /* of one packet: with its header, padding and sources below IOV_MAX */
#define SPOOR_MAX_PARTS 2

/* One CTF stream: it lives through all segments, its file belongs to one. */
struct writer_stream {
	struct writer_part *part;
	struct writer_segment *segment;
	int fd; /* -1: no packet in this segment yet */
	uint32_t cpu, level, instance;
	uint64_t file_size;
	uint64_t last_ts;
	uint64_t seq;
	uint64_t discarded; /* as the caller said last, and before it was resumed */
	uint64_t before;    /* of these: before */
	uint64_t lost;      /* events that could not be written */
};

/* A segment of one part. */
struct writer_segment {
	unsigned number;
	int fd; /* directory; -1 once closed */
	uint64_t bytes;        /* with its metadata, where that is its own */
	uint64_t stream_bytes; /* of its packets alone */
	uint64_t repeated; /* of what there was before it, and it was told: spoor_writer_repeated() */
	uint64_t ts_begin, ts_end; /* of its packets; ts_begin UINT64_MAX: none yet */
	struct writer_stream *defs;
	uint8_t *buf; /* definitions not yet written */
	size_t buf_len, buf_size;
	uint64_t again;         /* ns: not before then, where they could not be written and are many */
	int failed;             /* -errno of that, which it was */
	struct spoor_error why;
	struct spoor_stack_set stacks; /* those defined in it */
};

struct writer_part {
	const char *type; /* also its directory's name */
	unsigned stream_id;
	uint8_t uuid[16];
	int fd;
	char *metadata; /* as it is in `current` */
	size_t metadata_len, shared_len; /* shared: what the segments had in common from the begin */
	unsigned n_streams;
	struct writer_stream *streams; /* kernel: [cpu * SPOOR_MAX_LEVELS + level]; ust: [lane] */
	struct writer_stream defs[2];
	struct writer_segment *current, *previous; /* previous: while it hands over to current */
	struct writer_segment *closed;             /* array, oldest first: those still on disk */
	uint64_t dropped_bytes;
};

struct spoor_writer {
	struct spoor_writer_options o;
	char *path, *command, *mode;
	char hostname[65], release[65], machine[65];
	char host_dir[65]; /* hostname, fit for a file's name */
	uint8_t uuid[16], boot_id[16];
	uint64_t epoch_offset;
	int root_fd;
	size_t manifest_len; /* as it was written last */
	int reserve_fd;      /* a file without a name: room for the last manifest on a full disk; -1: none */
	size_t reserve_len;
	uint64_t lost_before; /* before it was resumed */
	void (*lost)(void *ctx, const struct spoor_event_header *event); /* NULL: nobody asks */
	void *lost_ctx;
	uint64_t quota_until; /* beyond a quota: until when no other packet is tried, ns; see cut_torn() */
	uint8_t failed; /* something could not be written, other than for want of room below max_size */

	struct writer_part parts[SPOOR_MAX_PARTS];
	unsigned n_parts;
	struct writer_part *kernel, *ust; /* NULL: it is not written */

	/* The segments of all parts begin, end and go together. */
	unsigned n_closed;
	unsigned n_begun;
	unsigned n_dropped;
	uint64_t closed_bytes;
	bool suspended; /* what is written last is not the end */

	struct spoor_class **classes; /* of user events, by id - SPOOR_EV_USER; owned */
	unsigned n_classes;
	uint32_t last_stack, least_object; /* ids of `ust` before it was resumed; 0: none */
	struct spoor_source_list sources; /* what its packets said when it was resumed; sorted */
	uint64_t window; /* of their packets, sources are asked for as far back; counts always */
	uint64_t since;  /* bytes of segments after those of the checkpoint that was there */
	size_t checkpoint_len; /* on disk */

	json_t *clocks, *counters;
	uint64_t stack_seed;
	struct iovec iov[1 + SPOOR_MAX_SPANS + 2]; /* header, spans, padding, sources */
};

#define for_each_part(p, w) \
	for (struct writer_part *p = (struct writer_part *)(w)->parts; p < (w)->parts + (w)->n_parts; p++)

/* segment.c */
/* Of all parts; on failure of none. */
int spoor_segments_create(struct spoor_writer *w, struct spoor_error *e);
void spoor_segment_free(struct writer_segment *s);
void spoor_segment_remove(int part_fd, unsigned number);
/* "seg-000001", and the hidden name under which it is filled and removed. */
#define SPOOR_SEGMENT_NAME 32
void spoor_segment_names(unsigned number, char *ret_name, char *ret_hidden);
/* Drops old segments so that `bytes` more stay within max_size. 1, or 0: nothing that could be dropped helps. */
int spoor_segments_make_room(struct spoor_writer *w, uint64_t bytes, struct spoor_error *e);
/* manifest.c */
int spoor_manifest_open(struct spoor_writer *w, struct spoor_error *e);
int spoor_manifest_write(struct spoor_writer *w, int ended, struct spoor_error *e);
/* The last manifest tells what was lost: it must find room when a disk is full. Where there cannot be any, none. */
void spoor_manifest_keep_reserve(struct spoor_writer *w);
void spoor_manifest_give_reserve(struct spoor_writer *w);
/* The manifest of a snapshot: closed segments only, an end, and the words that it is one. */
int spoor_manifest_write_snapshot(struct spoor_writer *w, int root_fd);
/* By a rename, so that it is always whole. */
int spoor_manifest_replace(int root_fd, const json_t *manifest);
/* Commands and paths may hold any bytes; what is not UTF-8 is not left out but marked. */
json_t *spoor_text_json(const char *text);
/* Takes note of clock pairs and counters among the definitions. */
void spoor_manifest_note(struct spoor_writer *w, const struct spoor_event_header *def);

/* writer_packet.c */
struct writer_packet { /* of w->iov[1 ... n] */
	int n;
	uint64_t bytes, ts_begin, ts_end;
	uint32_t cpu;
	const struct spoor_packet_source *sources;
	uint32_t n_sources;
};
/* The file of a stream: "cpu3", "cpu3.1", "lane7", "defs". */
void spoor_instance_name(unsigned stream_id, unsigned instance, char *buf, size_t size);
int spoor_stream_write(struct spoor_writer *w, struct writer_stream *s, const struct writer_packet *p,
		       struct spoor_error *e);
void spoor_stream_leave(struct writer_stream *s);
/* Its file's, in each segment. */
void spoor_stream_name(const struct writer_stream *s, char *buf, size_t size);
struct writer_stream *spoor_cpu_stream(const struct spoor_writer *w, unsigned cpu, unsigned level); /* or NULL */
/* At offset of the file; leaves it as it was if not everything could be written. Consumes iov. */
int spoor_write_at(int fd, uint64_t offset, struct iovec *iov, int n);
/* writer_defs.c */
int spoor_part_define(struct spoor_writer *w, struct writer_part *p, const struct spoor_event_header *def);
/* To one of the part's open segments. */
int spoor_segment_define(struct writer_segment *s, const struct spoor_event_header *def);
int spoor_definitions_flush(struct spoor_writer *w, struct writer_segment *seg, struct spoor_error *e);
/*
 * writer_resume.c: the lock of who writes. Who reads the trace looks for a moment whether it is held
 * (spoor_trace_is_live()): that passes. -EBUSY: somebody has it.
 */
int spoor_trace_lock(int fd);
/* Who the trace says that it is, instead of a new identity; locks it. Then what its part has. */
int spoor_resume_identity(struct spoor_writer *w, struct spoor_error *e);
int spoor_resume_parts(struct spoor_writer *w, struct spoor_error *e);
/* Words of a manifest. */
int spoor_resume_manifest(struct spoor_writer *w, const char *text);
/* The same for a store, by its digest. */
int spoor_digest_identity(struct spoor_writer *w, struct spoor_error *e);
int spoor_digest_parts(struct spoor_writer *w, struct spoor_error *e);
struct spoor_digest_text { /* of records */
	uint8_t *bytes;
	size_t len, room;
};
static inline void spoor_digest_text_done(struct spoor_digest_text *d)
{
	free(d->bytes);
}
int spoor_digest_add(struct spoor_digest_text *d, uint32_t type, const void *data, size_t len);
/* What the writer knows: ids, closed segments, streams, classes, sources. */
int spoor_digest_add_parts(struct spoor_digest_text *d, const struct spoor_writer *w);
/* And back. -EBADMSG: it makes no sense. */
int spoor_digest_take(struct spoor_writer *w, const void *digest, size_t len);
/*
 * checkpoint.c: what closed segments say, kept beside them. load(): 1, or 0 if there is none that holds, and the
 * segments must be read; save() does what it can; forget() removes it.
 */
int spoor_checkpoint_load(struct spoor_writer *w);
void spoor_checkpoint_save(struct spoor_writer *w);
void spoor_checkpoint_forget(struct spoor_writer *w);
/* writer.c: what a writer that goes on would know; it writes nothing. window: as of spoor_digest_make(). */
int spoor_writer_look(const char *path, const uint8_t *boot_id, uint64_t window, struct spoor_writer **ret,
		      struct spoor_error *e);
void spoor_writer_freep(struct spoor_writer **w);
/* writer_class.c: a class as it stands in a trace that is resumed. */
int spoor_class_restore(struct spoor_writer *w, const struct spoor_event_class *c, uint64_t ts);
/* writer_class.c: a new segment is told of all classes. */
int spoor_classes_repeat(struct spoor_writer *w, struct writer_segment *s);
