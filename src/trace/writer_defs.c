/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Definitions: kept until a flush, which writes them in the order of time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "trace/writer_internal.h"

#define DEFS_FLUSH_BYTES (256 << 10)
#define DEFS_MAX_BYTES (64 << 20) /* waiting for space on a full disk */
#define AGAIN 10 /* times what a try took that failed, until the next one: to sort so many takes long */

int spoor_segment_define(struct writer_segment *seg, const struct spoor_event_header *def)
{
	size_t len = spoor_event_size(def);

	if (seg->buf_len + len > DEFS_MAX_BYTES) {
		seg->defs->lost++;
		return -ENOSPC;
	}
	if (seg->buf_len + len > seg->buf_size) {
		size_t size = seg->buf_size ? seg->buf_size * 2 : DEFS_FLUSH_BYTES * 2;
		uint8_t *p = realloc(seg->buf, size);

		if (!p)
			return -ENOMEM;
		seg->buf = p;
		seg->buf_size = size;
	}
	memcpy(seg->buf + seg->buf_len, def, len);
	seg->buf_len += len;
	return 0;
}

/* Equal stacks have one definition in a segment, the first; what comes later under another id only names that. */
static int define_stack(struct writer_segment *seg, const struct spoor_stack *s, const struct spoor_stack_key *key)
{
	uint32_t first = spoor_stack_set_get(&seg->stacks, key);
	struct spoor_stack_alias alias = { .h = s->h, .id = s->id, .stack = first };
	int r;

	if (first == s->id)
		return 0;
	if (first) {
		alias.h.id = SPOOR_EV_STACK_ALIAS;
		alias.h.size4 = sizeof(alias) / 4;
		return spoor_segment_define(seg, &alias.h);
	}
	r = spoor_segment_define(seg, &s->h);
	if (r == 0)
		spoor_stack_set_put(&seg->stacks, key, s->id); /* without memory for that it is written again */
	return r;
}

/* A stack's key; NULL: it is something else, or makes no sense. */
static const struct spoor_stack_key *key_of(const struct spoor_writer *w, const struct spoor_event_header *def,
					    struct spoor_stack_key *buf)
{
	const struct spoor_stack *s = (const void *)def;

	if (def->id != SPOOR_EV_STACK || spoor_event_size(def) < sizeof(*s) || !s->id ||
	    spoor_event_size(def) < sizeof(*s) + s->n * sizeof(s->frames[0]))
		return NULL;
	*buf = spoor_stack_key(s, w->stack_seed);
	return buf;
}

static int define(struct writer_segment *seg, const struct spoor_event_header *def, const struct spoor_stack_key *key)
{
	return key ? define_stack(seg, (const void *)def, key) : spoor_segment_define(seg, def);
}

static int define_in(struct spoor_writer *w, struct writer_part *p, const struct spoor_event_header *def, bool anew)
{
	const struct spoor_stack_key *key;
	struct spoor_stack_key buf;
	int r;

	if (!p || spoor_event_size(def) < sizeof(*def))
		return -EINVAL;
	spoor_manifest_note(w, def);
	key = key_of(w, def, &buf);
	/* Streams that are still in the previous segment may refer to it. */
	if (p->previous && !anew) {
		r = define(p->previous, def, key);
		if (r < 0)
			return r;
	}
	if (!p->current)
		return -EBADF;
	r = define(p->current, def, key);
	if (r < 0)
		return r;
	return p->current->buf_len >= DEFS_FLUSH_BYTES ? spoor_writer_flush_due(w, NULL) : 0;
}

int spoor_part_define(struct spoor_writer *w, struct writer_part *p, const struct spoor_event_header *def)
{
	return define_in(w, p, def, false);
}

int spoor_writer_define(struct spoor_writer *w, const struct spoor_event_header *def)
{
	return spoor_part_define(w, w->kernel, def);
}

int spoor_writer_define_anew(struct spoor_writer *w, const struct spoor_event_header *def)
{
	return define_in(w, w->kernel, def, true);
}

int spoor_writer_define_user(struct spoor_writer *w, const struct spoor_event_header *def)
{
	return spoor_part_define(w, w->ust, def);
}

int spoor_define_clock(struct spoor_writer *w, spoor_writer_definer *define)
{
	struct spoor_clock clock = { .h.id = SPOOR_EV_CLOCK, .h.size4 = sizeof(clock) / 4 };
	struct timespec boot;

	clock.h.ts = spoor_now_monotonic();
	clock.realtime = spoor_now_realtime();
	clock_gettime(CLOCK_BOOTTIME, &boot);
	clock.boottime = boot.tv_sec * SPOOR_NS_PER_SEC + boot.tv_nsec;
	return define(w, &clock.h);
}

int spoor_define_counter(struct spoor_writer *w, spoor_writer_definer *define, uint64_t ts, const char *name,
			 uint64_t value)
{
	struct {
		struct spoor_counter c;
		char name[56];
	} __attribute__((packed, aligned(4))) def = {};

	snprintf(def.name, sizeof(def.name), "%s", name);
	def.c.h.id = SPOOR_EV_COUNTER;
	def.c.h.size4 = SPOOR_SIZE4(sizeof(def.c) + strlen(def.name) + 1);
	def.c.h.ts = ts;
	def.c.value = value;
	return define(w, &def.c.h);
}

static int by_time(const void *a, const void *b)
{
	const struct spoor_event_header *x = *(const struct spoor_event_header *const *)a;
	const struct spoor_event_header *y = *(const struct spoor_event_header *const *)b;

	if (x->ts != y->ts)
		return x->ts < y->ts ? -1 : 1;
	return x < y ? -1 : x > y; /* stable: they stand in the order in which they came */
}

/* A new buffer with the same events in the order of time, none before ts. */
static int sort_definitions(const struct writer_segment *seg, uint64_t ts, uint8_t **ret)
{
	_cleanup_(spoor_freep) struct spoor_event_header **index = NULL;
	size_t n = 0, len = 0;
	uint8_t *out;

	index = malloc(seg->buf_len / sizeof(struct spoor_event_header) * sizeof(*index));
	out = malloc(seg->buf_len);
	if (!index || !out) {
		free(out);
		return -ENOMEM;
	}
	for (size_t at = 0; at < seg->buf_len; n++) {
		index[n] = (struct spoor_event_header *)(seg->buf + at);
		at += spoor_event_size(index[n]);
	}
	qsort(index, n, sizeof(*index), by_time);
	for (size_t i = 0; i < n; i++) {
		struct spoor_event_header *h = (struct spoor_event_header *)(out + len);

		memcpy(h, index[i], spoor_event_size(index[i]));
		if (h->ts < ts)
			h->ts = ts;
		ts = h->ts;
		len += spoor_event_size(h);
	}
	*ret = out;
	return 0;
}

static uint64_t last_ts(const uint8_t *buf, size_t len)
{
	uint64_t ts = 0;

	for (size_t at = 0; at < len;) {
		const struct spoor_event_header *h = (const void *)(buf + at);

		ts = h->ts;
		at += spoor_event_size(h);
	}
	return ts;
}

static int write_definitions(struct spoor_writer *w, struct writer_segment *seg, struct spoor_error *e)
{
	struct writer_packet p = { .n = 1, .bytes = seg->buf_len };
	_cleanup_(spoor_freep) uint8_t *sorted = NULL;
	int r = sort_definitions(seg, seg->defs->last_ts + 1, &sorted);

	if (r < 0)
		return spoor_fail(e, -r, "%s: out of memory", w->path);
	r = spoor_segments_make_room(w, sizeof(struct spoor_packet) + seg->buf_len, e);
	w->iov[1] = (struct iovec){ sorted, seg->buf_len };
	p.ts_begin = ((struct spoor_event_header *)sorted)->ts;
	p.ts_end = last_ts(sorted, seg->buf_len);
	if (r >= 0) /* without room, too: what is there could not be understood */
		r = spoor_stream_write(w, seg->defs, &p, e);
	return r;
}

int spoor_definitions_flush(struct spoor_writer *w, struct writer_segment *seg, struct spoor_error *e)
{
	struct spoor_error why = { "" };
	uint64_t begun, now;
	int r;

	if (!seg->buf_len)
		return 0;
	begun = spoor_now_monotonic();
	r = write_definitions(w, seg, &why);
	if (r >= 0) {
		seg->buf_len = 0;
		return 0;
	}
	/* Kept for the next try (up to DEFS_MAX_BYTES): without its definitions, an event cannot be understood. */
	now = spoor_now_monotonic();
	seg->again = now + AGAIN * (now - begun);
	seg->failed = r == -ENOBUFS ? 0 : r;
	seg->why = why;
	return seg->failed ? spoor_fail(e, -r, "%s", spoor_error_text(&why, r)) : 0;
}

static int flush_due(struct spoor_writer *w, struct writer_segment *seg, struct spoor_error *e)
{
	if (seg->buf_len < DEFS_FLUSH_BYTES || spoor_now_monotonic() >= seg->again)
		return spoor_definitions_flush(w, seg, e);
	return seg->failed ? spoor_fail(e, -seg->failed, "%s", spoor_error_text(&seg->why, seg->failed)) : 0;
}

static int flush_parts(struct spoor_writer *w,
		       int (*flush)(struct spoor_writer *w, struct writer_segment *seg, struct spoor_error *e),
		       struct spoor_error *e)
{
	int r = 0, r2 = 0;

	for_each_part(p, w) {
		if (p->previous)
			r2 = flush(w, p->previous, r < 0 ? NULL : e);
		r = r < 0 ? r : r2;
		if (p->current)
			r2 = flush(w, p->current, r < 0 ? NULL : e);
		r = r < 0 ? r : r2;
	}
	return r;
}

int spoor_writer_flush(struct spoor_writer *w, struct spoor_error *e)
{
	return flush_parts(w, spoor_definitions_flush, e);
}

int spoor_writer_has_unwritten(const struct spoor_writer *w)
{
	int any = 0;

	for_each_part(p, w)
		any |= (p->previous && p->previous->buf_len) || (p->current && p->current->buf_len);
	return any;
}

int spoor_writer_flush_due(struct spoor_writer *w, struct spoor_error *e)
{
	return flush_parts(w, flush_due, e);
}
