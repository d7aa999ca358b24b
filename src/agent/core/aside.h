/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * Events of signal handlers that stand over SPOOR_LEVELS half-written ones, however deep. Packets for each level would
 * be kept from all others by one thread; so such an event is written into a draft, and goes to a packet when it is
 * committed. That is of one more level, which is used with signals blocked only: nobody is in the midst of an event
 * there. Like all drafts it is stamped then.
 */
#include "agent/core/output.h"

/* Where to write a record for s, its head included. NULL: no memory. With the thread's signals blocked. */
char *aside_begin(const struct slot *s, uintptr_t sp);

/* Whether `at` is within such a record of this thread. */
bool aside_holds(const char *at);

/* The record ends at at + size. False: it is none of these. Async-signal-safe. */
bool aside_commit(const char *at, size_t size);
