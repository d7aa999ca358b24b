/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* A recording: what is watched, where it goes, when it ends. `spoor record` is a thin host of it. */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "collect/session/consumer.h"
#include "collect/session/filter.h"
#include "collect/session/host.h"
#include "collect/session/scope.h"
#include "collect/session/targets.h"
#include "collect/session/user_part.h"

struct spoor_session_options {
	struct spoor_targets targets;
	const char *output;  /* NAME.spoor */
	bool ust;            /* what the command says of itself, too */
	uint32_t ust_contexts; /* enum spoor_arena_context: what is added to that */
	const char *command; /* the command line, for the manifest */
	struct spoor_filter filter;
	struct spoor_scope app, custom;
	enum spoor_mode mode;
	unsigned budget;
	enum spoor_unwind unwind;
	unsigned payload;     /* -s */
	unsigned overhead;    /* --overhead: per mille; 0: no limit */
	int snapshot_signal;  /* flight recorder: this signal saves what is kept; 0: none */
	uint64_t duration_ns; /* 0: until it ends by itself */
	uint64_t max_size, segment_size, segment_ns;
	unsigned ring_size;
	uint64_t row_memory;   /* bytes of kernel memory for unwind rows, taken by need */
	const char *cache_dir; /* NULL: none */
	bool copy_memory;      /* user memory is copied by the kernel's helper, also where it can be read in place */
	/* Called before anything is attached if the user may not look into so many processes. May be NULL. */
	void (*hidden)(const struct spoor_session_options *o, size_t processes);
	/* Called once everything is attached; threads: how many were taken in. May be NULL. */
	void (*ready)(const struct spoor_session_options *o, long threads);
	/* What happened on the way, a line that may hold names as they are. May be NULL. */
	void (*say)(const struct spoor_session_options *o, const char *text);
	/* How it goes, twice a second: what is recorded, lost and written since it began. May be NULL. */
	void (*progress)(const struct spoor_session_options *o, uint64_t ns, uint64_t events, uint64_t lost,
			 uint64_t bytes);
};

struct spoor_session_result {
	enum spoor_session_end end;
	int wait_status; /* of the command, as wait(2) */
	uint64_t bytes;  /* written */
	unsigned dropped; /* segments, to keep to max_size */
	struct spoor_consumer_counts consumer;
	struct spoor_objects_counts objects;
	struct spoor_kernel_stats kernel;
	bool full; /* there were more objects than it has room for */
	struct spoor_hub_result user; /* of the part `ust` */
	uint64_t duration_ns, user_ns, system_ns; /* our own */
	uint64_t program_ns, program_runs;        /* of the kernel side; 0: not counted */
	unsigned overhead;                        /* per mille, what --overhead could not hold; 0: it held */
	uint64_t kernel_bytes;                    /* memory of the kernel side */
	char warning[512];                        /* something went wrong on the way; "" */
};

/*
 * Runs a recording to its end. Returns 0 when a proper trace was written, else -errno with e filled; *ret is filled in
 * both cases. Blocks what spoor_signals_watch() does meanwhile. Not reentrant.
 */
int spoor_session_run(const struct spoor_session_options *o, struct spoor_session_result *ret, struct spoor_error *e);
