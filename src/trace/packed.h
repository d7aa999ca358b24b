/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The files that were packed into a trace, so that it opens on another machine: NAME.spoor/objects/
 *
 *   HASH[.zst]            an object, named by the hash of its content: it proves itself
 *   HASH.debug[.zst]      that object's separate debugging file
 *   HASH.supplement[.zst] what that one shares with others (dwz)
 *   perf-PID.map[.zst]    what a just-in-time compiler said of its code
 *
 * All but objects count only if the manifest lists them, with the hash of their content. Not thread-safe.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum spoor_packed_kind { SPOOR_PACKED_OBJECT, SPOOR_PACKED_DEBUG, SPOOR_PACKED_SUPPLEMENT, SPOOR_PACKED_JIT };

struct spoor_packed_name {
	enum spoor_packed_kind kind;
	uint64_t hash[2]; /* of the object: low, high */
	uint32_t pid;     /* of a JIT map */
};

struct spoor_packed;
/* root: the directory that holds the manifest. Succeeds also if nothing is packed. */
int spoor_packed_open(const char *root, struct spoor_packed **ret);
void spoor_packed_close(struct spoor_packed *p);

/*
 * *ret_fd: the content, whole and unpacked; the caller closes it. ret_hash: XXH3-128 of it, low, high.
 * -ENOENT: it was not packed. -EBADMSG: it is not what was packed: damaged, or listed and not there.
 */
int spoor_packed_get(struct spoor_packed *p, const struct spoor_packed_name *name, int *ret_fd, uint64_t ret_hash[2]);

/* For adding: the directory is made, and locked against another one who adds. -EBUSY: somebody does. */
int spoor_packed_begin(const char *root, struct spoor_packed **ret, struct spoor_error *e);

/*
 * Packs what fd holds from its begin, compressed if that helps; what had that name is replaced. expected: its hash, or
 * NULL; -ESTALE: it has another one, and nothing was packed. path: where it comes from, for the manifest. Listed only
 * after save().
 */
int spoor_packed_add(struct spoor_packed *p, const struct spoor_packed_name *name, int fd, const uint64_t expected[2],
		     const char *path, uint64_t *ret_size, uint64_t *ret_stored, struct spoor_error *e);

/* Lists all in the manifest. */
int spoor_packed_save(struct spoor_packed *p, struct spoor_error *e);
