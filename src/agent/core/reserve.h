/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#include <stdbool.h>

#include <spoor/site.h>

/* What a tracepoint's `reserve` points to while it is recorded; size: of the record, a multiple of 8, head included. */
struct spoor_handle reserve_tsc(struct spoor_tracepoint *tp, size_t size);
struct spoor_handle reserve_monotonic(struct spoor_tracepoint *tp, size_t size);
/* While it is not (its probes alone are called, or it is being switched off). */
struct spoor_handle reserve_nothing(struct spoor_tracepoint *tp, size_t size);

/*
 * Of a record that is to be committed by a call (`at` as its handle had it): where it begins, NULL: it is ours no more;
 * then the end of it, kept or not.
 */
char *reserved_from(struct spoor_tracepoint *tp, char *at);
void reserved_done(struct spoor_tracepoint *tp, char *at, size_t size, bool kept);

/* Once, before the first event: threads then give their packets back when they end. 0 or -errno. */
int reserve_init(void);
