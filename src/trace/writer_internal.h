/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The writer's parts: writer.c (open, close), packets.c, segment.c (directories, rotation), manifest.c, snapshot.c. */
#include <jansson.h>

#include "trace/schema.h"
#include "trace/writer.h"

#define SPOOR_MAX_SPANS 1000 /* of one packet: below IOV_MAX */

/* One CTF stream: it lives through all segments, its file belongs to one. */
struct writer_stream {
	struct writer_segment *segment;
	int fd; /* -1: no packet in this segment yet */
	uint32_t cpu, level, instance;
	uint64_t file_size;
	uint64_t last_ts;
	uint64_t seq;
	uint64_t discarded; /* as the caller said last */
	uint64_t lost;      /* events that could not be written */
};

struct writer_segment {
	unsigned number;
	int fd; /* directory; -1 once closed */
	uint64_t bytes;
	uint64_t ts_begin, ts_end; /* of its packets; ts_begin UINT64_MAX: none yet */
	struct writer_stream *defs;
	uint8_t *buf; /* definitions not yet written */
	size_t buf_len, buf_size;
};

struct spoor_writer {
	struct spoor_writer_options o;
	char *path, *command, *mode;
	char hostname[65], release[65], machine[65];
	char host_dir[65]; /* hostname, fit for a file's name */
	uint8_t uuid[16], boot_id[16];
	uint64_t epoch_offset;
	int root_fd, part_fd;
	char *metadata;
	size_t metadata_len;
	size_t manifest_len; /* as it was written last */
	int reserve_fd;      /* a file without a name: room for the last manifest on a full disk; -1: none */
	size_t reserve_len;
	uint8_t failed; /* something could not be written, other than for want of room below max_size */

	unsigned n_streams;
	struct writer_stream *streams; /* [cpu * SPOOR_MAX_LEVELS + level] */
	struct writer_stream defs[2];

	struct writer_segment *current, *previous; /* previous: while it hands over to current */
	struct writer_segment *closed;             /* array, oldest first: those still on disk */
	unsigned n_closed;
	unsigned n_begun;
	unsigned n_dropped;
	uint64_t dropped_bytes, closed_bytes;

	json_t *clocks, *counters;
	struct iovec iov[SPOOR_MAX_SPANS + 1];
};

/* segment.c */
int spoor_segment_create(struct spoor_writer *w, struct writer_segment **ret, struct spoor_error *e);
void spoor_segment_free(struct writer_segment *s);
void spoor_segment_remove(int part_fd, unsigned number);
/* Drops old segments so that `bytes` more stay within max_size. 1, or 0: nothing that could be dropped helps. */
int spoor_segments_make_room(struct spoor_writer *w, uint64_t bytes, struct spoor_error *e);
/* manifest.c */
int spoor_manifest_open(struct spoor_writer *w, struct spoor_error *e);
int spoor_manifest_write(struct spoor_writer *w, int ended, struct spoor_error *e);
/* The manifest of a snapshot: closed segments only, an end, and the words that it is one. */
int spoor_manifest_write_snapshot(struct spoor_writer *w, int root_fd);
/* By a rename, so that it is always whole. */
int spoor_manifest_replace(int root_fd, const json_t *manifest);
/* Commands and paths may hold any bytes; what is not UTF-8 is not left out but marked. */
json_t *spoor_text_json(const char *text);
/* Takes note of clock pairs and counters among the definitions. */
void spoor_manifest_note(struct spoor_writer *w, const struct spoor_event_header *def);
/* packets.c */
void spoor_stream_leave(struct writer_stream *s);
int spoor_definitions_flush(struct spoor_writer *w, struct writer_segment *seg, struct spoor_error *e);
