/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace that is being written, read on. Files are mapped with room to grow. New files are looked for before it is
 * asked how far the others have come: where a stream's next file is there already, its last one is complete.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "trace/reader_internal.h"
#include "trace/store.h"

static size_t folder_length(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash - path : 0;
}

static int same_folder(const char *a, const char *b)
{
	size_t len = folder_length(a);

	return len == folder_length(b) && !memcmp(a, b, len);
}

/* Newer ones are more often asked for. */
static struct spoor_segment *find_segment(const struct spoor_trace *t, const char *path)
{
	for (unsigned i = t->n_segments; i-- > 0;)
		if (!strcmp(t->segments[i]->path, path))
			return t->segments[i];
	return NULL;
}

/* The number of the part whose segments stand beside this one; a new one if there is none. */
static unsigned part_of(const struct spoor_trace *t, const char *path)
{
	unsigned next = 0;

	for (unsigned i = t->n_segments; i-- > 0;) {
		if (same_folder(t->segments[i]->path, path))
			return t->segments[i]->part;
		if (t->segments[i]->part >= next)
			next = t->segments[i]->part + 1;
	}
	return next;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The paths of the files that we know, sorted. */
static int list_paths(const struct spoor_trace *t, const char ***ret)
{
	const char **paths = calloc(t->n_files + 1, sizeof(*paths));

	if (!paths)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_files; i++)
		paths[i] = t->files[i].path;
	if (t->n_files)
		qsort(paths, t->n_files, sizeof(*paths), by_path);
	*ret = paths;
	return 0;
}

static int adopt_segment(struct spoor_trace *t, const struct spoor_segment *new)
{
	struct spoor_segment *s;

	if (find_segment(t, new->path))
		return 0;
	return spoor_trace_add_segment(t, new->path, part_of(t, new->path), new->number, &s);
}

static int adopt_file(struct spoor_trace *t, const struct spoor_stream_file *f)
{
	return spoor_trace_add_file(t, find_segment(t, f->segment->path), strrchr(f->path, '/') + 1, f->instance);
}

/* Adds what is new on disk. 1: there was something. */
static int find_new(struct spoor_trace *t)
{
	_cleanup_(spoor_trace_closep) struct spoor_trace *now = calloc(1, sizeof(*now));
	_cleanup_(spoor_freep) const char **known = NULL;
	size_t n_known = t->n_files, n = 0;
	int r = 0;

	if (!now || list_paths(t, &known) < 0)
		return -ENOMEM;
	if (spoor_trace_scan(now, t->path, NULL) < 0)
		return 0; /* it was removed: what we have is what there is */
	for (unsigned i = 0; i < now->n_segments && r >= 0; i++)
		r = adopt_segment(t, now->segments[i]);
	for (size_t i = 0; i < now->n_files && r >= 0; i++) {
		const char *path = now->files[i].path;

		if (bsearch(&path, known, n_known, sizeof(*known), by_path))
			continue;
		r = adopt_file(t, &now->files[i]);
		n++;
	}
	return r < 0 ? r : n > 0;
}

/* It has ended meanwhile: how, the manifest says now. */
static int read_end(struct spoor_trace *t)
{
	json_t *manifest = t->manifest;
	int r;

	t->manifest = NULL;
	t->info.live = 0;
	r = spoor_trace_read_manifest(t, NULL);
	if (!t->manifest) { /* what it says borrows from it */
		t->manifest = manifest;
		manifest = NULL;
	}
	json_decref(manifest);
	return r == -ENOMEM ? r : 0;
}

/* A relay that is started again goes on with a trace that has not ended; the next daemon with one that is suspended. */
static int may_go_on(const struct spoor_trace *t)
{
	_cleanup_(spoor_freep) char *owner = NULL;

	if (t->info.ended)
		return t->info.suspended;
	if (asprintf(&owner, "%s/" SPOOR_STORE_OWNER, t->root) < 0)
		owner = NULL;
	return owner && spoor_file_exists(owner);
}

void spoor_trace_follow(struct spoor_trace *t)
{
	t->following = 1;
	if (!t->info.live)
		t->info.live = t->info.away = may_go_on(t);
}

int spoor_trace_more(struct spoor_trace *t)
{
	int live = spoor_trace_is_live(t->root), r = find_new(t);

	if (r < 0)
		return r;
	if (r && (spoor_trace_order(t) < 0 || spoor_trace_make_streams(t) < 0))
		return -ENOMEM;
	for (unsigned i = 0; i < t->n_streams; i++)
		spoor_cursor_grow(t, &t->streams[i].c);
	for (unsigned i = 0; i < t->n_segments; i++)
		if (spoor_segment_load_more(t->segments[i]) < 0)
			return -ENOMEM;
	t->info.n_segments = t->n_segments;
	if (!live && t->info.live) {
		r = read_end(t); /* while it is away, too: it may have come and ended between two looks */
		if (r < 0)
			return r;
		t->info.live = t->info.away = may_go_on(t);
	} else {
		t->info.away = 0;
	}
	t->started = 0; /* each stream is asked anew */
	return 0;
}
