/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/consumer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "collect/kernel/ring.h"
#include "collect/session/definer.h"

#define MAX_SPANS 256
#define MARK_GRACE \
	(50 * 1000000ULL)             /* a ring that is empty so long after a rotation has no old events to come: a
				      * producer runs for microseconds, with preemption off */
#define RAW_GRACE (2 * 1000000000ULL) /* for raw stacks of the old segment */

struct ring_state {
	struct spoor_ring *ring;
	uint64_t epoch; /* segment its stream is in */
	struct spoor_ring_reader read;
	struct iovec spans[MAX_SPANS];
	int n_spans;
	uint64_t ts_begin, ts_end;
	bool switching; /* the next thing in it is the mark */
};

struct spoor_consumer {
	struct spoor_kernel *k;
	struct spoor_objects *objects;
	struct spoor_writer *w;
	unsigned n_rings;
	struct ring_state *rings;
	uint64_t epoch, rotated_at, ends_at;
	bool rotating;
	struct spoor_definer *definer;
	struct late_call { /* seen after the end began */
		uint32_t tid;
		uint64_t start;
		int n; /* -1: lost when it was to be written */
	} * late;
	size_t n_late;
	struct spoor_consumer_counts counts;
};

static void lose_call(void *ctx, const struct spoor_event_header *h);

int spoor_consumer_new(struct spoor_kernel *k, struct spoor_objects *objects, struct spoor_writer *w,
		       bool keep_definitions, struct spoor_consumer **ret)
{
	struct spoor_consumer *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->k = k;
	c->objects = objects;
	c->w = w;
	c->epoch = 1;
	c->ends_at = UINT64_MAX;
	c->n_rings = k->n_cpus * SPOOR_LEVELS;
	c->rings = calloc(c->n_rings, sizeof(*c->rings));
	if (!c->rings || spoor_definer_new(objects, w, keep_definitions, &c->definer) < 0) {
		spoor_consumer_free(c);
		return -ENOMEM;
	}
	spoor_writer_on_loss(w, lose_call, c);
	for (unsigned i = 0; i < c->n_rings; i++) {
		c->rings[i].ring = spoor_kernel_ring(k, i / SPOOR_LEVELS, i % SPOOR_LEVELS);
		c->rings[i].epoch = 1;
	}
	*ret = c;
	return 0;
}

void spoor_consumer_free(struct spoor_consumer *c)
{
	if (!c)
		return;
	spoor_definer_free(c->definer);
	free(c->rings);
	free(c->late);
	free(c);
}

/* One that is told anew the segment before has already. */
static void define_thread(struct spoor_consumer *c, const struct spoor_event_header *h, bool newest)
{
	if (newest && ((const struct spoor_thread *)h)->why == SPOOR_THREAD_SEGMENT)
		spoor_writer_define_anew(c->w, h);
	else
		spoor_writer_define(c->w, h);
}

/* What is no event: definitions and control records. newest: its ring has come to the newest segment. */
static void take_out(struct spoor_consumer *c, const struct spoor_event_header *h, bool newest)
{
	switch (h->id) {
	case SPOOR_EV_STACK:
		spoor_definer_stack(c->definer, (const void *)h);
		break;
	case SPOOR_EV_FILE:
	case SPOOR_EV_SOCKET:
	case SPOOR_EV_SOCKET4:
		spoor_definer_file(c->definer, h);
		break;
	case SPOOR_EV_THREAD:
		define_thread(c, h, newest);
		break;
	case SPOOR_CTL_OBJECT:
		spoor_objects_announce(c->objects, (const void *)h);
		break;
	case SPOOR_CTL_LAYOUT:
		spoor_objects_layout(c->objects, (const void *)h);
		break;
	case SPOOR_CTL_RAW:
		spoor_objects_raw(c->objects, (const void *)h);
		break;
	case SPOOR_CTL_NEED:
		spoor_definer_again(c->definer, (const void *)h, newest);
		break;
	}
}

/* ---- counting ---- */

/*
 * A call counts once: when it ends, or as one that did not. That it went to sleep, or slept when we came, only tells
 * of a call that does so later.
 */
static bool is_unfinished(const struct spoor_consumer *c, const struct spoor_pending *p)
{
	return p->why == SPOOR_PENDING_END || spoor_pending_is_final(p) ||
	       (p->why != SPOOR_PENDING_MOVED && p->h.ts >= c->ends_at);
}

static void note_late(struct spoor_consumer *c, uint32_t tid, uint64_t start, int n)
{
	struct late_call *grown = c->late;

	if ((c->n_late & (c->n_late - 1)) == 0)
		grown = reallocarray(c->late, c->n_late ? c->n_late * 2 : 1, sizeof(*grown));
	if (!grown)
		return; /* the count may be one too high */
	c->late = grown;
	c->late[c->n_late++] = (struct late_call){ tid, start, n };
}

/* n: 1, or -1 if it was counted and then lost. */
static void count_call(struct spoor_consumer *c, const struct spoor_event_header *h, int n)
{
	const struct spoor_syscall *call = (const void *)h; /* SYSCALL_OTHER begins alike */
	const struct spoor_pending *p = (const void *)h;
	bool unfinished = h->id == SPOOR_EV_PENDING;

	if (unfinished ? !is_unfinished(c, p) : h->id > SPOOR_EV_SYSCALL_OTHER)
		return;
	c->counts.events += n;
	if (h->ts >= c->ends_at)
		note_late(c, h->tid, unfinished ? p->start : h->ts - call->dur, n);
}

static void lose_call(void *ctx, const struct spoor_event_header *h)
{
	count_call(ctx, h, -1);
}

static int by_call(const void *a, const void *b)
{
	const struct late_call *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* Calls that were reported as under way at the end, and slept or ended before everything was detached. */
static uint64_t counted_twice(const struct spoor_consumer *c)
{
	uint64_t twice = 0;
	int of_call = 0;

	if (c->n_late)
		qsort(c->late, c->n_late, sizeof(*c->late), by_call);
	for (size_t i = 0; i < c->n_late; i++) {
		of_call += c->late[i].n;
		if (i + 1 < c->n_late && !by_call(&c->late[i], &c->late[i + 1]))
			continue;
		twice += of_call > 1 ? of_call - 1 : 0;
		of_call = 0;
	}
	return twice;
}

void spoor_consumer_ends(struct spoor_consumer *c)
{
	c->ends_at = spoor_now_monotonic();
}

/* ---- one ring ---- */

/* An event goes into the last span if it follows on that, else into a new one. False: no room for that. */
static bool add_to_spans(struct ring_state *r, const struct spoor_event_header *h)
{
	struct iovec *span = r->n_spans ? &r->spans[r->n_spans - 1] : NULL;

	if (!span || (const uint8_t *)span->iov_base + span->iov_len != (const uint8_t *)h) {
		if (r->n_spans == MAX_SPANS)
			return false;
		span = &r->spans[r->n_spans++];
		span->iov_base = (void *)h;
		span->iov_len = 0;
		if (r->n_spans == 1)
			r->ts_begin = h->ts;
	}
	r->ts_end = h->ts;
	span->iov_len += spoor_event_size(h);
	return true;
}

/*
 * A ring that was idle for a whole segment gets that one's mark with its first record in it, which may be read when the
 * next segment has begun: what follows it is of the old one all the same.
 */
static bool marks_new_segment(const struct ring_state *r, const struct spoor_event_header *h)
{
	return ((const struct spoor_ctl_mark *)h)->epoch > r->epoch;
}

/* Collects spans of events from where the reader is; stops early at a mark or when the spans are full. */
static void scan(struct spoor_consumer *c, struct ring_state *r)
{
	struct spoor_ring_reader read = r->read;
	const struct spoor_event_header *h;

	r->n_spans = 0;
	r->switching = false;
	while (!r->switching && (h = spoor_ring_peek(&read))) {
		if (spoor_is_event(h->id)) {
			if (!add_to_spans(r, h))
				break;
			if (h->id == SPOOR_EV_MAPPING)
				spoor_definer_object(c->definer, ((const struct spoor_mapping *)h)->object);
			count_call(c, h, 1);
		} else if (h->id == SPOOR_CTL_MARK) {
			if (r->n_spans) /* what lies before it belongs to the old segment and is written first */
				break;
			r->switching = marks_new_segment(r, h);
		} else {
			take_out(c, h, r->epoch == c->epoch);
		}
		spoor_ring_skip(&read, h);
	}
	r->read = read;
}

static void switch_ring(struct spoor_consumer *c, unsigned i)
{
	struct ring_state *r = &c->rings[i];

	if (r->epoch != c->epoch) {
		r->epoch = c->epoch;
		spoor_writer_switch_stream(c->w, i / SPOOR_LEVELS, i % SPOOR_LEVELS);
	}
}

static int drain_ring(struct spoor_consumer *c, unsigned i, int64_t *bytes, struct spoor_error *e)
{
	struct ring_state *r = &c->rings[i];
	int first_error = 0;

	r->read = spoor_ring_begin(c->k, r->ring);
	while (r->read.at < r->read.to) {
		int err;

		scan(c, r);
		err = spoor_writer_flush_due(c->w, e);
		if (r->n_spans && !err)
			err = spoor_writer_packet(c->w, i / SPOOR_LEVELS, i % SPOOR_LEVELS, r->spans, r->n_spans,
						  r->ts_begin, r->ts_end, r->ring->dropped, e);
		else if (r->n_spans)
			spoor_writer_lose(c->w, i / SPOOR_LEVELS, i % SPOOR_LEVELS, r->spans, r->n_spans);
		if (err && !first_error)
			first_error = err;
		*bytes += spoor_ring_release(&r->read);
		if (r->switching)
			switch_ring(c, i);
	}
	c->counts.damaged += r->read.damaged;
	return first_error;
}

/* ---- segments ---- */

void spoor_consumer_define(struct spoor_consumer *c, const struct spoor_event_header *def)
{
	take_out(c, def, false);
}

void spoor_consumer_go_on(struct spoor_consumer *c, unsigned ring, uint64_t in, uint64_t newest)
{
	c->epoch = newest;
	c->rings[ring].epoch = in;
	if (in == newest)
		spoor_writer_switch_stream(c->w, ring / SPOOR_LEVELS, ring % SPOOR_LEVELS);
}

void spoor_consumer_clock(struct spoor_consumer *c)
{
	spoor_define_clock(c->w, spoor_writer_define);
}

int spoor_consumer_rotate(struct spoor_consumer *c, struct spoor_error *e)
{
	int r;

	if (c->rotating)
		return 0;
	r = spoor_writer_segment_begin(c->w, e);
	if (r)
		return r;
	c->rotating = true;
	c->rotated_at = spoor_now_monotonic();
	spoor_consumer_clock(c);
	spoor_kernel_set_epoch(c->k, ++c->epoch);
	spoor_definer_segment(c->definer);
	return 0;
}

bool spoor_consumer_rotating(const struct spoor_consumer *c)
{
	return c->rotating;
}

void spoor_consumer_repeated(struct spoor_consumer *c)
{
	spoor_definer_repeated(c->definer);
}

static int finish_rotation(struct spoor_consumer *c, struct spoor_error *e)
{
	uint64_t now = spoor_now_monotonic();

	for (unsigned i = 0; i < c->n_rings; i++) {
		struct ring_state *r = &c->rings[i];

		if (r->epoch == c->epoch)
			continue;
		/* Level 1 belongs to iterators, which run only while this thread waits for them. */
		if ((i % SPOOR_LEVELS == 0 && now - c->rotated_at < MARK_GRACE) ||
		    r->ring->tail != __atomic_load_n(&r->ring->head, __ATOMIC_ACQUIRE))
			return 0;
		switch_ring(c, i); /* nothing was produced there since: the mark is still to come */
	}
	if (spoor_objects_waiting(c->objects) && now - c->rotated_at < RAW_GRACE)
		return 0; /* raw stacks of the old segment */
	spoor_definer_unwound(c->definer); /* those that were done since this drain began: their events are in it */
	c->rotating = false;
	return spoor_writer_segment_end(c->w, e);
}

int64_t spoor_consumer_drain(struct spoor_consumer *c, struct spoor_error *e)
{
	int64_t bytes = 0;
	int err = 0;

	spoor_definer_unwound(c->definer);
	for (unsigned i = 0; i < c->n_rings; i++) {
		int r = drain_ring(c, i, &bytes, e);

		err = err ? err : r;
	}
	if (!err)
		err = spoor_writer_flush_due(c->w, e);
	if (c->rotating && !err)
		err = finish_rotation(c, e);
	return err ? err : bytes;
}

void spoor_consumer_counts(const struct spoor_consumer *c, struct spoor_consumer_counts *ret)
{
	*ret = c->counts;
	ret->events -= counted_twice(c);
	ret->discarded = 0;
	for (unsigned i = 0; i < c->n_rings; i++)
		ret->discarded += c->rings[i].ring->dropped;
	for (unsigned i = 0; i < c->n_rings; i++)
		ret->nested += c->rings[i].ring->nested;
}
