/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Counting system calls in the kernel: what is watched, when it is looked at, when it ends. `spoor stat` hosts it. */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "collect/session/counts.h"
#include "collect/session/filter.h"
#include "collect/session/host.h"
#include "collect/session/scope.h"
#include "collect/session/site_stacks.h"
#include "collect/session/targets.h"

enum spoor_counting_why {
	SPOOR_COUNTING_INTERVAL, /* interval_ns has passed */
	SPOOR_COUNTING_END,      /* the last time */
};

struct spoor_counting {
	struct spoor_host host;
	struct spoor_counts *counts;     /* for spoor_counts_take() and spoor_counts_lost() */
	struct spoor_site_stacks *sites; /* by_site; else NULL. Settled when it is time to look */
	uint64_t late;                   /* raw stacks that were not unwound at the end */
};

struct spoor_counting_options {
	struct spoor_targets targets;
	struct spoor_filter filter;
	bool by_site; /* by call site too; the next six are for it */
	enum spoor_mode mode;
	unsigned budget;
	enum spoor_unwind unwind;
	struct spoor_scope app;
	uint64_t row_memory;   /* bytes of kernel memory for unwind rows, taken by need */
	const char *cache_dir; /* of unwind rows; NULL: none */
	bool by_process;       /* what has ended is kept by process */
	bool each_exit;        /* processes are handed out when they have ended */
	bool no_blocked;
	uint64_t duration_ns; /* 0: until it ends by itself */
	uint64_t interval_ns; /* 0: never */
	/* Called once everything is attached; threads: how many were taken in. May be NULL. */
	void (*ready)(void *ctx, long threads);
	/* It is time to look. Returns 0, or -errno: counting ends. */
	int (*look)(void *ctx, struct spoor_counting *c, enum spoor_counting_why why);
	/* each_exit: processes may have ended: for spoor_counts_finals(). By site their stacks are settled. */
	void (*finals)(void *ctx, struct spoor_counting *c);
	/* Something else to wait for: a terminal, say. fd -1: nothing. on_fd returns false to end counting. */
	int fd;
	bool (*on_fd)(void *ctx, struct spoor_counting *c);
	void *ctx;
};

struct spoor_counting_result {
	enum spoor_session_end end;
	int wait_status;       /* of the command, as wait(2) */
	uint64_t lost_threads; /* no kernel memory for their counters: they were not counted */
	uint64_t lost_stacks;  /* by_site: calls that stand under no site, for want of room or time for their stack */
	uint64_t forbidden;    /* by_site: files that may not be read: stacks end there */
};

/*
 * Counts until the end. Returns 0, or -errno with e filled. Blocks what spoor_signals_watch() does meanwhile. Not
 * reentrant.
 */
int spoor_counting_run(const struct spoor_counting_options *o, struct spoor_counting_result *ret,
		       struct spoor_error *e);
/* Threads for which there was no memory, so far. */
uint64_t spoor_counting_lost_threads(const struct spoor_counting *c);
