/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Opening a trace and merging its streams by time. */
#include "trace/reader.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "trace/reader_internal.h"

int spoor_trace_note(struct spoor_trace *t, const char *path, uint64_t offset, const char *reason)
{
	char *text;

	if (t->info.n_damages == SPOOR_MAX_DAMAGES)
		return 0;
	if (t->info.n_damages == SPOOR_MAX_DAMAGES - 1)
		text = strdup("more damages than are listed");
	else if (asprintf(&text, "%s: offset %llu: %s", path, (unsigned long long)offset, reason) < 0)
		text = NULL;
	if (!text)
		return 0;
	for (unsigned i = 0; i < t->info.n_damages; i++) {
		if (!strcmp(t->damages[i], text)) { /* seen before rewind() */
			free(text);
			return 0;
		}
	}
	t->damages[t->info.n_damages++] = text;
	return 1;
}

const struct spoor_trace_info *spoor_trace_info(const struct spoor_trace *t)
{
	return &t->info;
}

const char *spoor_trace_damage(const struct spoor_trace *t, unsigned i)
{
	return i < t->info.n_damages ? t->damages[i] : NULL;
}

/* ---- one stream ---- */

/* The stream's next event, from this file or the next. Returns 1, 0 at its end, or -errno. */
static int stream_advance(struct spoor_trace *t, struct spoor_stream *s)
{
	for (;;) {
		const struct spoor_stream_file *f;
		uint64_t last_ts;
		int r;

		if (s->c.map) {
			s->h = spoor_cursor_next(t, &s->c);
			s->discarded = s->c.discarded;
			if (s->h)
				return 1;
		}
		if (t->following && s->file == s->n_files)
			return 0; /* it may grow, or be followed by another */
		last_ts = s->c.last_ts;
		spoor_cursor_close(&s->c);
		if (s->file == s->n_files)
			return 0;
		f = &s->files[s->file++];
		r = spoor_segment_load(f->segment);
		if (r < 0)
			return r;
		spoor_cursor_open(t, &s->c, f->path, f->segment, f->instance); /* if it cannot: noted */
		/* What its other stream loaded was written before; this file's definitions were before its events. */
		if (t->following && (spoor_segment_load_more(f->segment) < 0 ||
				     (f->segment->kernel && spoor_segment_load_more(f->segment->kernel) < 0)))
			return -ENOMEM;
		s->c.last_ts = last_ts;
		s->c.discarded = s->discarded;
	}
}

static const struct spoor_segment *stream_segment(const struct spoor_stream *s)
{
	return s->files[s->file - 1].segment;
}

/* ---- the merge: a heap of streams by (ts of the next event, stream) ---- */

static int before(const struct spoor_heap_slot *a, const struct spoor_heap_slot *b)
{
	return a->ts < b->ts || (a->ts == b->ts && a->stream < b->stream);
}

static void sift_down(struct spoor_trace *t, unsigned i)
{
	struct spoor_heap_slot *heap = t->heap, moving = heap[i];

	for (;;) {
		unsigned child = 2 * i + 1;

		if (child >= t->n_heap)
			break;
		if (child + 1 < t->n_heap && before(&heap[child + 1], &heap[child]))
			child++;
		if (!before(&heap[child], &moving))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = moving;
}

static int start(struct spoor_trace *t)
{
	t->n_heap = 0;
	for (unsigned i = 0; i < t->n_streams; i++) {
		int r = stream_advance(t, &t->streams[i]);

		if (r < 0)
			return r;
		if (r)
			t->heap[t->n_heap++] = (struct spoor_heap_slot){ t->streams[i].h->ts, &t->streams[i] };
	}
	for (unsigned i = t->n_heap / 2; i-- > 0;)
		sift_down(t, i);
	t->started = 1;
	return 0;
}

/* The event given out last is in the top's file: only now may that file be left. */
static int step(struct spoor_trace *t)
{
	struct spoor_heap_slot *top = &t->heap[0];
	int r = stream_advance(t, top->stream);

	if (r < 0)
		return r;
	if (r)
		top->ts = top->stream->h->ts;
	else
		*top = t->heap[--t->n_heap];
	sift_down(t, 0);
	return 0;
}

int spoor_trace_next(struct spoor_trace *t, struct spoor_event *ret)
{
	struct spoor_stream *s;
	int r = 0;

	if (!t->started)
		r = start(t);
	else if (t->n_heap)
		r = step(t);
	if (r < 0)
		return r;
	if (!t->n_heap)
		return 0;
	s = t->heap[0].stream;
	ret->h = s->h;
	ret->segment = stream_segment(s);
	ret->class = s->c.stream_id == SPOOR_STREAM_UST ? spoor_class_of(ret->segment, ret->h->id) : NULL;
	ret->cpu = s->c.cpu;
	return 1;
}

static void stream_rewind(struct spoor_stream *s)
{
	spoor_cursor_close(&s->c);
	s->file = 0;
	s->discarded = 0;
	s->h = NULL;
}

int spoor_trace_rewind(struct spoor_trace *t)
{
	for (unsigned i = 0; i < t->n_streams; i++)
		stream_rewind(&t->streams[i]);
	t->n_heap = 0;
	t->started = 0;
	return 0;
}

uint64_t spoor_trace_discarded(const struct spoor_trace *t)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < t->n_streams; i++)
		sum += t->streams[i].discarded;
	return sum > t->discarded ? sum : t->discarded;
}

/* ---- open, close ---- */

static int is_of(const struct spoor_stream *s, const struct spoor_stream_file *f)
{
	return s->part == f->part && s->instance == f->instance;
}

/* The stream that these files were of before; else one at its begin. */
static struct spoor_stream stream_before(const struct spoor_stream *old, unsigned n, const struct spoor_stream_file *f)
{
	for (unsigned i = 0; i < n; i++)
		if (is_of(&old[i], f))
			return old[i];
	return (struct spoor_stream){ .part = f->part, .instance = f->instance };
}

int spoor_trace_make_streams(struct spoor_trace *t)
{
	struct spoor_stream *streams = calloc(t->n_files + 1, sizeof(*streams)), *s = streams - 1;
	struct spoor_heap_slot *heap = calloc(t->n_files + 1, sizeof(*heap));

	if (!streams || !heap) {
		free(streams);
		free(heap);
		return -ENOMEM;
	}
	for (size_t i = 0; i < t->n_files; i++) {
		if (!i || !is_of(s, &t->files[i])) {
			*++s = stream_before(t->streams, t->n_streams, &t->files[i]);
			s->files = &t->files[i];
			s->n_files = 0;
		}
		s->n_files++;
	}
	free(t->streams);
	free(t->heap);
	t->streams = streams;
	t->n_streams = (unsigned)(s + 1 - streams);
	t->heap = heap;
	t->n_heap = 0;
	return 0;
}

void spoor_trace_close(struct spoor_trace *t)
{
	if (!t)
		return;
	for (unsigned i = 0; i < t->n_streams; i++)
		spoor_cursor_close(&t->streams[i].c);
	for (unsigned i = 0; i < t->n_segments; i++)
		spoor_segment_unload(t->segments[i]);
	for (size_t i = 0; i < t->n_files; i++)
		free(t->files[i].path);
	for (unsigned i = 0; i < t->info.n_damages; i++)
		free(t->damages[i]);
	json_decref(t->manifest);
	free(t->segments);
	free(t->files);
	free(t->streams);
	free(t->heap);
	free(t->path);
	free(t->root);
	free(t->host);
	free(t);
}

int spoor_trace_open_after(const char *path, unsigned after, struct spoor_trace **ret, struct spoor_error *e)
{
	_cleanup_(spoor_trace_closep) struct spoor_trace *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return spoor_fail(e, ENOMEM, "%s: out of memory", path);
	t->after = after;
	t->info.hostname = t->info.release = t->info.command = t->info.mode = "";
	t->path = strdup(path);
	if (!t->path)
		return spoor_fail(e, ENOMEM, "%s: out of memory", path);
	r = spoor_trace_find(t, e);
	if (r >= 0)
		r = spoor_trace_scan(t, path, e);
	if (r >= 0)
		r = spoor_trace_read_manifest(t, e);
	if (r < 0)
		return r;
	t->info.n_segments = t->n_segments;
	if (spoor_trace_check_layout(t) < 0 || spoor_trace_make_streams(t) < 0)
		return spoor_fail(e, ENOMEM, "%s: out of memory", path);
	*ret = TAKE_PTR(t);
	return 0;
}

int spoor_trace_open(const char *path, struct spoor_trace **ret, struct spoor_error *e)
{
	return spoor_trace_open_after(path, 0, ret, e);
}
