/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Names the capabilities without which nothing can be recorded, if they are missing: -EPERM. */
int spoor_privileges_check(struct spoor_error *e);

/*
 * Gives up, for good, every capability that a recording under way does not need. Kept: those for BPF maps and
 * iterators, for reading targets' memory, mappings and files; and those of `also`, a bit for each: CAP_SYS_ADMIN,
 * without which the kernel does not count programs' run time (--overhead), CAP_DAC_OVERRIDE for snapshots beside a
 * trace in a directory of somebody else's, CAP_SYS_NICE for spoor_privileges_at_once().
 * Does nothing where there is nothing to give up.
 */
void spoor_privileges_drop(uint64_t also);

/* Gives up all of them, for good. */
void spoor_privileges_drop_all(void);

/*
 * The calling thread comes before others that want a CPU, where that is allowed. `at_once`: before all that have no
 * real-time priority, for who empties the rings: it works for a few per cent of the time, but on a busy machine a fair
 * scheduler lets it wait for seconds, and what the rings cannot hold so long is lost. What it starts inherits nothing
 * of that.
 */
void spoor_privileges_hurry(bool at_once);

/* The calling thread, and what it starts meanwhile, does so until it is told otherwise, where that is allowed. */
void spoor_privileges_at_once(bool on);

/*
 * The calling thread gets ten times the share of others until it is put back to what this returns: what is a second's
 * work takes eight of a fair share where sixteen threads of its session want to run (of others, where the kernel groups
 * tasks by session, it has its session's share), and 1.3 so. Not more than that, which would be a whole CPU: several
 * recorders that begin would let nobody else run. INT_MAX: not allowed, and nothing changed.
 */
int spoor_privileges_ahead(void);
void spoor_privileges_back(int nice);
