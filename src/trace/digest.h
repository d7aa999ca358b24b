/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What a writer must know of a trace of user events to go on with it, without having it:
 *
 *   record: u32 type, u32 bytes (a multiple of 8, without these 8), then
 *     1 manifest   its text, filled up with NULs
 *     2 segment    struct spoor_digest_segment; oldest first
 *     3 stream     struct spoor_digest_stream: where it stood at its last packet
 *     4 class      struct spoor_class, in the order of ids
 *     5 sources    struct spoor_packet_source[]: what the last packets say of where their events were taken from
 *     6 ids        struct spoor_digest_ids
 *     7 end        nothing: the digest is whole
 *
 * A digest comes from another machine: it is checked in every respect.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trace/schema.h"

enum {
	SPOOR_DIGEST_MANIFEST = 1,
	SPOOR_DIGEST_SEGMENT,
	SPOOR_DIGEST_STREAM,
	SPOOR_DIGEST_CLASS,
	SPOOR_DIGEST_SOURCES,
	SPOOR_DIGEST_IDS,
	SPOOR_DIGEST_END
};

struct spoor_digest_segment {
	uint32_t number, pad;
	uint64_t bytes, stream_bytes, ts_begin, ts_end;
};

struct spoor_digest_stream {
	uint32_t instance, pad;
	uint64_t seq, discarded, last_ts;
};

struct spoor_digest_ids { /* 0: none */
	uint32_t last_stack, least_object;
};

/*
 * The digest of the trace at path, of which nobody writes: torn packets are cut first. Sources: of packets in the last
 * `window` bytes of each stream at least; of those before, what they count, the last word of each program. Notes in the
 * trace what it saw (checkpoint.c), so that the next time it reads what came since, and at most a window more.
 * free() *ret. Errors as of spoor_writer_open() with resume.
 */
int spoor_digest_make(const char *path, const uint8_t boot_id[16], uint64_t window, void **ret, size_t *ret_len,
		      struct spoor_error *e);

/* Calls each() for its sources. -EBADMSG: the digest makes no sense. each() returns 0, or what stops it. */
int spoor_digest_sources(const void *digest, size_t len, int (*each)(const struct spoor_packet_source *source, void *p),
			 void *p);
/* The next record at *at, which is moved behind it. 1: there is one; 0: the end; -EBADMSG. */
int spoor_digest_next(const void *digest, size_t len, size_t *at, uint32_t *ret_type, const void **ret,
		      size_t *ret_len);
