/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <stdbool.h>

#include "base/error.h"

/* Names the capabilities without which nothing can be recorded, if they are missing: -EPERM. */
int spoor_privileges_check(struct spoor_error *e);

/*
 * Gives up, for good, every capability that a recording under way does not need. Kept: those for BPF maps and
 * iterators, for reading targets' memory, mappings and files; with keep_admin also CAP_SYS_ADMIN, without which the
 * kernel does not count programs' run time (--overhead). Does nothing where there is nothing to give up.
 */
void spoor_privileges_drop(bool keep_admin);

/*
 * The calling thread, and what it starts from here on, comes before others that want a CPU, where that is allowed: it
 * works for microseconds, and events that it takes too late are lost. Not for the command, which is started before.
 */
void spoor_privileges_hurry(void);
