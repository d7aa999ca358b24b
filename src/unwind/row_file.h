/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Row tables as files (row_layout.h): what is in them is checked. */
#include "unwind/row_layout.h"
#include "unwind/rows.h"

/* Points ret's table into the file at mem. Checks every index. 0 or -EBADMSG; ret->mem is mem then. */
int spoor_row_file_open(void *mem, size_t size, struct spoor_rows *ret);

struct spoor_object_identity;
/*
 * What an opened file says about this object: 0, the object's own error (-ENODATA, -ENOEXEC, -EBADMSG), or -ESTALE
 * when it was made of another object.
 */
int spoor_row_file_answer(const struct spoor_rows *rows, const struct spoor_object_identity *id);

__u64 spoor_row_file_checksum(const struct spoor_row_file *file, size_t size);

/*
 * A copy in memory that nobody can change, for other processes to map: a sealed memfd, or -errno. rows came of
 * spoor_rowd_get() or spoor_rows_compile().
 */
int spoor_row_file_share(const struct spoor_rows *rows);
