/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Frames of a trace -> functions, files, lines. Each object's symbols are opened once, each frame is resolved once.
 * Not thread-safe. Nothing is printed: what a reader must be told is a list of notes.
 */
#include <stdbool.h>

#include "object/symbols.h"
#include "trace/reader.h"

struct spoor_symbolizer;

#define SPOOR_MAX_INLINED 16

struct spoor_frame {
	uint32_t object;  /* id; 0: anonymous or just-in-time compiled code */
	uint64_t offset;  /* as recorded: the pc or return address as an address of the object */
	const char *path; /* of the object; NULL if unknown */
	uint8_t interrupted; /* its address is that of the instruction, not one behind a call */
	uint8_t n;        /* lines, innermost inlined function first; 0: nothing known */
	const struct spoor_source_line *lines;
};

/* debug_root and jit_folder: NULL for /usr/lib/debug and /tmp. */
int spoor_symbolizer_new(const char *debug_root, const char *jit_folder, struct spoor_symbolizer **ret);
void spoor_symbolizer_free(struct spoor_symbolizer *z);

/* What the trace tells of its processes finds the maps of those in containers. */
void spoor_symbolizer_use_trace(struct spoor_symbolizer *z, const struct spoor_trace_info *info);
/* Instead of a trace: the processes are those of this moment. */
void spoor_symbolizer_use_now(struct spoor_symbolizer *z);

struct spoor_packed;
/* What was packed into the trace comes before what this machine has. Borrowed until free(). */
void spoor_symbolizer_use_packed(struct spoor_symbolizer *z, struct spoor_packed *packed);

/* The i-th frame of a stack of this segment, in process pid. NULL: out of memory. Borrowed until free(). */
const struct spoor_frame *spoor_symbolize(struct spoor_symbolizer *z, const struct spoor_segment *segment, uint32_t pid,
					  const struct spoor_stack *stack, unsigned i);

/* Has it a frame that each process has its own name for: of anonymous code? */
bool spoor_stack_is_anonymous(const struct spoor_stack *stack);

/* The i-th thing that a reader of the report should know ("PATH: changed since the recording..."), or NULL. */
const char *spoor_symbolizer_note(const struct spoor_symbolizer *z, unsigned i);
