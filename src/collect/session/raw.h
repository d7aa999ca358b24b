/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Unwinding a raw stack in user space, by the same core and rows as in the kernel. */
#include "collect/session/objects.h"

/* The executable mappings of a process at some time. */
struct spoor_layout {
	uint64_t number;
	uint32_t pid, n;
	uint64_t read_at;                  /* CLOCK_MONOTONIC ns, if it was read from /proc */
	bool unknown;                      /* has an object that is still to be announced */
	bool whole;                        /* all that the kernel told of it is there */
	struct spoor_layout_range *ranges; /* by address */
};

/* An object that is not loaded yet: try again. */
#define SPOOR_RAW_WAIT (-11)

/*
 * Unwinds `raw` and collects call sites in its mode and budget. lookup() gives objects by id. frames has room for
 * SPOOR_MAX_FRAMES. *ret_n: how many. Returns the walk's status (>= 0), or SPOOR_RAW_WAIT.
 */
int spoor_raw_unwind(const struct spoor_ctl_raw *raw, const struct spoor_layout *layout,
		     const struct spoor_object_entry *(*lookup)(void *ctx, uint32_t id), void *ctx, uint64_t *frames,
		     unsigned *ret_n);
