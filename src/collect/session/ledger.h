/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The definitions of all objects, in memory that outlives the process which writes them, as long as another one that
 * was forked from it has it mapped:
 *
 *	+--------+------------+------------+------+---------
 *	| used   | definition | definition | ...  | room
 *	+--------+------------+------------+------+---------
 *
 * A walk in the kernel goes through an object only after it was noted here; whoever takes over the rings finds what
 * the stacks in them refer to.
 */
#include <stdint.h>

#include "trace/record.h"

struct spoor_ledger;

int spoor_ledger_new(struct spoor_ledger **ret);
void spoor_ledger_free(struct spoor_ledger *l);
/* Appends it; of several with one id the last counts. Not thread-safe. Without room nothing happens. */
void spoor_ledger_note(struct spoor_ledger *l, const struct spoor_object *def);
/* All that is there, in order. By any process that has it. */
void spoor_ledger_each(const struct spoor_ledger *l, void (*each)(void *ctx, const struct spoor_object *def),
		       void *ctx);
