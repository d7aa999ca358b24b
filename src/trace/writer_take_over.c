/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Going on in place of a writer that was killed, in a process forked from it: who the trace is, is known from then;
 * which segments there are now, and where each stream ends, is taken from what is on disk.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "trace/reader_internal.h"
#include "trace/writer_internal.h"

#define NAME_SIZE 64

static DIR *open_dir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

	if (!d && fd >= 0)
		close(fd);
	return d;
}

/* ---- segments ---- */

static int by_number(const void *a, const void *b)
{
	const struct writer_segment *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

static bool is_stream(const char *name)
{
	return !strcmp(name, "defs") || !strncmp(name, "cpu", 3) || !strncmp(name, "lane", 4);
}

static uint64_t bytes_of(int part_fd, const char *name)
{
	_cleanup_(spoor_closedirp) DIR *d = open_dir(part_fd, name);
	uint64_t bytes = 0;
	struct stat st;

	for (struct dirent *de; d && (de = readdir(d));)
		if (is_stream(de->d_name) && fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			bytes += st.st_size;
	return bytes;
}

/* Those on disk, oldest first, all as if they were closed. */
static int list_segments(struct writer_part *p, unsigned *ret_n)
{
	_cleanup_(spoor_closedirp) DIR *d = open_dir(p->fd, ".");
	unsigned n = 0;

	if (!d)
		return -errno;
	for (struct dirent *de; (de = readdir(d));) {
		struct writer_segment s = { .fd = -1, .ts_begin = UINT64_MAX };
		struct writer_segment *grown;

		if (sscanf(de->d_name, "seg-%9u", &s.number) != 1)
			continue;
		grown = reallocarray(p->closed, n + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		s.bytes = s.stream_bytes = bytes_of(p->fd, de->d_name);
		p->closed = grown;
		p->closed[n++] = s;
	}
	if (n)
		qsort(p->closed, n, sizeof(*p->closed), by_number);
	*ret_n = n;
	return 0;
}

/* What a kill in the middle of a write has left. */
static int cut_torn(int segment_fd)
{
	_cleanup_(spoor_closedirp) DIR *d = open_dir(segment_fd, ".");
	int r = d ? 0 : -errno;

	for (struct dirent *de; r == 0 && (de = readdir(d));) {
		_cleanup_(spoor_closep) int fd = -1;
		uint64_t cut = 0;

		if (!is_stream(de->d_name))
			continue;
		fd = openat(segment_fd, de->d_name, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
		r = fd < 0 ? -errno : spoor_repair_fd(fd, &cut);
	}
	return r;
}

static int reopen(struct writer_part *p, struct writer_segment *closed, struct writer_segment **ret)
{
	struct writer_segment *s = malloc(sizeof(*s));
	char name[NAME_SIZE];
	int r;

	if (!s)
		return -ENOMEM;
	*s = *closed;
	snprintf(name, sizeof(name), "seg-%06u", s->number);
	s->fd = openat(p->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	s->defs = &p->defs[s->number & 1];
	r = s->fd < 0 ? -errno : cut_torn(s->fd);
	s->bytes = s->stream_bytes = closed->bytes = closed->stream_bytes = bytes_of(p->fd, name);
	if (r < 0) {
		spoor_segment_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

/* ---- streams ---- */

static int look_at(struct writer_stream *s, unsigned number, struct spoor_last_packet *ret)
{
	_cleanup_(spoor_closep) int fd = -1;
	char name[NAME_SIZE], path[2 * NAME_SIZE];
	struct spoor_packet last;
	uint64_t at, end;
	struct stat st;

	spoor_stream_name(s, name, sizeof(name));
	snprintf(path, sizeof(path), "seg-%06u/%s", number, name);
	fd = openat(s->part->fd, path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT ? -ENODATA : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	end = spoor_packets_end(fd, st.st_size, &at);
	if (end && pread(fd, &last, sizeof(last), at) != sizeof(last))
		return -EIO;
	if (s->segment->number == number) {
		s->fd = TAKE_FD(fd);
		s->file_size = end;
	}
	if (!end)
		return -ENODATA;
	s->seq = last.seq + 1;
	s->last_ts = last.ts_end;
	s->discarded = last.discarded;
	if (s->fd >= 0 && ret) {
		ret->bytes = last.content_size / 8 - sizeof(last);
		if (pread(s->fd, &ret->first, sizeof(ret->first), at + sizeof(last)) != sizeof(ret->first))
			ret->bytes = 0;
	}
	return 0;
}

/* Where the stream ends, in its segment or the newest before it that has a packet of it; step: segments apart. */
static int find_end(const struct spoor_writer *w, struct writer_stream *s, unsigned step,
		    struct spoor_last_packet *ret)
{
	const struct writer_part *p = s->part;
	unsigned from = s->segment->number;
	int r = look_at(s, from, ret);

	if (r == -ENODATA && p->previous && p->previous->number < from && step == 1)
		r = look_at(s, p->previous->number, NULL);
	for (unsigned i = w->n_closed; r == -ENODATA && i-- > 0;)
		if (p->closed[i].number < from && (from - p->closed[i].number) % step == 0)
			r = look_at(s, p->closed[i].number, NULL);
	return r == -ENODATA ? 0 : r;
}

int spoor_writer_continue(struct spoor_writer *w, unsigned cpu, unsigned level, unsigned segment,
			  struct spoor_last_packet *ret, struct spoor_error *e)
{
	struct writer_stream *s = spoor_cpu_stream(w, cpu, level);
	int r;

	*ret = (struct spoor_last_packet){};
	if (!s)
		return spoor_fail(e, EINVAL, "%s: no stream for CPU %u, level %u", w->path, cpu, level);
	if (w->kernel->previous && segment < w->kernel->current->number)
		s->segment = w->kernel->previous;
	r = find_end(w, s, 1, ret);
	return r < 0 ? spoor_fail(e, -r, "%s: cannot read the end of a stream: %s", w->path, strerror(-r)) : 0;
}

/* ---- the manifest: what it knows of closed segments, and what has come to it since the fork ---- */

static void take_times(struct spoor_writer *w, struct writer_part *p, unsigned n, const json_t *segments)
{
	const json_t *j;
	size_t i;

	json_array_foreach((json_t *)segments, i, j)
	{
		struct writer_segment key = { .number = json_integer_value(json_object_get(j, "number")) };
		struct writer_segment *s = n ? bsearch(&key, p->closed, n, sizeof(key), by_number) : NULL;

		if (!s || !json_integer_value(json_object_get(j, "begin")))
			continue;
		s->ts_begin = json_integer_value(json_object_get(j, "begin"));
		s->ts_end = json_integer_value(json_object_get(j, "end"));
	}
}

static void take_part(struct spoor_writer *w, struct writer_part *p, unsigned n, const json_t *parts)
{
	const json_t *j, *dropped;
	size_t i;

	json_array_foreach((json_t *)parts, i, j)
	{
		const char *type = json_string_value(json_object_get(j, "type"));

		if (!type || strcmp(type, p->type))
			continue;
		take_times(w, p, n, json_object_get(j, "segments"));
		dropped = json_object_get(j, "dropped");
		w->n_dropped = json_integer_value(json_object_get(dropped, "segments"));
		p->dropped_bytes = json_integer_value(json_object_get(dropped, "bytes"));
	}
}

/* If it cannot be read there is one the less that is right: what is on disk counts. */
static void take_manifest(struct spoor_writer *w, unsigned n)
{
	_cleanup_(spoor_closep) int fd = openat(w->root_fd, "manifest", O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	json_t *j = fd >= 0 ? json_loadfd(fd, JSON_REJECT_DUPLICATES, NULL) : NULL;
	json_t *host = json_array_get(json_object_get(j, "hosts"), 0), *clocks = json_object_get(j, "clocks");
	struct stat st;

	if (json_is_array(clocks)) {
		json_decref(w->clocks);
		w->clocks = json_incref(clocks);
	}
	for_each_part(p, w)
		take_part(w, p, n, json_object_get(host, "parts"));
	if (fd >= 0 && fstat(fd, &st) == 0)
		w->manifest_len = st.st_size;
	json_decref(j);
}

/* ---- the writer ---- */

unsigned spoor_writer_descriptors(const struct spoor_writer *w, int *ret, unsigned most)
{
	int all[1 + 3 * SPOOR_MAX_PARTS];
	unsigned n = 0;

	all[n++] = w->root_fd;
	for_each_part(p, w) {
		all[n++] = p->fd;
		all[n++] = p->current ? p->current->fd : -1;
		all[n++] = p->previous ? p->previous->fd : -1;
	}
	n = n < most ? n : most;
	memcpy(ret, all, n * sizeof(*all));
	return n;
}

static void forget(struct writer_part *p)
{
	for (unsigned i = 0; i < p->n_streams; i++)
		spoor_stream_leave(&p->streams[i]);
	for (unsigned i = 0; i < 2; i++)
		spoor_stream_leave(&p->defs[i]);
	spoor_segment_free(p->previous);
	spoor_segment_free(p->current);
	p->previous = p->current = NULL;
	free(p->closed);
	p->closed = NULL;
}

/* The newest segment of n is the current one; the one before it is open too if there is still something to come. */
static int reopen_part(struct spoor_writer *w, struct writer_part *p, unsigned n, bool handing_over)
{
	struct writer_segment *before = NULL;
	int r = reopen(p, &p->closed[n - 1], &p->current);

	if (r == 0 && n > 1)
		r = reopen(p, &p->closed[n - 2], &before);
	if (r < 0)
		return r;
	if (handing_over)
		p->previous = before;
	else
		spoor_segment_free(before);
	for (unsigned i = 0; i < p->n_streams; i++)
		p->streams[i].segment = p->current;
	return 0;
}

static int continue_definitions(struct spoor_writer *w, struct writer_segment *s)
{
	if (!s)
		return 0;
	s->defs->segment = s;
	return find_end(w, s->defs, 2, NULL);
}

static int take_over(struct spoor_writer *w, unsigned oldest)
{
	unsigned n = 0, n_part = 0;
	bool handing_over;
	int r = 0;

	for_each_part(p, w) {
		forget(p);
		r = list_segments(p, &n_part);
		if (r == 0 && !n_part)
			r = -ENOENT;
		if (r < 0)
			return r;
		n = p == w->parts || n_part < n ? n_part : n;
	}
	take_manifest(w, n);
	w->n_begun = w->parts[0].closed[n - 1].number;
	handing_over = n > 1 && oldest < w->n_begun;
	for_each_part(p, w)
		if (r == 0)
			r = reopen_part(w, p, n, handing_over);
	w->n_closed = n - 1 - handing_over;
	w->closed_bytes = 0;
	for_each_part(p, w)
		for (unsigned i = 0; i < w->n_closed; i++)
			w->closed_bytes += p->closed[i].bytes;
	if (r == 0)
		r = continue_definitions(w, w->kernel->previous);
	return r == 0 ? continue_definitions(w, w->kernel->current) : r;
}

int spoor_writer_take_over(struct spoor_writer *w, unsigned oldest, unsigned *ret_newest, struct spoor_error *e)
{
	int r;

	/* The reserve was given up with who kept it, which is why it is room for us now. */
	w->reserve_fd = -1;
	r = w->kernel ? take_over(w, oldest) : -EINVAL;
	if (r < 0)
		return spoor_fail(e, -r, "%s: cannot go on with it: %s", w->path, strerror(-r));
	*ret_newest = w->n_begun;
	return 0;
}
