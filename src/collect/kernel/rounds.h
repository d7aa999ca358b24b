/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Reading what the counting collector has counted, in rounds: live threads one by one, each as of one moment, and the
 * sums of what has ended, so that every call is in exactly one of the two (counter.h). A round takes the sums away
 * from the kernel: who reads keeps them. One round at a time; not thread-safe.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/kernel/counter.h"
#include "collect/kernel/kernel.h"

struct spoor_round_reader {
	/* A live thread; wides: one for each slot that says so, in their order. */
	void (*thread)(void *ctx, const struct spoor_counter_thread *t, const struct spoor_counter_slot *slots,
		       const struct spoor_counter_wide *wides);
	/* What ended threads had counted since the last round. */
	void (*sum)(void *ctx, const struct spoor_counter_key *key, const struct spoor_counter_sum *sum);
	/*
	 * A process of which threads were in; comes after all sums. Of what it has by bank, only that of `bank` belongs
	 * to sums handed out by now, unless it is final: then nothing will come of it any more, and the kernel has
	 * forgotten it.
	 */
	void (*process)(void *ctx, const struct spoor_counter_owner *owner, const struct spoor_counter_process *p,
			unsigned bank, bool final);
	void *ctx;
};

struct spoor_rounds;

int spoor_rounds_new(struct spoor_kernel *k, struct spoor_rounds **ret);
void spoor_rounds_free(struct spoor_rounds *r);

/* One round. threads: live ones too, else only what has ended. 0 or -errno; what was read by then was handed out. */
int spoor_round(struct spoor_rounds *r, bool threads, const struct spoor_round_reader *reader);

/* Calls that found no room at all. */
uint64_t spoor_rounds_lost(const struct spoor_rounds *r);
