/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * An event of which it is not known yet where it goes, if anywhere (it is for several sessions or channels, or has a
 * filter), is written into its thread's draft first and copied from there: so it costs no buffer's room before it has
 * passed. Each block of producers has a draft; threads without a block of their own have some together. Records that
 * find no packet lie there meanwhile, too (aside.h): of deep handlers in their block's, others in those in common, or,
 * where these are taken, in their block's.
 *
 * Blocks lie in chunks of which some are of no use: drafts get their addresses by 16, and memory as they are touched.
 */
#include "agent/core/producer.h"

/* Where to write a record of at most RESERVE_MOST bytes, its head included. NULL: there is none. Async-signal-safe. */
char *draft_begin(const struct caller *site);

/* The same for a record that is aside. With the thread's signals blocked. */
char *draft_begin_aside(uintptr_t sp, const struct aside *aside, bool deep);

/* If `at` is within such a record of this thread: what it is for, and where it begins; else NULL. */
const struct aside *draft_aside(const char *at, char **ret_begin);

/* If at is this thread's draft and still its event's: where its site is; else NULL. */
const struct caller *draft_site(const char *at);
void draft_end(const char *at);
