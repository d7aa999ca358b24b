/* SPDX-License-Identifier: LGPL-2.1-or-later OR GPL-2.0-only */
#pragma once
/*
 * A row table as one piece of bytes: what the compiler makes, what its child process hands over, what the cache
 * stores, and what traced programs get from their recorder. All numbers are little-endian; every part begins at a
 * multiple of 8.
 *
 *   +--------+-------------------+-----------------+----------------+
 *   | header | pages: n_pages x 8 | rules: n_rules x 8 | rows: n_rows x 4 |
 *   +--------+-------------------+-----------------+----------------+
 *
 * A file with error != 0 has nothing after the header: the object has no rows, and that is worth remembering too.
 */
#include "unwind/row.h"

#define SPOOR_ROW_FILE_MAGIC "SPOORROW"
#define SPOOR_ROW_FILE_VERSION 14 /* any change of header, row, rule or of what the compiler makes */
#define SPOOR_ROW_FILE_MAX_PAGES 65535
#define SPOOR_ROW_FILE_MAX_RULES 65536
#define SPOOR_ROW_FILE_MAX_SIZE (256 << 20)

struct spoor_row_file {
	char magic[8];
	__u32 version;
	__u32 header_size;
	__u64 size;     /* of the whole */
	__u64 checksum; /* XXH3-64 of the whole with this field 0 */
	__u64 object_hash[2];
	__u64 object_size;
	__u64 text_base;
	__u32 n_pages, n_rules, n_rows;
	__u32 source;
	__u32 n_fdes, n_unsupported;
	__u32 error; /* 0, ENODATA, EBADMSG: what compiling gave */
	__u32 pad;
};
_Static_assert(sizeof(struct spoor_row_file) == 96, "");
