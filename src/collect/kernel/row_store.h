/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Puts objects' rows where the kernel walker finds them: rules into one dictionary that all objects share, rows into
 * 64 KiB chunks that are created by need. Rows are never taken away during a recording. Not thread-safe.
 */
#include "collect/kernel/kernel.h"
#include "object/identity.h"
#include "unwind/rows.h"

struct spoor_row_store;

int spoor_row_store_new(struct spoor_kernel *k, uint64_t max_bytes, struct spoor_row_store **ret);
void spoor_row_store_free(struct spoor_row_store *s);

/*
 * Loads rows and makes object `id` known to walks, by this state: READY (with rows), NO_ROWS, FAILED or MADE. identity
 * gives the loads (may be NULL). Returns 0, or -ENOSPC when the memory for rows is used up: walks then end in the
 * object.
 */
int spoor_row_store_publish(struct spoor_row_store *s, uint32_t id, const struct spoor_object_identity *identity,
			    const struct spoor_rows *rows, enum spoor_object_state state, bool app, unsigned limit);
uint64_t spoor_row_store_bytes(const struct spoor_row_store *s);
