/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lines of the live screen: what is going on, rows of system calls of tasks, the keys. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings.h"
#include "base/time.h"
#include "present/stat_screen.h"

#define LINE 1024

struct row {
	const struct spoor_task_counters *task;
	const struct spoor_call_counters *call;
	uint32_t share;
};

/* Of the rows on the screen only. */
struct text {
	struct spoor_stat_row row;
	char who[128];
};

static int by_key(const void *pa, const void *pb, void *sort)
{
	const struct row *a = pa, *b = pb;
	int r = spoor_call_compare(a->call, b->call, *(enum spoor_stat_sort *)sort);

	if (r)
		return r;
	if (a->task->start_ns != b->task->start_ns)
		return a->task->start_ns < b->task->start_ns ? -1 : 1;
	return a->task->tid < b->task->tid ? -1 : a->task->tid > b->task->tid;
}

static size_t count_calls(const struct spoor_counters *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		n += c->tasks[i].n_calls;
	return n;
}

/* rows: zeroed, one for each call. */
static int make_rows(const struct spoor_counters *c, enum spoor_stat_sort sort, struct row *rows, size_t n)
{
	_cleanup_(spoor_freep) uint64_t *times = calloc(n + 1, sizeof(*times));
	_cleanup_(spoor_freep) uint32_t *shares = calloc(n + 1, sizeof(*shares));
	size_t at = 0;

	if (!times || !shares)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++)
		for (size_t k = 0; k < c->tasks[i].n_calls; k++, at++) {
			rows[at].task = &c->tasks[i];
			rows[at].call = &c->tasks[i].calls[k];
		}
	qsort_r(rows, n, sizeof(*rows), by_key, &sort);
	for (size_t i = 0; i < n; i++)
		times[i] = spoor_call_shown_ns(rows[i].call);
	if (spoor_shares(times, n, shares) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		rows[i].share = shares[i];
	return 0;
}

static void format_who(const struct spoor_task_counters *t, const struct spoor_stat_view *v, char *buf, size_t size)
{
	char comm[80];

	spoor_stat_escape(t->comm, strnlen(t->comm, sizeof(t->comm)), v->utf8, comm, sizeof(comm));
	if (!t->pid)
		snprintf(buf, size, "ended processes");
	else if (!t->tid)
		snprintf(buf, size, "ended:%d %s", t->pid, comm);
	else if (v->level == SPOOR_STAT_THREAD)
		snprintf(buf, size, "%d:%d %s", t->tid, t->pid, comm);
	else
		snprintf(buf, size, "%d %s", t->pid, comm);
}

static void widen(size_t *width, const char *s)
{
	size_t columns = spoor_screen_columns(s);

	if (columns > *width)
		*width = columns;
}

static void format_rows(const struct row *rows, struct text *texts, size_t n, const struct spoor_stat_view *v,
			struct spoor_screen_state *state)
{
	for (unsigned k = 0; k < SPOOR_STAT_COLUMNS; k++)
		widen(&state->widths[k], spoor_stat_headings[k]);
	for (size_t i = 0; i < n; i++) {
		spoor_stat_format(rows[i].call, rows[i].share, &texts[i].row);
		format_who(rows[i].task, v, texts[i].who, sizeof(texts[i].who));
		for (unsigned k = 0; k < SPOOR_STAT_COLUMNS; k++)
			widen(&state->widths[k], texts[i].row.cells[k]);
		widen(&state->widths[SPOOR_STAT_COLUMNS], texts[i].who);
	}
}

__attribute__((format(printf, 3, 4))) static size_t append(char *line, size_t at, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line + at, LINE - at, fmt, ap);
	va_end(ap);
	return n < 0 ? at : at + (size_t)n < LINE ? at + (size_t)n : LINE - 1;
}

static size_t append_cells(char *line, const char *const *cells, const struct spoor_stat_view *v,
			   const struct spoor_screen_state *state)
{
	size_t at = 0;

	line[0] = 0;
	for (unsigned k = 0; k < SPOOR_STAT_COLUMNS; k++) {
		int width = (int)state->widths[k];

		if (spoor_stat_has_column(v, k))
			at = append(line, at, "%*s ", spoor_stat_is_left(k) ? -width : width, cells[k]);
	}
	return at;
}

static void set_heading(struct spoor_screen *s, const struct spoor_stat_view *v, const struct spoor_screen_state *state)
{
	int width = (int)state->widths[SPOOR_STAT_COLUMNS];
	char line[LINE];
	size_t at = append_cells(line, spoor_stat_headings, v, state);

	if (v->level != SPOOR_STAT_APPLICATION)
		at = append(line, at, "%-*s ", width, v->level == SPOOR_STAT_THREAD ? "thread" : "process");
	if (v->by_site)
		append(line, at, "call site");
	spoor_screen_set(s, 2, SPOOR_LOOK_REVERSE, line);
}

static void set_row(struct spoor_screen *s, unsigned number, const struct text *text, const char *label,
		    const struct spoor_stat_view *v, const struct spoor_screen_state *state)
{
	const char *cells[SPOOR_STAT_COLUMNS];
	char line[LINE], site[LINE / 2];
	size_t at;

	for (unsigned k = 0; k < SPOOR_STAT_COLUMNS; k++)
		cells[k] = text->row.cells[k];
	at = append_cells(line, cells, v, state);
	if (v->level != SPOOR_STAT_APPLICATION)
		at = append(line, at, "%s%*s", text->who,
			    (int)(state->widths[SPOOR_STAT_COLUMNS] - spoor_screen_columns(text->who)) + 1, "");
	if (v->by_site) {
		spoor_stat_escape(label, strlen(label), v->utf8, site, sizeof(site));
		at = append(line, at, "%s ", site);
	}
	at = append(line, at, "%s", text->row.note);
	while (at && line[at - 1] == ' ')
		line[--at] = 0;
	spoor_screen_set(s, number, SPOOR_LOOK_PLAIN, line);
}

static void set_title(struct spoor_screen *s, const struct spoor_counters *c, const struct spoor_screen_state *state)
{
	uint64_t span = spoor_sub_saturated(c->at_ns, c->since_ns), calls = 0, errors = 0, threads = 0;
	char clock[32], time[32], line[LINE];
	double seconds = span ? (double)span / (double)SPOOR_NS_PER_SEC : 1;
	size_t at;

	for (size_t i = 0; i < c->n; i++) {
		struct spoor_call_counters total = spoor_task_total(&c->tasks[i]);

		calls = spoor_add_saturated(calls, total.calls);
		errors = spoor_add_saturated(errors, total.errors);
		threads += c->tasks[i].threads;
	}
	spoor_format_clock(c->at_ns + spoor_now_realtime() - spoor_now_monotonic(), clock, sizeof(clock));
	spoor_format_duration(span, time, sizeof(time));
	at = append(line, 0, "spoor stat  %.8s  %s %s: %.0f calls/s, %.0f errors/s, %" PRIu64 " %s", clock,
		    state->total ? "since the begin," : "the last", time, (double)calls / seconds,
		    (double)errors / seconds, threads, spoor_plural(threads, "thread", "threads"));
	if (c->lost_calls)
		at = append(line, at, "; %" PRIu64 " %s lost", c->lost_calls,
			    spoor_plural(c->lost_calls, "call", "calls"));
	if (c->lost_threads)
		append(line, at, "; %" PRIu64 " %s not counted", c->lost_threads,
		       spoor_plural(c->lost_threads, "thread", "threads"));
	spoor_screen_set(s, 0, SPOOR_LOOK_BOLD, line);
}

static void set_status(struct spoor_screen *s, const struct spoor_stat_view *v, const struct spoor_screen_state *state,
		       size_t n)
{
	static const char *const levels[] = { "application", "processes", "threads", "processes" };
	static const char *const sorts[] = { "time", "calls", "errors", "max", "name" };
	char line[LINE];
	size_t at = append(line, 0, "%s, by %s, %zu %s", levels[v->level], sorts[v->sort], n,
			   spoor_plural(n, "row", "rows"));

	if (state->scroll)
		at = append(line, at, ", from row %zu on", state->scroll + 1);
	if (state->paused)
		append(line, at, ", paused");
	spoor_screen_set(s, 1, SPOOR_LOOK_PLAIN, line);
}

static void set_help(struct spoor_screen *s, const struct spoor_stat_view *v)
{
	char line[LINE];

	append(line, 0, "q)uit  by t)ime c)alls e)rrors m)ax n)ame  l)evel  d)elta%s  space pause",
	       v->site ? "  s)ites" : "");
	spoor_screen_set(s, s->rows - 1, SPOOR_LOOK_DIM, line);
}

static int fill(struct spoor_screen *s, const struct row *rows, size_t n, const struct spoor_stat_view *v,
		const struct spoor_stat_labels *labels, struct spoor_screen_state *state)
{
	size_t room = s->rows > 4 ? s->rows - 4 : 0, shown = n < room ? n : room;
	_cleanup_(spoor_freep) struct text *texts = calloc(shown + 1, sizeof(*texts));

	if (!texts)
		return -ENOMEM;
	state->most = n - shown;
	if (state->scroll > state->most)
		state->scroll = state->most;
	rows += state->scroll;
	format_rows(rows, texts, shown, v, state);
	set_status(s, v, state, n);
	set_heading(s, v, state);
	for (size_t i = 0; i < shown; i++)
		set_row(s, (unsigned)i + 3, &texts[i], spoor_stat_label_of(labels, rows[i].call->stack), v, state);
	set_help(s, v);
	return 0;
}

static int fill_labelled(struct spoor_screen *s, const struct spoor_counters *c, const struct spoor_stat_view *v,
			 const struct spoor_stat_labels *labels, struct spoor_screen_state *state)
{
	_cleanup_(spoor_freep) struct row *rows = NULL;
	struct spoor_counters folded;
	size_t n;
	int r = spoor_counters_fold(c, v->level, v->by_site, &folded);

	if (r < 0)
		return r;
	n = count_calls(&folded);
	rows = calloc(n + 1, sizeof(*rows));
	r = rows ? make_rows(&folded, v->sort, rows, n) : -ENOMEM;
	if (r == 0) {
		set_title(s, &folded, state);
		r = fill(s, rows, n, v, labels, state);
	}
	spoor_counters_done(&folded);
	return r;
}

int spoor_screen_fill(struct spoor_screen *s, const struct spoor_counters *c, const struct spoor_stat_view *v,
		      struct spoor_screen_state *state)
{
	struct spoor_stat_labels labels = {};
	struct spoor_counters labelled = {};
	int r;

	if (!v->by_site)
		return fill_labelled(s, c, v, &labels, state);
	r = spoor_stat_label(c, v, &labelled, &labels);
	if (r == 0)
		r = fill_labelled(s, &labelled, v, &labels, state);
	spoor_counters_done(&labelled);
	spoor_stat_labels_done(&labels);
	return r;
}
