/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What was taken in a round, written: runs to lanes, packets to files, then packets back to their programs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "collect/user/taker_internal.h"
#include "collect/user/threads.h"

#define JOIN (16u << 10) /* runs of one lane that are together no larger are one packet */
#define MOST_SPANS 500

static int by_lane(const void *a, const void *b)
{
	const struct spoor_run *x = a, *y = b;

	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static bool is_full(size_t n_sources)
{
	return n_sources + 3 > SPOOR_MAX_SOURCES; /* add_lost() adds as many */
}

/* No packet of its, but a count. Returns how many sources there are now. */
static size_t add_count(struct spoor_taker *t, size_t n, const struct spoor_source *s, uint64_t what, uint64_t count)
{
	if (!count)
		return n;
	t->sources[n] = (struct spoor_packet_source){ .serial = what, .position = count };
	memcpy(t->sources[n].arena, s->arena->head.uuid, sizeof(t->sources[n].arena));
	return n + 1;
}

/* How much of its programs was lost, overwritten and, of what can be overwritten, taken: with this packet or before. */
static size_t add_lost(struct spoor_taker *t, size_t n, struct spoor_source *s)
{
	if (s->named == t->named || is_full(n))
		return n;
	s->named = t->named;
	n = add_count(t, n, s, SPOOR_SOURCE_LOST, s->lost);
	n = add_count(t, n, s, SPOOR_SOURCE_OVERWRITTEN, s->overwritten);
	return add_count(t, n, s, SPOOR_SOURCE_TAKEN, s->taken);
}

/* n more events of k are in the trace, or so many less. */
static void count_written(struct spoor_taker *t, const struct taken *k, uint64_t n)
{
	t->written += n;
	if (k->source->arena->packets[k->packet].overwritten)
		k->source->taken += n;
}

/* Those of k are lost with the packet that says how far k was taken: who goes on behind that does not meet them. */
static void count_undescribed(struct spoor_taker *t, const struct taken *k)
{
	t->lost += k->undescribed;
	t->undescribed += k->undescribed;
	if (k->source->arena->packets[k->packet].overwritten)
		k->source->taken += k->undescribed;
}

static size_t name_taken(struct spoor_taker *t, size_t n, size_t first, size_t n_runs)
{
	for (size_t i = first; i < first + n_runs; i++) {
		const struct taken *k = t->runs[i].owner;

		t->sources[n++] = k->where;
		count_written(t, k, k->n);
		count_undescribed(t, k);
	}
	return n;
}

static size_t add_lost_of(struct spoor_taker *t, size_t n, size_t first, size_t n_runs)
{
	for (size_t i = first; i < first + n_runs; i++)
		n = add_lost(t, n, ((const struct taken *)t->runs[i].owner)->source);
	return n;
}

/* Those for which there is no room any more are for the next packet. */
static size_t add_untold(struct spoor_taker *t, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->n_untold; i++) {
		struct spoor_source *s = t->untold[i];

		s->untold = is_full(n);
		if (s->untold)
			t->untold[kept++] = s;
		else
			n = add_lost(t, n, s);
	}
	t->n_untold = kept;
	return n;
}

/* What those that could not be written would have told, as far as there is room, and on_unwritten() knows of it. */
static size_t add_unwritten(struct spoor_taker *t, size_t n)
{
	size_t room = SPOOR_MAX_SOURCES - n;

	t->telling = t->failed ? 0 : t->unwritten.n < room ? t->unwritten.n : room;
	if (t->telling)
		memcpy(&t->sources[n], &t->unwritten.all[t->unwritten.n - t->telling],
		       t->telling * sizeof(*t->sources));
	return n + t->telling;
}

/* Counts of all programs, as of this packet. */
static size_t add_totals(struct spoor_taker *t, size_t n)
{
	const struct spoor_packet_source totals[] = {
		{ .serial = SPOOR_SOURCE_OVERWRITTEN, .position = t->counts.overwritten },
		{ .serial = SPOOR_SOURCE_LATE, .position = t->counts.late },
		{ .serial = SPOOR_SOURCE_UNDESCRIBED, .position = t->undescribed },
	};

	for (size_t i = 0; i < sizeof(totals) / sizeof(*totals); i++)
		if (totals[i].position)
			t->sources[n++] = totals[i];
	return n;
}

/* Where what is in the packet of these runs comes from, with its counts; in the first one also what makes no run. */
static size_t name_sources(struct spoor_taker *t, size_t first, size_t n_runs)
{
	size_t n = name_taken(t, 1, first, n_runs);

	t->named++;
	n = name_taken(t, n, t->n_runs, t->n_empty);
	t->sources[0] = (struct spoor_packet_source){ .serial = SPOOR_SOURCE_EVENTS, .position = t->written };
	n = add_totals(t, n);
	n = add_lost_of(t, n, first, n_runs);
	n = add_lost_of(t, n, t->n_runs, t->n_empty);
	t->n_empty = 0;
	return add_unwritten(t, add_untold(t, n));
}

/*
 * The packet of these runs could not be written, but for `late` events of theirs, which were not in it: the writer
 * counts that. What it would have told of its sources is for the next one, but not how many events there are.
 */
static void refuse(struct spoor_taker *t, size_t first, size_t n_runs, uint64_t late, size_t n_sources)
{
	for (size_t i = 1; i < n_sources; i++)
		spoor_source_list_add(&t->sources[i], &t->unwritten);
	t->failed = true;
	for (size_t i = first; i < first + n_runs; i++) {
		struct taken *k = t->runs[i].owner;
		uint64_t left = k->n < late ? k->n : late;

		k->refused = k->n - left;
		k->source->refused += k->refused;
		count_written(t, k, -k->refused);
		k->n = left;
		late -= left;
	}
}

/* all: the packet's events, as they are placed; late: how many of the runs' are not in it. */
static int write_packet(struct spoor_taker *t, const struct spoor_run *all, const struct iovec *spans, int n_spans,
			uint32_t tid, size_t first, size_t n_runs, uint64_t late, struct spoor_error *e)
{
	struct spoor_lane_packet p = {
		.spans = spans,
		.n_spans = n_spans,
		.ts_begin = all->begin,
		.ts_end = all->end,
		.vtid = tid,
		.sources = t->sources,
	};
	uint64_t before = spoor_writer_lane_packets(t->w, all->lane);
	int r;

	t->counts.packets++;
	t->written -= late; /* the runs have them */
	p.n_sources = name_sources(t, first, n_runs);
	t->discarded[all->lane] += t->lost;
	t->lost = 0;
	p.discarded = t->discarded[all->lane];
	r = spoor_writer_lane_packet(t->w, all->lane, &p, e);
	if (spoor_writer_lane_packets(t->w, all->lane) != before)
		t->unwritten.n -= t->telling;
	else
		refuse(t, first, n_runs, late, p.n_sources);
	return r == -ENOBUFS ? 0 : r;
}

/* Runs from i on that one packet takes. Returns how many. */
static size_t join(struct spoor_taker *t, size_t i, struct iovec *spans, uint32_t *ret_tid)
{
	const struct taken *first = t->runs[i].owner;
	size_t bytes = 0, k = 0;

	*ret_tid = first->tid;
	for (; i + k < t->n_runs && k < MOST_SPANS; k++) {
		const struct spoor_run *run = &t->runs[i + k];
		const struct taken *from = run->owner;

		if (k && (run->lane != t->runs[i].lane || bytes + run->len > JOIN))
			break;
		spans[k] = (struct iovec){ run->data, run->len };
		if (from->tid != *ret_tid)
			*ret_tid = 0;
		bytes += run->len;
	}
	return k;
}

static int write_runs(struct spoor_taker *t, struct spoor_error *e)
{
	struct iovec spans[MOST_SPANS];
	int err = 0;

	qsort(t->runs, t->n_runs, sizeof(*t->runs), by_lane);
	for (size_t i = 0, k; i < t->n_runs; i += k) {
		struct spoor_run all = t->runs[i];
		uint32_t tid;
		int r;

		k = join(t, i, spans, &tid);
		all.end = t->runs[i + k - 1].end;
		r = write_packet(t, &all, spans, k, tid, i, k, 0, e);
		err = err ? err : r;
	}
	return err;
}

/* What lies before the end of every lane has no place any more. */
static void cut_late(struct spoor_taker *t, struct spoor_run *run)
{
	uint64_t horizon = spoor_lanes_horizon(&t->lanes);

	while (run->len && run->begin < horizon) {
		size_t size = spoor_event_size((struct spoor_event_header *)run->data);

		run->data += size;
		run->len -= size;
		run->begin = run->len ? ((struct spoor_event_header *)run->data)->ts : 0;
		t->counts.late++;
		t->lost++;
	}
}

/* So many threads wrote at once that their runs do not fit into the lanes: one packet of all of them. */
static int write_merged(struct spoor_taker *t, struct spoor_error *e)
{
	_cleanup_(spoor_freep) uint8_t *buffer = malloc(t->used ? t->used : 1);
	uint64_t late = t->counts.late;
	struct spoor_run all;
	struct iovec span;
	int r = buffer ? spoor_runs_merge(t->runs, t->n_runs, buffer, &all) : -ENOMEM;

	if (r)
		return spoor_fail(e, -r, "out of memory");
	t->counts.merged++;
	cut_late(t, &all);
	all.lane = 0; /* without events, and all lanes are in use */
	r = all.len ? spoor_lanes_place(&t->lanes, &all) : 0;
	if (r)
		return spoor_fail(e, EINVAL, "no lane takes what was merged");
	span = (struct iovec){ all.data, all.len };
	return write_packet(t, &all, &span, all.len != 0, 0, 0, t->n_runs, t->counts.late - late, e);
}

/*
 * What was lost since the last packet, where none is due: a program that has ended is forgotten before the next one.
 * Not as the first of all, from whose counts babeltrace2 begins: there on_unwritten() tells of events that are passed
 * over, of which no program's buffer knows.
 */
static int write_lost(struct spoor_taker *t, struct spoor_error *e)
{
	struct spoor_run none = {};

	if (!t->lost && !t->n_empty)
		return 0;
	if (t->lanes.n)
		return write_packet(t, &none, NULL, 0, 0, 0, 0, 0, e);
	if (t->n_empty)
		refuse(t, 0, 0, 0, name_sources(t, 0, 0));
	return 0;
}

static void give_back(struct spoor_taker *t)
{
	for (size_t i = 0; i < t->n_runs; i++) {
		struct taken *k = &t->taken[i];

		if (!spoor_taker_holds(t, k))
			spoor_user_packet_taken(k->source->arena, k->packet, k->bytes,
						k->n + k->refused + k->undescribed, k->done);
		k->source->n += k->n;
		k->source->bytes += k->bytes;
		t->counts.events += k->n;
	}
	t->n_runs = 0;
	t->used = 0;
}

/* Padding alone makes no run; nor do events that are passed over, which the next packet tells of. */
static void leave_out_empty(struct spoor_taker *t, size_t *ret_all)
{
	uint64_t undescribed = 0;
	size_t n = 0;

	*ret_all = t->n_runs;
	for (size_t i = 0; i < t->n_runs; i++) {
		struct spoor_run run = t->runs[i];

		if (!run.len) {
			undescribed += ((const struct taken *)run.owner)->undescribed;
			continue;
		}
		t->runs[i] = t->runs[n];
		t->runs[n++] = run;
	}
	t->n_runs = n;
	t->n_empty = undescribed ? *ret_all - n : 0;
}

int spoor_taker_write(struct spoor_taker *t, struct spoor_error *e)
{
	int r, r2 = 0;
	size_t all;

	spoor_source_list_forget_packets(&t->unwritten); /* they went back */
	for (size_t i = 0; i < t->n_runs; i++)
		spoor_source_define(t->taken[i].source, t->w, t->runs[i].begin);
	r = spoor_writer_flush_due(t->w, e);
	leave_out_empty(t, &all);
	if (t->n_runs) {
		if (spoor_lanes_assign(&t->lanes, t->runs, t->n_runs) == 0)
			r2 = write_runs(t, r ? NULL : e);
		else
			r2 = write_merged(t, r ? NULL : e);
	} else {
		r2 = write_lost(t, r ? NULL : e);
	}
	t->n_runs = all;
	if (t->failed && t->on_unwritten)
		t->on_unwritten(t->on_unwritten_ctx);
	t->failed = false;
	give_back(t);
	spoor_user_clock_forget(&t->clock, t->until > KEEP_NS ? t->until - KEEP_NS : 0);
	return r ? r : r2;
}
