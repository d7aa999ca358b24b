/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * Counters of the kernel and the processor, of the thread at hand: opened at its first event that has them, closed when
 * it ends. A counter that cannot be had is 0. Async-signal-safe.
 */
#include "agent/core/producer.h"

#define PERF_MOST_FDS 1024 /* open in a process; threads that come when so many are have counts of 0 */

/* What the counters of these contexts say, in the order of their bits, and which could not be had. Returns how many. */
unsigned perf_read(uint32_t contexts, uint64_t *ret, uint32_t *ret_uncounted);
/* The thread whose block that is ends. */
void perf_close(struct block *b);
