/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Locks that are the tid of who holds them, 0 of nobody: one whose thread has ended is free. Async-signal-safe. */
#include "agent/core/sys.h"

/* In memory that fork wipes; waits without end. False: this thread has it already. */
bool tid_lock(uint32_t *lock);
bool tid_trylock(uint32_t *lock);
void tid_unlock(uint32_t *lock);

/* Who waits for one that many want. */
#define WAIT_LOOK 100000000 /* ns; more looks would take the processor from him for whom thousands wait */
#define WAIT_MOST 50
#define WAIT_HANGS 60000000000ULL /* ns */

/*
 * With signals blocked, of what takes microseconds: waits as long as others get it, be they ten thousand. False: one of
 * them has kept it for seconds, stopped by a debugger, or a disk; then nobody waits until he gives it back, or *hangs
 * (ns, CLOCK_MONOTONIC), a minute later.
 */
bool lock_in_turn(uint32_t *lock, uint64_t *hangs);
void unlock_in_turn(uint32_t *lock, uint64_t *hangs);

/* Whether that thread of this process is gone. */
bool thread_is_dead(uint32_t tid);
