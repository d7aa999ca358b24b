/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * RCU for what sites read without a lock: probes, and definitions that objects take along (liburcu's bulletproof
 * flavour: threads need not register). A child has its parent's readers and locks, of threads that it has not:
 * handlers of fork() set liburcu right there. Where they cannot (rcu.c), the child uses no RCU: its readers are not
 * counted, and nobody waits for them.
 */
#include <stdbool.h>
#include <urcu/urcu-bp.h>

#include "agent/core/process.h"

/* Has fork() call us. Once, and early: who asks first comes last: nobody waits for a lock while we have liburcu's. */
void rcu_begin(void);

/* Before anybody can be a reader; under the process's lock. */
void rcu_use(void);

static inline void rcu_read_begin(void)
{
	if (likely(process->rcu))
		urcu_bp_read_lock();
}

/* Who began before a fork that could not be prepared, and is in the child now, is counted nowhere. */
static inline void rcu_read_end(void)
{
	if (likely(process->rcu))
		urcu_bp_read_unlock();
}

/* Whether this thread reads, or the program's own code in it: to wait for readers would be for ever. */
static inline bool rcu_reading(void)
{
	return process->rcu && urcu_bp_read_ongoing();
}

/* Waits for those who read now. False: for nobody, and what they may have must stay. */
bool rcu_wait(void);
