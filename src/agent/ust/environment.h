/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * What the environment says, read when the program begins, since programs write over it:
 *
 *	SPOOR_UST_OUTPUT=DIR    record without a daemon, into files in DIR, which must exist
 *	SPOOR_UST_EVENTS=LIST   globs over provider:name, separated by commas, "!glob": not these; else all
 *	SPOOR_UST_FILTER=EXPR   of these only the events whose fields are so (agent/ust/filter.h)
 *	SPOOR_UST_BUFFERS=SIZE  bytes of buffers of a process, k, M, G and T understood; 4M
 *	SPOOR_UST_MODE=MODE     discard, overwrite (flight recorder), or block, block=TIME (100ms)
 *	SPOOR_UST_CONTEXT=LIST  of vpid, vtid, procname, ip, cpu, callstack (by frame pointers), perf:page-faults ...
 *	SPOOR_UST_STACK=MODE,S  of a call stack: app, app-all (default), lib or all, and at most S call sites (5)
 *	SPOOR_UST_MAX_SIZE=SIZE bytes on disk beside the buffers; then events are discarded
 *	SPOOR_UST_CLOCK=CLOCK   monotonic: stamps by clock_gettime(), as where the TSC is not invariant
 *
 * Of what it cannot take a line on standard error says so and what holds instead. It is not for programs that run with
 * more rights than their caller.
 */
#include <stdbool.h>

#include "agent/core/memory.h"
#include "agent/ust/rules.h"

/* How to record without a daemon. */
struct alone {
	struct arena_wish wish;
	struct rule_wish rule;
	uint64_t spill_limit; /* bytes; 0: none */
};

/* The clock, before anything is stamped. */
void environment_clock(char **envp);

/* Whether to record without a daemon. */
bool environment_wants_alone(char **envp);
/* How. False: it cannot be. Under the process's lock. */
bool environment_alone(char **envp, struct alone *ret);

/* It cannot be: -errno of the arena's making. */
void environment_alone_failed(const struct alone *a, int error);
