/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Segments of a trace being written: their directories, the hand-over from one to the next, and dropping old ones. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "trace/writer_internal.h"

static int write_metadata(const struct writer_part *p, int dir_fd)
{
	_cleanup_(spoor_closep) int fd = openat(dir_fd, "metadata", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : spoor_write_at(fd, 0, &(struct iovec){ p->metadata, p->metadata_len }, 1);
}

/* It is the same text in every segment, so they share one inode where the file system can. */
static int put_metadata(const struct writer_part *p, struct writer_segment *s)
{
	if (p->current && linkat(p->current->fd, "metadata", s->fd, "metadata", 0) == 0)
		return 0;
	s->bytes = p->current ? p->metadata_len : 0; /* the first is shared, and counted for all */
	return write_metadata(p, s->fd);
}

void spoor_segment_free(struct writer_segment *s)
{
	if (!s)
		return;
	if (s->fd >= 0)
		close(s->fd);
	free(s->buf);
	spoor_stack_set_done(&s->stacks);
	free(s);
}

static void segment_freep(struct writer_segment **s)
{
	spoor_segment_free(*s);
}

/*
 * A segment under its own name has its metadata: it is filled and removed under a hidden one, which no reader of ours
 * and no copy by "*" sees.
 */
void spoor_segment_names(unsigned number, char *ret_name, char *ret_hidden)
{
	snprintf(ret_name, SPOOR_SEGMENT_NAME, "seg-%06u", number);
	snprintf(ret_hidden, SPOOR_SEGMENT_NAME, ".seg-%06u", number);
}

static void remove_segment(struct spoor_writer *w, const struct writer_part *p, unsigned number)
{
	if (w->o.store)
		w->o.store->ops->drop(w->o.store, p->stream_id, number);
	else
		spoor_segment_remove(p->fd, number);
}

static int create_stored(struct spoor_store *store, const struct writer_part *p, struct writer_segment *s)
{
	int r = store->ops->segment(store, p->stream_id, s->number);

	if (r >= 0)
		r = store->ops->metadata(store, p->stream_id, s->number, 0, p->metadata, p->metadata_len);
	if (r >= 0)
		r = store->ops->ready(store, p->stream_id, s->number);
	s->bytes = p->current ? p->metadata_len : 0;
	return r;
}

static int create_here(const struct writer_part *p, struct writer_segment *s)
{
	char name[SPOOR_SEGMENT_NAME], hidden[SPOOR_SEGMENT_NAME];
	int r;

	spoor_segment_names(s->number, name, hidden);
	/* A try that failed on a full disk left the directory behind; a writer that was killed its metadata, too. */
	if (mkdirat(p->fd, hidden, 0700) < 0 && errno != EEXIST)
		return -errno;
	s->fd = openat(p->fd, hidden, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (s->fd < 0)
		return -errno;
	unlinkat(s->fd, "metadata", 0);
	r = put_metadata(p, s);
	if (r >= 0 && renameat(p->fd, hidden, p->fd, name) < 0)
		r = -errno;
	return r;
}

static int create(struct spoor_writer *w, struct writer_part *p, struct writer_segment **ret, struct spoor_error *e)
{
	_cleanup_(segment_freep) struct writer_segment *s = calloc(1, sizeof(*s));
	int r = 0;

	if (!s)
		return spoor_fail(e, ENOMEM, "%s: out of memory", w->path);
	s->fd = -1;
	s->number = w->n_begun + 1;
	s->ts_begin = UINT64_MAX;
	s->defs = &p->defs[s->number & 1];
	if (p->stream_id == SPOOR_STREAM_UST)
		r = spoor_classes_repeat(w, s);
	if (r >= 0)
		r = w->o.store ? create_stored(w->o.store, p, s) : create_here(p, s);
	if (r < 0) {
		remove_segment(w, p, s->number);
		return spoor_fail(e, -r, "%s: cannot create segment seg-%06u: %s", w->path, s->number, strerror(-r));
	}
	*ret = TAKE_PTR(s);
	return 0;
}

static void drop_new(struct spoor_writer *w, struct writer_segment **new)
{
	for (unsigned i = 0; i < w->n_parts; i++) {
		if (new[i])
			remove_segment(w, &w->parts[i], new[i]->number);
		spoor_segment_free(new[i]);
	}
}

int spoor_segments_create(struct spoor_writer *w, struct spoor_error *e)
{
	struct writer_segment *new[SPOOR_MAX_PARTS] = {};

	for (unsigned i = 0; i < w->n_parts; i++) {
		int r = create(w, &w->parts[i], &new[i], e);

		if (r < 0) {
			drop_new(w, new);
			return r;
		}
	}
	for (unsigned i = 0; i < w->n_parts && new[i]; i++) {
		struct writer_part *p = &w->parts[i];

		p->previous = p->current;
		p->current = new[i];
		p->current->defs->segment = p->current;
	}
	w->n_begun++;
	return 0;
}

/* Definitions, and on the kernel's side what its iterators tell (their level's streams have nothing else). */
static uint64_t bytes_told(const struct writer_part *p)
{
	uint64_t bytes = p->current->buf_len + p->current->defs->file_size;

	for (unsigned i = 0; i < p->n_streams; i++)
		if (p->streams[i].level && p->streams[i].segment == p->current)
			bytes += p->streams[i].file_size;
	return bytes;
}

void spoor_writer_repeated(struct spoor_writer *w)
{
	for_each_part(p, w)
		p->current->repeated = bytes_told(p);
}

/* Where what is told anew takes much of max_size, two of full size and what comes meanwhile would not fit. */
static uint64_t full_size(const struct spoor_writer *w, uint64_t repeated)
{
	uint64_t most = w->o.max_size, full = w->o.segment_size;

	return most && (repeated > most / 4 || full + 2 * repeated > most - most / 8) ? full / 4 : full;
}

/* What each segment is told anew counts for none, or with many threads one would be full as it begins. */
int spoor_writer_should_rotate(const struct spoor_writer *w, uint64_t now_ns)
{
	uint64_t begin = UINT64_MAX, bytes = 0, repeated = 0;

	if (w->parts[0].previous)
		return 0;
	for_each_part(p, w) {
		if (p->current->ts_begin < begin)
			begin = p->current->ts_begin;
		if (p->current->bytes > p->current->repeated)
			bytes += p->current->bytes - p->current->repeated;
		repeated += p->current->repeated;
	}
	if (begin == UINT64_MAX)
		return 0;
	if (w->o.segment_size && bytes >= full_size(w, repeated))
		return 1;
	return w->o.segment_ns && now_ns > begin && now_ns - begin >= w->o.segment_ns;
}

int spoor_writer_segment_begin(struct spoor_writer *w, struct spoor_error *e)
{
	int r;

	if (w->parts[0].previous)
		return spoor_fail(e, EBUSY, "%s: the last rotation has not ended yet", w->path);
	r = spoor_segments_create(w, e);
	if (r >= 0) /* it has begun: what the manifest lacks now (a full disk, say) its end writes */
		spoor_manifest_write(w, 0, NULL);
	return r;
}

/* Several may be dropped at once. */
unsigned spoor_writer_lasting(const struct spoor_writer *w)
{
	unsigned oldest = w->n_closed ? w->parts[0].closed[0].number : w->n_begun;

	return w->o.max_size ? w->n_begun - (w->n_begun - oldest) / 4 : 0;
}

/* Its metadata goes first, so that no reader of CTF, to which a hidden name is one like others, takes half of it. */
void spoor_segment_remove(int part_fd, unsigned number)
{
	char name[SPOOR_SEGMENT_NAME], hidden[SPOOR_SEGMENT_NAME];
	const char *at = hidden;
	DIR *d;
	int fd;

	spoor_segment_names(number, name, hidden);
	if (renameat(part_fd, name, part_fd, hidden) < 0 && errno != ENOENT)
		at = name;
	fd = openat(part_fd, at, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return;
	unlinkat(fd, "metadata", 0);
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return;
	}
	for (struct dirent *de = readdir(d); de; de = readdir(d))
		if (strcmp(de->d_name, ".") && strcmp(de->d_name, ".."))
			unlinkat(fd, de->d_name, 0);
	closedir(d);
	unlinkat(part_fd, at, AT_REMOVEDIR);
}

/* While the manifest is replaced there are two. */
static uint64_t bytes_on_disk(const struct spoor_writer *w)
{
	return spoor_writer_bytes(w) + 2 * w->manifest_len + w->checkpoint_len;
}

static uint64_t closed_bytes(const struct spoor_writer *w, unsigned i)
{
	uint64_t bytes = 0;

	for_each_part(p, w)
		bytes += p->closed[i].bytes;
	return bytes;
}

/* How many of the oldest closed segments are too many if so many bytes come. */
static unsigned count_surplus(const struct spoor_writer *w, uint64_t more)
{
	uint64_t bytes = bytes_on_disk(w) + more;
	unsigned n = 0;

	while (w->o.max_size && bytes > w->o.max_size && n < w->n_closed)
		bytes -= closed_bytes(w, n++);
	return n;
}

static void forget_oldest(struct spoor_writer *w, unsigned n)
{
	for_each_part(p, w) {
		for (unsigned i = 0; i < n; i++) {
			w->closed_bytes -= p->closed[i].bytes;
			p->dropped_bytes += p->closed[i].bytes;
		}
		memmove(p->closed, p->closed + n, (w->n_closed - n) * sizeof(*p->closed));
	}
	w->n_dropped += n;
	w->n_closed -= n;
}

/* The manifest forgets them before they are removed: it never names what is not there. */
static int drop_oldest(struct spoor_writer *w, unsigned n, struct spoor_error *e)
{
	unsigned numbers[64];
	int r;

	if (n > 64)
		n = 64;
	for (unsigned i = 0; i < n; i++)
		numbers[i] = w->parts[0].closed[i].number;
	forget_oldest(w, n);
	r = spoor_manifest_write(w, 0, e);
	/* Also when that failed for want of space: removing is what gives some back. */
	for_each_part(p, w)
		for (unsigned i = 0; i < n; i++)
			remove_segment(w, p, numbers[i]);
	return spoor_is_full(r) ? spoor_manifest_write(w, 0, e) : r;
}

int spoor_segments_make_room(struct spoor_writer *w, uint64_t bytes, struct spoor_error *e)
{
	unsigned n;

	if (w->o.max_size && bytes_on_disk(w) - w->closed_bytes + bytes > w->o.max_size)
		return 0; /* dropping all of them would not help */
	while ((n = count_surplus(w, bytes))) {
		int r = drop_oldest(w, n, e);

		if (r < 0)
			return r;
	}
	return 1;
}

static int make_closed_room(struct spoor_writer *w)
{
	for_each_part(p, w) {
		struct writer_segment *closed = reallocarray(p->closed, w->n_closed + 1, sizeof(*closed));

		if (!closed)
			return -ENOMEM;
		p->closed = closed;
	}
	return 0;
}

static int close_previous(struct spoor_writer *w, struct writer_part *p, struct spoor_error *e)
{
	struct writer_segment *s = p->previous;
	int r = spoor_definitions_flush(w, s, e);

	spoor_stream_leave(s->defs);
	p->closed[w->n_closed] = (struct writer_segment){
		.number = s->number,
		.fd = -1,
		.bytes = s->bytes,
		.stream_bytes = s->stream_bytes,
		.ts_begin = s->ts_begin,
		.ts_end = s->ts_end,
	};
	w->closed_bytes += s->bytes;
	p->previous = NULL;
	spoor_segment_free(s);
	return r;
}

int spoor_writer_segment_end(struct spoor_writer *w, struct spoor_error *e)
{
	int r = 0, r2;

	if (!w->parts[0].previous)
		return spoor_fail(e, EINVAL, "%s: no rotation is under way", w->path);
	if (make_closed_room(w) < 0)
		return spoor_fail(e, ENOMEM, "%s: out of memory", w->path);
	for (unsigned i = 0; w->kernel && i < w->kernel->n_streams; i++)
		spoor_writer_switch_stream(w, i / SPOOR_MAX_LEVELS, i % SPOOR_MAX_LEVELS);
	spoor_writer_switch_lanes(w);
	for_each_part(p, w) {
		r2 = close_previous(w, p, r < 0 ? NULL : e);
		r = r < 0 ? r : r2;
	}
	spoor_writer_repeated(w);
	w->n_closed++;
	r2 = drop_oldest(w, count_surplus(w, 0), r < 0 ? NULL : e);
	return r < 0 ? r : r2;
}
