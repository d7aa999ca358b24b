/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#include <stdbool.h>

#include "agent/core/producer.h"
#include <spoor/site.h>

#define RESERVE_MOST (8191 * 8) /* bytes of a record */

/* What a tracepoint's `reserve` points to while it is recorded; size: of the record, a multiple of 8, head included. */
struct spoor_handle reserve_tsc(struct spoor_tracepoint *tp, size_t size, const void *site);
struct spoor_handle reserve_monotonic(struct spoor_tracepoint *tp, size_t size, const void *site);
/* While it is not (its probes alone are called, or it is being switched off). */
struct spoor_handle reserve_nothing(struct spoor_tracepoint *tp, size_t size, const void *site);

/* This thread's block, which it gives back at its end. NULL: no memory. With its signals blocked. */
struct block *reserve_enter(void);

/*
 * When the library begins: threads give their packets back when they end. Later there may be no key whose values are
 * stored without memory that is to be allocated, which an event in a signal handler must not do.
 */
void reserve_init(void);

/* This thread shares its thread-local storage with another one. */
void reserve_share_thread(void);
