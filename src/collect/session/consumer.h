/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * From the kernel's rings to the trace. Events are written where they lie, by one writev a ring; definitions and
 * control records are taken out on the way. Used from one thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "collect/kernel/kernel.h"
#include "collect/session/objects.h"
#include "trace/writer.h"

struct spoor_consumer;

int spoor_consumer_new(struct spoor_kernel *k, struct spoor_objects *objects, struct spoor_writer *w,
		       bool keep_definitions, struct spoor_consumer **ret);
void spoor_consumer_free(struct spoor_consumer *c);

/*
 * In place of a consumer that is no more, before the first drain: what is in this ring (CPU * SPOOR_LEVELS + level)
 * begins in segment `in`; the newest is that after whose marks it is looked.
 */
void spoor_consumer_go_on(struct spoor_consumer *c, unsigned ring, uint64_t in, uint64_t newest);

/* A definition from elsewhere, as if it came from a ring. */
void spoor_consumer_define(struct spoor_consumer *c, const struct spoor_event_header *def);

/* Takes what is there. Returns bytes taken, or -errno of the writer (what could not be written counts as discarded). */
int64_t spoor_consumer_drain(struct spoor_consumer *c, struct spoor_error *e);

/* Writes a pair of clocks: at the start and the end of a recording. */
void spoor_consumer_clock(struct spoor_consumer *c);

/* The recording ends: calls reported as under way from here on are not going to end in it. */
void spoor_consumer_ends(struct spoor_consumer *c);

/* Begins the next segment; drains finish the change as the rings' marks come in. */
int spoor_consumer_rotate(struct spoor_consumer *c, struct spoor_error *e);
bool spoor_consumer_rotating(const struct spoor_consumer *c);
/* It has been told what all calls in flight refer to: spoor_kernel_repeat(). What only older ones needed is let go. */
void spoor_consumer_repeated(struct spoor_consumer *c);

struct spoor_consumer_counts {
	uint64_t events; /* system calls written: those that ended, and those that did not, each once */
	uint64_t discarded;
	uint64_t nested;  /* of the discarded: a producer interrupted another one */
	uint64_t damaged; /* rings whose content made no sense from some point on: what was there is lost */
};
void spoor_consumer_counts(const struct spoor_consumer *c, struct spoor_consumer_counts *ret);
