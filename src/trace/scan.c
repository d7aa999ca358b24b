/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which segments and stream files a trace has: what is on disk counts, not what the manifest says, for a writer that
 * was killed could not tell. Directories up to HOST/PART/SEGMENT deep are looked through; names that Spoor does not
 * give are none of our business.
 */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "trace/reader_internal.h"

#define MAX_DEPTH 3
#define MAX_SEGMENTS 1000000

static int number(const char *text, uint32_t max, const char **ret_end, uint32_t *ret)
{
	uint32_t v = 0;
	const char *p = text;

	for (; *p >= '0' && *p <= '9' && p - text < 9; p++)
		v = v * 10 + (*p - '0');
	if (p == text || v > max)
		return -EINVAL;
	*ret_end = p;
	*ret = v;
	return 0;
}

static int segment_number(const char *name, uint32_t *ret)
{
	const char *end;

	if (strncmp(name, "seg-", 4) || number(name + 4, 999999999, &end, ret) < 0 || *end)
		return -EINVAL;
	return 0;
}

/* cpuN, cpuN.L, laneN, defs */
static int stream_instance(const char *name, unsigned segment, uint32_t *ret)
{
	uint32_t cpu, level = 0;
	const char *end;

	if (!strcmp(name, "defs")) {
		*ret = SPOOR_INSTANCE_DEFS(segment);
		return 0;
	}
	if (!strncmp(name, "lane", 4))
		return number(name + 4, SPOOR_MAX_LANES - 1, &end, ret) < 0 || *end ? -EINVAL : 0;
	if (strncmp(name, "cpu", 3) || number(name + 3, SPOOR_MAX_CPUS - 1, &end, &cpu) < 0)
		return -EINVAL;
	if (*end == '.' && number(end + 1, SPOOR_MAX_LEVELS - 1, &end, &level) < 0)
		return -EINVAL;
	if (*end)
		return -EINVAL;
	*ret = cpu + level * SPOOR_INSTANCE_LEVEL;
	return 0;
}

int spoor_trace_add_file(struct spoor_trace *t, struct spoor_segment *s, const char *name, uint32_t instance)
{
	struct spoor_stream_file *f;

	if ((t->n_files & (t->n_files - 1)) == 0) {
		void *p = reallocarray(t->files, t->n_files ? t->n_files * 2 : 1, sizeof(*t->files));

		if (!p)
			return -ENOMEM;
		t->files = p;
	}
	f = &t->files[t->n_files];
	*f = (struct spoor_stream_file){ .segment = s, .part = s->part, .instance = instance };
	if (asprintf(&f->path, "%s/%s", s->path, name) < 0)
		return -ENOMEM;
	t->n_files++;
	if (instance >= SPOOR_INSTANCE_DEFS(0))
		s->defs_path = f->path;
	s->is_user |= !strncmp(name, "lane", 4);
	return 0;
}

int spoor_trace_add_segment(struct spoor_trace *t, const char *path, unsigned part, unsigned nr,
			    struct spoor_segment **ret)
{
	struct spoor_segment *s;

	if (t->n_segments == MAX_SEGMENTS)
		return -E2BIG;
	if ((t->n_segments & (t->n_segments - 1)) == 0) {
		void *p = reallocarray(t->segments, t->n_segments ? t->n_segments * 2 : 1, sizeof(*t->segments));

		if (!p)
			return -ENOMEM;
		t->segments = p;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->path = strdup(path);
	if (!s->path) {
		free(s);
		return -ENOMEM;
	}
	s->trace = t;
	s->part = part;
	s->number = nr;
	t->segments[t->n_segments++] = s;
	*ret = s;
	return 0;
}

static int scan_segment(struct spoor_trace *t, const char *path, unsigned part, unsigned nr)
{
	_cleanup_(spoor_closedirp) DIR *d = opendir(path);
	struct spoor_segment *s;
	int r;

	if (!d) {
		t->scan_errno = errno;
		if (errno != ENOENT) /* dropped since it was listed; where it should be there the manifest tells */
			spoor_trace_note(t, path, 0, strerror(errno));
		return 0;
	}
	r = spoor_trace_add_segment(t, path, part, nr, &s);
	for (struct dirent *de; r >= 0 && (de = readdir(d));) {
		uint32_t instance;

		if (stream_instance(de->d_name, nr, &instance) >= 0)
			r = spoor_trace_add_file(t, s, de->d_name, instance);
	}
	return r;
}

static int scan_dir(struct spoor_trace *t, const char *path, int depth, unsigned *parts)
{
	_cleanup_(spoor_closedirp) DIR *d = opendir(path);
	unsigned part = UINT32_MAX;
	int r = 0;

	if (!d) {
		t->scan_errno = errno;
		spoor_trace_note(t, path, 0, strerror(errno));
		return 0;
	}
	for (struct dirent *de; r >= 0 && (de = readdir(d));) {
		_cleanup_(spoor_freep) char *child = NULL;
		struct stat st;
		uint32_t nr;

		if (de->d_name[0] == '.' || (segment_number(de->d_name, &nr) >= 0 && nr <= t->after))
			continue;
		if (asprintf(&child, "%s/%s", path, de->d_name) < 0)
			return -ENOMEM;
		if (lstat(child, &st) < 0 || !S_ISDIR(st.st_mode))
			continue;
		if (segment_number(de->d_name, &nr) >= 0) {
			if (part == UINT32_MAX)
				part = (*parts)++;
			r = scan_segment(t, child, part, nr);
		} else if (depth < MAX_DEPTH) {
			r = scan_dir(t, child, depth + 1, parts);
		}
	}
	return r;
}

static int by_stream(const void *a, const void *b)
{
	const struct spoor_stream_file *x = a, *y = b;

	if (x->part != y->part)
		return x->part < y->part ? -1 : 1;
	if (x->instance != y->instance)
		return x->instance < y->instance ? -1 : 1;
	if (x->segment->number != y->segment->number)
		return x->segment->number < y->segment->number ? -1 : 1;
	return strcmp(x->path, y->path);
}

/* HOST of "HOST/PART/seg-N" below the directory that was opened. Returns its length, 0 if there is none. */
static size_t host_of(const char *below, const char **ret)
{
	const char *part, *segment;

	below += strspn(below, "/");
	part = strchr(below, '/');
	segment = part ? strchr(part + 1, '/') : NULL;
	*ret = below;
	return segment ? part - below : 0;
}

/* Each host has a clock of its own, and there is nothing by which they could be merged. */
static int check_hosts(struct spoor_trace *t, const char *path, struct spoor_error *e)
{
	const char *first = NULL, *host;
	size_t first_len = 0;

	for (unsigned i = 0; i < t->n_segments; i++) {
		size_t len = host_of(t->segments[i]->path + strlen(path), &host);

		if (!i) {
			first = host;
			first_len = len;
		} else if (len != first_len || strncmp(first, host, len)) {
			return spoor_fail(e, EXDEV, "%s: of several hosts, whose clocks differ: read one, %s/%.*s",
					  path, path, (int)first_len, first);
		}
	}
	if (first_len && !t->host)
		t->host = strndup(first, first_len);
	return first_len && !t->host ? spoor_fail(e, ENOMEM, "%s: out of memory", path) : 0;
}

static int by_number(const void *a, const void *b)
{
	const struct spoor_segment *x = *(const struct spoor_segment *const *)a;
	const struct spoor_segment *y = *(const struct spoor_segment *const *)b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return x->is_user - y->is_user;
}

/*
 * The segments of both parts begin and end together, and what the kernel side knows of threads is better than what the
 * programs' side does. A part is the programs' if it has lanes, or that name and nothing in it yet.
 */
static int join_parts(struct spoor_trace *t)
{
	struct spoor_segment **list = reallocarray(NULL, t->n_segments + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (unsigned i = 0; i < t->n_segments; i++) {
		struct spoor_segment *s = list[i] = t->segments[i];

		s->is_user |= strstr(s->path, "/ust/seg-") != NULL;
		t->info.has_calls |= !s->is_user;
	}
	qsort(list, t->n_segments, sizeof(*list), by_number);
	for (unsigned i = 1; i < t->n_segments; i++)
		if (list[i]->number == list[i - 1]->number && list[i]->is_user && !list[i - 1]->is_user)
			list[i]->kernel = list[i - 1];
	free(list);
	return 0;
}

static int by_part(const void *a, const void *b)
{
	const struct spoor_segment *x = *(const struct spoor_segment *const *)a;
	const struct spoor_segment *y = *(const struct spoor_segment *const *)b;

	if (x->part != y->part)
		return x->part < y->part ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

int spoor_trace_order(struct spoor_trace *t)
{
	if (t->n_segments)
		qsort(t->segments, t->n_segments, sizeof(struct spoor_segment *), by_part);
	if (t->n_files)
		qsort(t->files, t->n_files, sizeof(*t->files), by_stream);
	return join_parts(t);
}

static bool is_buffer(const char *name)
{
	size_t n = strlen(name);

	return n > 6 && !strcmp(name + n - 6, ".arena");
}

static bool has_buffers(const char *path)
{
	DIR *d = opendir(path);
	const struct dirent *de;
	bool found = false;

	while (d && !found && (de = readdir(d)))
		found = is_buffer(de->d_name);
	if (d)
		closedir(d);
	return found;
}

static int no_trace(const char *path, const struct stat *st, struct spoor_error *e)
{
	bool dir = S_ISDIR(st->st_mode);

	if (dir ? has_buffers(path) : is_buffer(path)) /* what programs without a recorder leave */
		return spoor_fail(e, ENOENT, "%s: not a trace, but %s: `spoor ust recover -o NAME.spoor %s` makes one",
				  path, dir ? "buffers of programs (*.arena)" : "a buffer of a program", path);
	if (!dir)
		return spoor_fail(e, ENOTDIR, "%s: not a trace: a trace is a directory, NAME.spoor", path);
	return spoor_fail(e, ENOENT, "%s: not a trace: no segment in it", path);
}

int spoor_trace_scan(struct spoor_trace *t, const char *path, struct spoor_error *e)
{
	_cleanup_(spoor_freep) char *real = realpath(path, NULL);
	unsigned parts = 0;
	struct stat st;
	uint32_t nr;
	int r;

	if (!real || stat(real, &st) < 0)
		return spoor_fail(e, errno, "%s: cannot open: %m", path);
	if (!S_ISDIR(st.st_mode))
		return no_trace(path, &st, e);
	if (segment_number(strrchr(real, '/') + 1, &nr) >= 0)
		r = scan_segment(t, path, 0, nr);
	else
		r = scan_dir(t, path, 1, &parts);
	if (r < 0)
		return spoor_fail(e, -r, "%s: cannot open: %s", path, strerror(-r));
	if (spoor_trace_order(t) < 0)
		return spoor_fail(e, ENOMEM, "%s: out of memory", path);
	if (!t->n_segments && t->scan_errno)
		return spoor_fail(e, t->scan_errno, "%s: cannot read it: %s", path, strerror(t->scan_errno));
	if (!t->n_segments && !t->after)
		return no_trace(path, &st, e);
	return check_hosts(t, path, e);
}
