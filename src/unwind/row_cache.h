/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The disk cache: one file an object, named by the hash of its content, readable only by us. A file that belongs to
 * somebody else, that others may write, or that is damaged is as good as absent.
 */
#include "object/identity.h"
#include "unwind/row_file.h"

/* Makes the directory when it is missing (its parent must be there). Returns its fd or -errno. */
int spoor_row_cache_open(const char *dir, struct spoor_error *e);
/* Returns 0 (rows are the caller's), the remembered error of this object, or -ENOENT. */
int spoor_row_cache_get(int dir, const struct spoor_object_identity *id, struct spoor_rows *ret);
/* The new file appears whole or not at all. 0 or -errno. */
int spoor_row_cache_put(int dir, const struct spoor_object_identity *id, const void *file, size_t size);
