/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What can be changed while recording: mode, S, -e, pause. Every change is applied to the kernel side and written into
 * the trace in words. Also the governor of --overhead, which makes such changes by itself.
 */
#include <stdbool.h>
#include <stdint.h>

#include "collect/session/consumer.h"
#include "collect/session/filter.h"

struct spoor_settings {
	struct spoor_kernel *kernel;
	struct spoor_writer *writer;
	struct spoor_filter filter;
	enum spoor_mode mode;
	unsigned budget;
	bool paused;
	bool scoped; /* --scope was given: mode custom is possible */

	/* --overhead: 0 none, else per mille of one CPU's time, on average over all CPUs */
	unsigned limit;
	enum spoor_mode most;     /* of the modes that calls have, the last */
	enum spoor_mode most_now; /* none has a dearer one at present: `most`, app or none */
	unsigned most_budget;     /* what the user asked for: never exceeded */
	int stats_fd; /* while the kernel counts our programs' run time; -1: not */
	bool unmeasured; /* it does not: that was said */
	uint64_t sample_begin, sample_ns, next_sample;
	unsigned calm; /* samples in a row far below the limit */
	unsigned last; /* measured, per mille */
	unsigned
		unheld; /* the most, above the limit, that was measured with nothing left to lower; 0: the limit held */
};

/* Applies the first settings. */
void spoor_settings_init(struct spoor_settings *s, struct spoor_kernel *k, struct spoor_writer *w,
			 const struct spoor_filter *f, enum spoor_mode mode, unsigned budget, unsigned limit,
			 bool scoped);
void spoor_settings_done(struct spoor_settings *s);

/*
 * One command: "mode=app", "budget=3", "e=EXPR", "pause", "resume". 0, or -EINVAL with the reason. Check changes
 * nothing. Understood: would some recording take it?
 */
int spoor_settings_understood(const char *text, struct spoor_error *e);
int spoor_settings_check(const struct spoor_settings *s, const char *text, struct spoor_error *e);
int spoor_settings_apply(struct spoor_settings *s, const char *text, struct spoor_error *e);

/* Can a limit be held at all? -errno with the reason: not. */
int spoor_settings_can_hold(struct spoor_error *e);
/* Called now and then: measures, and lowers or raises mode and S to hold the limit. */
void spoor_settings_govern(struct spoor_settings *s, uint64_t now);
