/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Where a process's map of just-in-time code is: /tmp/perf-PID.map, as the process sees /tmp and calls itself. */
#include <stdbool.h>
#include <stdint.h>

#include "trace/reader.h"

struct spoor_jit_owner {
	uint32_t pid;
	uint32_t inner; /* what its own pid namespace calls it; 0: unknown */
	uint64_t start; /* when it began, ns, CLOCK_MONOTONIC; 0: unknown */
};

/* What a trace tells of it. leader: the definition of its first thread, or NULL. */
struct spoor_jit_owner spoor_jit_owner(uint32_t pid, const struct spoor_thread *leader);

struct spoor_jit_places {
	const char *folder;    /* "/tmp" */
	uint64_t epoch_offset; /* of the trace */
	bool here;             /* it was recorded on this machine, since it booted */
};

/* info: NULL if there is no trace. folder: NULL for /tmp; borrowed. */
struct spoor_jit_places spoor_jit_places(const char *folder, const struct spoor_trace_info *info);

#define SPOOR_JIT_PATH 4096

/*
 * Opens the map of a process, and says where it was. If the process runs: in its own root. Then: by the pid that the
 * recorder saw. Last, if the process is gone or its root not for us: by the pid that it saw itself.
 * A file that is not there, not regular, huge, not its owner's alone to write, or last written before the process
 * began is no map of it: -ENOENT. Links are not followed: /tmp is everybody's.
 */
int spoor_jit_open(const struct spoor_jit_places *places, const struct spoor_jit_owner *o,
		   char ret_path[static SPOOR_JIT_PATH]);
