/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * A process of a trace that runs still leads to files as it sees them: in its own root and mount namespace, which in a
 * container are others than ours.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/reader.h"

/* What a trace tells of it. */
struct spoor_traced_process {
	uint32_t pid;
	uint32_t inner; /* what its own pid namespace calls it; 0: unknown */
	uint64_t start; /* when it began, ns, CLOCK_MONOTONIC; 0: unknown */
};

/* leader: the definition of its first thread, or NULL. */
struct spoor_traced_process spoor_traced_process(uint32_t pid, const struct spoor_thread *leader);

/* Where a trace is from. Zeroed: from elsewhere. */
struct spoor_trace_place {
	uint64_t epoch_offset;
	bool here; /* it was recorded on this machine, since it booted */
	bool now;  /* it is being recorded: who runs by a number is the one whom it means */
};

/* info: NULL if there is no trace. */
struct spoor_trace_place spoor_trace_place(const struct spoor_trace_info *info);

/* Is what runs here by the number pid this process? */
bool spoor_process_is(const struct spoor_trace_place *place, const struct spoor_traced_process *p, uint32_t pid);

/* Its root (O_PATH; the caller closes it), if it runs here by the number pid. -ESRCH: it does not, or is not for us. */
int spoor_process_root(const struct spoor_trace_place *place, const struct spoor_traced_process *p, uint32_t pid);

/* ---- roots that are not ours ---- */

#define SPOOR_ROOTS_MOST 64

/* Zeroed: none. */
struct spoor_roots {
	size_t n;
	struct {
		int fd;
		uint64_t mounts, dev, ino; /* mount namespace; the directory */
	} all[SPOOR_ROOTS_MOST];
};

/* That of a process, if it runs and has another than we and all of these. */
void spoor_roots_add(struct spoor_roots *r, const struct spoor_trace_place *place,
		     const struct spoor_traced_process *p);
void spoor_roots_done(struct spoor_roots *r);
