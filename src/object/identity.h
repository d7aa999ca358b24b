/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Who an object is: build-id AND content hash. A build-id is chosen by whoever made the file; rows, symbols and
 * caches are keyed by the content hash, so that one file never poisons another's.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct spoor_image; /* object/image.h */

#define SPOOR_BUILD_ID_MAX 32
#define SPOOR_MAX_LOADS 8

/* An executable PT_LOAD: file bytes [offset, offset+filesz) are seen at vaddr. */
struct spoor_load {
	uint64_t offset, filesz, vaddr;
};

struct spoor_object_identity {
	uint64_t hash[2]; /* XXH3-128 of the whole file: low, high */
	uint64_t size;
	uint8_t build_id[SPOOR_BUILD_ID_MAX];
	uint8_t build_id_len;
	uint8_t is_elf; /* x86-64 ELF */
	uint8_t n_loads;
	struct spoor_load loads[SPOOR_MAX_LOADS]; /* executable ones, in file order */
};

/*
 * Reads an open regular file. Returns 0 (also when it is no ELF: is_elf = 0) or -errno; -EFBIG above 4 GiB.
 * Thread-safe.
 */
int spoor_object_identify(int fd, struct spoor_object_identity *ret, struct spoor_error *e);
/* The same for an image already in memory. */
int spoor_object_identify_mem(const void *image, size_t size, struct spoor_object_identity *ret);
/* Its build-id alone: returns the length, or -ENOENT. */
int spoor_object_build_id(const struct spoor_image *image, uint8_t ret_id[static SPOOR_BUILD_ID_MAX]);
/* File offset -> ELF virtual address by the executable loads; 0 or -ENOENT. */
int spoor_object_vaddr(const struct spoor_object_identity *id, uint64_t file_offset, uint64_t *ret_vaddr);
