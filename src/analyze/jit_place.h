/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Where a process's map of just-in-time code is: /tmp/perf-PID.map, as the process sees /tmp and calls itself. */
#include "analyze/process_root.h"

struct spoor_jit_places {
	const char *folder; /* "/tmp" */
	struct spoor_trace_place trace;
};

/* info: NULL if there is no trace. folder: NULL for /tmp; borrowed. */
struct spoor_jit_places spoor_jit_places(const char *folder, const struct spoor_trace_info *info);

#define SPOOR_JIT_PATH 4096

/*
 * Opens the map of a process, and says where it was. If the process runs: in its own root. Then: by the pid that the
 * recorder saw. Last, if the process is gone or its root not for us: by the pid that it saw itself.
 * A file that is not there, not regular, huge, not its owner's alone to write, or last written before the process
 * began is no map of it: -ENOENT. So it is where another process that makes code has the number, and for a trace of
 * another machine, or of before this one was booted. Links are not followed: /tmp is everybody's.
 */
int spoor_jit_open(const struct spoor_jit_places *places, const struct spoor_traced_process *o,
		   char ret_path[static SPOOR_JIT_PATH]);
