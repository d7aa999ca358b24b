/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Writing a trace directory: manifest, segments, CTF packets. The bytes of events come ready-made.
 *
 *   NAME.spoor/manifest                        JSON, versioned: docs/formats/trace.md
 *   NAME.spoor/HOST/kernel/seg-000001/metadata CTF 1.8 text (the same in every segment)
 *                                    /defs     definition stream (stream instance 65535)
 *                                    /cpuN     nesting level 0 of CPU N (stream instance N)
 *                                    /cpuN.1   nesting level 1 (stream instance N + 4096)
 *
 * Not thread-safe. Every function may fail with -ENOSPC, -EIO, -ENOENT (directory vanished): the writer then stays
 * usable for spoor_writer_close(), and what was written stays readable.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/error.h"
#include "trace/record.h"

struct spoor_writer;

struct spoor_writer_options {
	const char *path;    /* NAME.spoor; must not exist */
	const char *command; /* for the manifest */
	const char *mode;    /* words for the manifest, e.g. "app-all, S=5, cfi" */
	unsigned n_cpus;
	uint64_t max_size;      /* bytes kept on disk: whole old segments are dropped; 0: no limit */
	uint64_t segment_size;  /* rotate when a segment has this many bytes; 0: never */
	uint64_t segment_ns;    /* rotate after this much time; 0: never */
};
int spoor_writer_open(const struct spoor_writer_options *o, struct spoor_writer **ret, struct spoor_error *e);

/*
 * Appends whole, time-ordered events of one stream as one packet (or several, if large), by one writev:
 * spans are written where they are. ts_begin/ts_end: of the first and last event. discarded: the stream's total so far.
 */
int spoor_writer_packet(struct spoor_writer *w, unsigned cpu, unsigned level, const struct iovec *spans, int n_spans,
			uint64_t ts_begin, uint64_t ts_end, uint64_t discarded, struct spoor_error *e);
/* Appends one definition (any event struct with h.size8 set); buffered; its ts is raised to the stream's last one. */
int spoor_writer_define(struct spoor_writer *w, const struct spoor_event_header *def);
int spoor_writer_flush(struct spoor_writer *w, struct spoor_error *e);

/*
 * Rotation. A segment ends when every CPU's ring has delivered its mark, so two are open for a short time:
 * begin() opens the next one; a stream is switched to it with switch_stream() when its mark is seen; end() closes
 * the old one, drops what max_size no longer allows, and updates the manifest. Definitions go to the newest segment.
 */
int spoor_writer_should_rotate(const struct spoor_writer *w, uint64_t now_ns);
int spoor_writer_segment_begin(struct spoor_writer *w, struct spoor_error *e);
int spoor_writer_switch_stream(struct spoor_writer *w, unsigned cpu, unsigned level);
int spoor_writer_segment_end(struct spoor_writer *w, struct spoor_error *e);

uint64_t spoor_writer_bytes(const struct spoor_writer *w);
/* Marks the recording as ended in order, writes the manifest, frees w. NULL is fine. */
int spoor_writer_close(struct spoor_writer *w, struct spoor_error *e);
