/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * An event of which it is not known yet where it goes, if anywhere (it is for several sessions or channels, or has a
 * filter), is written into its thread's draft first and copied from there: so it costs no buffer's room before it has
 * passed. Each block of producers has a draft; threads without a block of their own have one together.
 *
 * Blocks lie in chunks of which some are of no use: drafts get their addresses by 16, and memory as they are touched.
 */
#include "agent/core/producer.h"

/*
 * Where to write a record of at most RESERVE_MOST bytes, its head included. NULL: there is none; *ret_deep: because the
 * thread is too deep in signal handlers. Async-signal-safe.
 */
char *draft_begin(const struct caller *site, bool *ret_deep);

/* If at is this thread's draft and still its event's: where its site is; else NULL. */
const struct caller *draft_site(const char *at);
void draft_end(const char *at);
