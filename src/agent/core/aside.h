/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * Events that find no packet to be written in: of signal handlers that stand over SPOOR_PACKET_LEVELS half-written
 * ones, however deep (packets for each level would be kept from all others by one thread), and of threads that find
 * none of their own. They are written into a draft, and go to a packet when they are committed, with signals blocked:
 * the first ones to that of one more level, in the midst of which nobody ever is, the others to the shared packet. So
 * nothing of the program's is read with its signals blocked or under a lock: it may fault, and the program's handler
 * make it good. Like all drafts they are stamped then.
 */
#include "agent/core/output.h"

/*
 * Where to write a record for s, its head included; deep: of a handler too deep for packets. NULL: no memory, and
 * others have all drafts. With the thread's signals blocked.
 */
char *aside_begin(const struct slot *s, uintptr_t sp, bool deep);

/* The record ends at at + size, if it is one of these and still this thread's. Async-signal-safe. */
void aside_commit(const char *at, size_t size);
