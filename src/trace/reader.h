/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Reading a trace: all parts and segments merged by time, zero-copy. Damaged, truncated or hostile input gives file,
 * offset and reason, and every event before the damage. Not thread-safe; several readers may read one trace.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trace/record.h"

struct spoor_trace;   /* NAME.spoor, opened */
struct spoor_segment; /* one segment of one part, its definitions loaded */

/* path: NAME.spoor, or a directory in it that holds CTF streams. */
int spoor_trace_open(const char *path, struct spoor_trace **ret, struct spoor_error *e);
void spoor_trace_close(struct spoor_trace *t);

struct spoor_trace_info {
	const char *hostname, *release, *command, *mode; /* from the manifest; "" if unknown */
	uint8_t boot_id[16];
	uint64_t epoch_offset; /* add to an event's ts: ns since 1970 */
	unsigned n_segments, n_damages;
	uint8_t ended; /* 1: the recording ended in order; 0: it was cut off */
};
const struct spoor_trace_info *spoor_trace_info(const struct spoor_trace *t);
/* The i-th damage found while opening or reading, one line "FILE: offset N: reason". */
const char *spoor_trace_damage(const struct spoor_trace *t, unsigned i);

struct spoor_event {
	const struct spoor_event_header *h; /* points into the file: at least h->size8 * 8 bytes */
	const struct spoor_segment *segment;
	uint32_t cpu;
};

/* Next event in time order (ties: by stream). Returns 1, or 0 at the end, or -errno. Borrowed until the next call. */
int spoor_trace_next(struct spoor_trace *t, struct spoor_event *ret);
int spoor_trace_rewind(struct spoor_trace *t);
/* Discarded events so far, all streams. Complete once spoor_trace_next() returned 0. */
uint64_t spoor_trace_discarded(const struct spoor_trace *t);

/* Definitions of a segment; NULL if it has none of that id. Borrowed until spoor_trace_close(). */
const struct spoor_stack *spoor_segment_stack(const struct spoor_segment *s, uint32_t id);
const struct spoor_object *spoor_segment_object(const struct spoor_segment *s, uint32_t id);
/* A spoor_file or a spoor_socket: look at h.id. */
const struct spoor_event_header *spoor_segment_file(const struct spoor_segment *s, uint32_t id);
/* Who tid was at time ts. */
const struct spoor_thread *spoor_segment_thread(const struct spoor_segment *s, uint32_t tid, uint64_t ts);

/*
 * A system call's event taken apart. Returns 0, or -EBADMSG if the event is shorter than its class says.
 * Strings and bytes are borrowed from the event. Also takes SPOOR_EV_PENDING (dur 0, ret 0) and SYSCALL_OTHER.
 */
struct spoor_call {
	const struct spoor_syscall_info *info; /* name NULL for SYSCALL_OTHER */
	uint32_t id, pid, tid, stack, cpu;
	uint64_t start, dur;
	int64_t ret;
	uint8_t pending; /* enum spoor_pending_why, 0: completed */
	uint8_t flags;   /* enum spoor_event_flag */
	uint8_t n_args;
	struct spoor_call_arg {
		uint64_t value; /* sign-extended where the kind is signed */
		uint32_t file;  /* FD: file id, 0 none */
		const char *path;                 /* PATH */
		const uint8_t *bytes; uint16_t len; /* SOCKADDR, BUF_*: NULL if none kept */
	} args[6];
	uint32_t ret_file;
};
int spoor_call_decode(const struct spoor_event *ev, struct spoor_call *ret);
