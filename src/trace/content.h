/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Bytes on their way from one file to another, hashed as they pass: as they are, into zstd, or out of it. */
#include <stdint.h>

struct spoor_content {
	uint64_t hash[2]; /* XXH3-128 of the content: low, high */
	uint64_t size;    /* bytes of content */
	uint64_t stored;  /* bytes written */
};

/*
 * All read `from` where it stands to its end, and write at the end of what was written to `to`. -EFBIG: the content has
 * more than max bytes; then and after other failures, part of it was written.
 */
int spoor_content_hash(int from, uint64_t max, struct spoor_content *ret);
int spoor_content_copy(int from, int to, uint64_t max, struct spoor_content *ret);
int spoor_content_pack(int from, int to, uint64_t max, struct spoor_content *ret);
/* -EBADMSG: no zstd, or damaged. */
int spoor_content_unpack(int from, int to, uint64_t max, struct spoor_content *ret);
