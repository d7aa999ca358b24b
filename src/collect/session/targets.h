/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Who is recorded: the user's -p, -n and -- CMD turned into picks of the kernel's trace map. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "collect/kernel/kernel.h"
#include "collect/session/objects.h"

#define SPOOR_MAX_PIDS 256

struct spoor_targets {
	char **argv; /* -- CMD..., NULL-terminated, or NULL */
	pid_t pids[SPOOR_MAX_PIDS];
	size_t n_pids;
	const char *names[SPOOR_MAX_NAMES];
	size_t n_names;
	const char *cgroup;
	bool all;
	enum { SPOOR_FOLLOW_UNSAID, SPOOR_FOLLOW_YES, SPOOR_FOLLOW_NO } follow_said; /* by the user */
	bool follow; /* children too: what that means for these targets */
};

/* Are they there? -p PIDs exist, CMD can be found (its path goes to ret_cmd, PATH_MAX bytes). */
int spoor_targets_check(const struct spoor_targets *t, char *ret_cmd, struct spoor_error *e);

/* Of -p's processes, or of all where a name or cgroup decides: how many the user may not look into (ptrace(2)). */
size_t spoor_targets_hidden(const struct spoor_targets *t);

/* Loads the rows of what the targets have mapped or will map, before anything is attached. */
void spoor_targets_preload(const struct spoor_targets *t, const char *cmd, struct spoor_objects *objects);

/*
 * After attaching: takes running targets in. Returns the number of threads, or -errno; -ESRCH: only processes were
 * given, and all have ended.
 */
long spoor_targets_take_in(const struct spoor_targets *t, struct spoor_kernel *k, void (*make_room)(void *ctx),
			   void *ctx);
