/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Locks that are the tid of who holds them, 0 of nobody: one whose thread has ended is free. Async-signal-safe. */
#include "agent/core/sys.h"

/* In memory that fork wipes; waits without end. False: this thread has it already. */
bool tid_lock(uint32_t *lock);
bool tid_trylock(uint32_t *lock);
void tid_unlock(uint32_t *lock);

/*
 * With signals blocked, of what takes microseconds: waits as long as others get it, be they ten thousand. False: one of
 * them has kept it for more than twice that time; a debugger stopped him, or his disk. (To look again sooner takes the
 * processor from those for whom thousands wait.)
 */
bool lock_in_turn(uint32_t *lock, uint64_t patience_ns);
void unlock_in_turn(uint32_t *lock);

/* Whether that thread of this process is gone. */
bool thread_is_dead(uint32_t tid);
