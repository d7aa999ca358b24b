/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * Events that are for several channels (of one session or of several) or have a filter: built once, in the thread's
 * draft (draft.h), and copied to each channel that wants them.
 */
#include <spoor/site.h>

/* A tracepoint's `reserve` where that is so, and the ops' commit. */
struct spoor_handle reserve_draft(struct spoor_tracepoint *tp, size_t size, const void *site);
void commit_called(struct spoor_tracepoint *tp, char *at, size_t size);
