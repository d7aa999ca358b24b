/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Signals of a process that records, and as it began with them. Not thread-safe. */
#include <stdbool.h>

#include "base/error.h"

/*
 * First of all. Ended children are to be waited for: who ignores SIGCHLD makes what he executes ignore it, and then
 * they vanish by themselves.
 */
void spoor_signals_begin(void);

/*
 * Who collects is not ended by a write: that a file may not grow further (SIGXFSZ, of ulimit -f), or that who read what
 * is said has left (SIGPIPE), is an error of the call, as a full disk is. For what a child executes it is as it was.
 */
void spoor_signals_survive(int of_write);

/*
 * Blocks what ends a recording (SIGINT, SIGTERM, and SIGHUP but under nohup(1)), SIGCHLD, and `other` (0: none).
 * Returns a signalfd of these, which is the caller's, or -errno.
 */
int spoor_signals_watch(int other, struct spoor_error *e);

/*
 * The same for who serves until he is told to end, without SIGCHLD. A peer that is gone is an error of a call, not a
 * signal: SIGPIPE is ignored.
 */
int spoor_signals_serve(struct spoor_error *e);

/* Of those that are blocked, does one that ends it wait to be read? */
bool spoor_signals_told_to_end(void);

/* As they were at the beginning: for what a child executes. */
void spoor_signals_restore(void);
