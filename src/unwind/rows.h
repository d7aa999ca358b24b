/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The row compiler: an ELF file's .eh_frame (or .debug_frame, .gopclntab, or nothing) -> row table.
 * Input is untrusted. Everything here bounds its work by the file's size.
 */
#include <stddef.h>

#include "base/error.h"
#include "unwind/row.h"

enum spoor_rows_source { SPOOR_ROWS_NOTHING, SPOOR_ROWS_EH_FRAME, SPOOR_ROWS_DEBUG_FRAME, SPOOR_ROWS_GOPCLNTAB };

struct spoor_rows {
	struct spoor_row_table table; /* points into mem */
	enum spoor_rows_source source;
	__u32 n_fdes;
	__u32 n_unsupported; /* rows whose rule has a shape we do not know: they are NONE rows */
	void *mem;
	size_t mem_size; /* mem is mmapped */
};

/*
 * Compiles the ELF image [image, image+size) in this process.
 * Returns 0, -ENOEXEC (no ELF of this machine), -ENODATA (no unwind information), -EBADMSG (damaged), -ENOMEM.
 * On success the caller owns *ret_rows: spoor_rows_free(). Thread-safe.
 */
int spoor_rows_compile(const void *image, size_t size, struct spoor_rows *ret_rows, struct spoor_error *e);
void spoor_rows_free(struct spoor_rows *rows);

/* The rule for address vaddr (pass pc-1 for a return address). Returns a pointer into the table, never NULL. */
const struct spoor_rule *spoor_row_lookup(const struct spoor_row_table *t, __u64 vaddr);

/*
 * The compiler service: a child process without privileges (own user where possible, no_new_privs, seccomp,
 * rlimits) that compiles strangers' files. One request at a time; not thread-safe.
 *
 * spoor_rowd_get(): rows for an open file. Looks in the disk cache first (key: content hash), asks the child
 * otherwise, and stores what it made. identity is filled in any case where the file could be read.
 */
struct spoor_object_identity; /* object/identity.h */
struct spoor_rowd;
int spoor_rowd_start(const char *cache_dir, struct spoor_rowd **ret, struct spoor_error *e); /* NULL: no cache */
int spoor_rowd_get(struct spoor_rowd *d, int fd, struct spoor_object_identity *ret_identity,
		   struct spoor_rows *ret_rows, struct spoor_error *e);
void spoor_rowd_stop(struct spoor_rowd *d);
