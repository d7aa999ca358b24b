/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Where a writer writes to if not to a directory of its own: what it does to files, as few operations that somebody
 * else carries out later, in the same order (collect/relay/sender.h; trace/replica.h carries them out). Each can be
 * repeated without harm, for it says all that it depends on: which file, and where in it.
 *
 * part: SPOOR_STREAM_KERNEL, SPOOR_STREAM_UST. segment: its number. Nothing waits; what is handed in is copied.
 * 0; -ENOBUFS, of packets only: there is no room for it now, and nothing of it is taken; -EIO: nothing is taken any
 * more.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Beside the manifest of a trace that a relay writes: who may go on with it. */
#define SPOOR_STORE_OWNER ".relay"

struct spoor_store;

struct spoor_store_ops {
	/* A segment, which readers see from ready() on; its metadata, from offset on (none: it ends there). */
	int (*segment)(struct spoor_store *s, unsigned part, unsigned segment);
	int (*metadata)(struct spoor_store *s, unsigned part, unsigned segment, uint64_t offset, const void *text,
			size_t len);
	int (*ready)(struct spoor_store *s, unsigned part, unsigned segment);
	/* A packet of a stream, at the end of its file. */
	int (*packet)(struct spoor_store *s, unsigned part, unsigned segment, unsigned instance, uint64_t offset,
		      const struct iovec *iov, int n);
	int (*manifest)(struct spoor_store *s, const char *text, size_t len);
	int (*drop)(struct spoor_store *s, unsigned part, unsigned segment);
	/* The writer is done; in order: its manifest says so. */
	int (*end)(struct spoor_store *s, int in_order);
};

struct spoor_store {
	const struct spoor_store_ops *ops;
	char host[65]; /* instead of the machine's name; fit for a file's name */
	/* Of a trace that is gone on with: what is there (digest.h). */
	void *digest;
	size_t digest_len;
};
