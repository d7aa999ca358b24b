/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a trace's closed segments say to whoever goes on with it, so that a writer that is started again and again reads
 * what came since the last time and not all of the trace. In HOST/ust, replaced by a rename:
 *
 *   .checkpoint:  0       8            24      32
 *                 +-------+------------+-------+------------------------------------------------+
 *                 | magic | trace uuid | XXH3  | records of a digest (digest.h), without the    |
 *                 |       |            | of -> | manifest: ids, segments, streams, classes,     |
 *                 |       |            |       | sources                                        |
 *                 +-------+------------+-------+------------------------------------------------+
 *
 * A relay keeps one likewise, for the digests that it makes (digest.c).
 *
 * A closed segment does not change any more, it can only go. Without a checkpoint, or with one that does not hold, all
 * segments are read: nothing depends on it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "trace/digest.h"
#include "trace/writer_internal.h"

#define NAME ".checkpoint"
#define NEW_NAME ".checkpoint.new"
#define MAGIC 0x316b636568637073ULL /* "spcheck1" */
#define MOST_BYTES (256 << 20)

struct head {
	uint64_t magic;
	uint8_t uuid[16];
	uint64_t hash;
};
_Static_assert(sizeof(struct head) == 32, "");

/* ---- reading ---- */

static int read_file(const struct spoor_writer *w, void **ret, size_t *ret_len)
{
	_cleanup_(spoor_closep) int fd = openat(w->ust->fd, NAME, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_(spoor_freep) char *bytes = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(struct head) || st.st_size > MOST_BYTES)
		return -EBADMSG;
	bytes = malloc(st.st_size);
	if (!bytes)
		return -ENOMEM;
	if (pread(fd, bytes, st.st_size, 0) != st.st_size)
		return -EIO;
	*ret = TAKE_PTR(bytes);
	*ret_len = st.st_size;
	return 0;
}

static int check(const struct spoor_writer *w, const void *bytes, size_t len)
{
	struct head h;

	memcpy(&h, bytes, sizeof(h));
	if (h.magic != MAGIC || memcmp(h.uuid, w->uuid, sizeof(h.uuid)))
		return -ESTALE;
	return h.hash == XXH3_64bits((const uint8_t *)bytes + sizeof(h), len - sizeof(h)) ? 0 : -EBADMSG;
}

/* Those that somebody removed since, or that we were about to remove. */
static void leave_out_gone(struct spoor_writer *w)
{
	unsigned n = 0;

	for (unsigned i = 0; i < w->n_closed; i++) {
		char name[SPOOR_SEGMENT_NAME], hidden[SPOOR_SEGMENT_NAME];

		spoor_segment_names(w->ust->closed[i].number, name, hidden);
		if (!faccessat(w->ust->fd, name, F_OK, AT_SYMLINK_NOFOLLOW))
			w->ust->closed[n++] = w->ust->closed[i];
	}
	w->n_closed = n;
}

/* As if nothing had been taken. */
static void take_back(struct spoor_writer *w)
{
	struct writer_part *p = w->ust;

	for (unsigned i = 0; i < w->n_classes; i++)
		free(w->classes[i]);
	w->n_classes = w->n_closed = w->n_begun = 0;
	spoor_source_list_done(&w->sources);
	w->last_stack = w->least_object = 0;
	p->metadata_len = p->shared_len;
	for (unsigned i = 0; i < p->n_streams + 2; i++) {
		struct writer_stream *s = i < 2 ? &p->defs[i] : &p->streams[i - 2];

		s->seq = s->before = s->discarded = s->last_ts = 0;
	}
}

int spoor_checkpoint_load(struct spoor_writer *w)
{
	_cleanup_(spoor_freep) void *bytes = NULL;
	const uint8_t *records;
	size_t len = 0;

	if (read_file(w, &bytes, &len) < 0 || !bytes || check(w, bytes, len) < 0)
		return 0;
	records = (const uint8_t *)bytes + sizeof(struct head);
	len -= sizeof(struct head);
	if (spoor_digest_take(w, records, len) < 0 ||
	    spoor_digest_sources(records, len, spoor_source_list_add, &w->sources) < 0) {
		take_back(w);
		return 0;
	}
	leave_out_gone(w);
	w->checkpoint_len = len + sizeof(struct head);
	return 1;
}

/* ---- writing ---- */

static int compose(struct spoor_digest_text *d, const struct spoor_writer *w)
{
	int r = spoor_digest_add_parts(d, w);

	return r < 0 ? r : spoor_digest_add(d, SPOOR_DIGEST_END, NULL, 0);
}

static int write_file(const struct spoor_writer *w, const struct spoor_digest_text *d)
{
	_cleanup_(spoor_closep) int fd =
		openat(w->ust->fd, NEW_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct head h = { .magic = MAGIC, .hash = XXH3_64bits(d->bytes, d->len) };
	struct iovec iov[] = { { &h, sizeof(h) }, { d->bytes, d->len } };
	int r;

	if (fd < 0)
		return -errno;
	memcpy(h.uuid, w->uuid, sizeof(h.uuid));
	r = spoor_write_at(fd, 0, iov, 2);
	if (r >= 0 && renameat(w->ust->fd, NEW_NAME, w->ust->fd, NAME) < 0)
		r = -errno;
	return r;
}

void spoor_checkpoint_save(struct spoor_writer *w)
{
	_cleanup_(spoor_digest_text_done) struct spoor_digest_text d = {};

	if (compose(&d, w) >= 0 && write_file(w, &d) >= 0)
		w->checkpoint_len = d.len + sizeof(struct head);
	else
		unlinkat(w->ust->fd, NEW_NAME, 0); /* what an older one does not tell of is read */
}

void spoor_checkpoint_forget(struct spoor_writer *w)
{
	unlinkat(w->ust->fd, NAME, 0);
	unlinkat(w->ust->fd, NEW_NAME, 0);
	w->checkpoint_len = 0;
}
