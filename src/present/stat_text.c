/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counters as text or JSON: what is said around the tables, and the choice among the forms. */
#include "present/stat_text.h"

#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings.h"
#include "base/time.h"
#include "present/stat_internal.h"

int spoor_stat_utf8(void)
{
	locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
	int utf8;

	if (locale == (locale_t)0)
		return 0;
	utf8 = !strcmp(nl_langinfo_l(CODESET, locale), "UTF-8");
	freelocale(locale);
	return utf8;
}

/* "Task: 4711:4700 worker": thread and process, as the tables of kernels' tracers say it. */
static void put_heading(FILE *out, const struct spoor_task_counters *t, const struct spoor_stat_view *v)
{
	fputs(v->colour ? "\033[1m" : "", out);
	if (!t->pid)
		fputs("Task: ended processes", out);
	else if (!t->tid)
		fprintf(out, "Task: ended threads of %d", t->pid);
	else
		fprintf(out, "Task: %d:%d", t->tid, t->pid);
	if (t->comm[0]) {
		fputc(' ', out);
		spoor_stat_put_text(out, v, t->comm, strnlen(t->comm, sizeof(t->comm)));
	}
	fputs(v->colour ? "\033[0m" : "", out);
	fprintf(out, ", %u accumulated %s", t->threads, spoor_plural(t->threads, "thread", "threads"));
	if (t->processes > 1)
		fprintf(out, " of %u processes", t->processes);
	fputc('\n', out);
}

/* Said, because a thread's own table is then not all of what it did. */
static void put_overflow(FILE *out, uint64_t n, const struct spoor_stat_view *v)
{
	if (n)
		fprintf(out, "%" PRIu64 " %s found no slot in the thread%s: %s with the process.\n", n,
			spoor_plural(n, "call", "calls"), v->by_site ? ", or the stack was walked later" : "",
			spoor_plural(n, "it stands", "they stand"));
}

static void put_span(FILE *out, const struct spoor_counters *c)
{
	uint64_t epoch = spoor_now_realtime() - spoor_now_monotonic();
	char from[32], time[32];

	spoor_format_clock(c->since_ns + epoch, from, sizeof(from));
	spoor_format_duration(spoor_sub_saturated(c->at_ns, c->since_ns), time, sizeof(time));
	fprintf(out, "%.12s, %s:\n", from, time);
}

static uint64_t overflow_of(const struct spoor_counters *c)
{
	uint64_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		n = spoor_add_saturated(n, c->tasks[i].overflow);
	return n;
}

static int put_tasks(FILE *out, struct spoor_counters *c, const struct spoor_stat_view *v,
		     const struct spoor_stat_labels *labels)
{
	int r = 0;

	for (size_t i = 0; i < c->n && r == 0; i++) {
		if (i)
			fputc('\n', out);
		put_heading(out, &c->tasks[i], v);
		r = spoor_stat_put_table(out, &c->tasks[i], v, labels);
		put_overflow(out, c->tasks[i].overflow, v);
	}
	return r;
}

static int put_text(FILE *out, struct spoor_counters *c, const struct spoor_stat_view *v,
		    const struct spoor_stat_labels *labels)
{
	int r = 0;

	if (v->delta)
		put_span(out, c);
	if (!c->n)
		fputs("No system call was counted.\n", out);
	else if (v->level == SPOOR_STAT_TREE)
		r = spoor_stat_put_tree(out, c, v);
	else
		r = put_tasks(out, c, v, labels);
	if (v->level == SPOOR_STAT_TREE)
		put_overflow(out, overflow_of(c), v);
	if (c->lost_threads)
		fprintf(out,
			"Lost: %" PRIu64 " %s not counted, nor perhaps what %s started: no memory for the "
			"counters.\n",
			c->lost_threads, spoor_plural(c->lost_threads, "thread was", "threads were"),
			spoor_plural(c->lost_threads, "it", "they"));
	if (c->lost_calls)
		fprintf(out, "Lost: %" PRIu64 " %s in no table: no memory for the counters.\n", c->lost_calls,
			spoor_plural(c->lost_calls, "call is", "calls are"));
	return r;
}

static void sort(struct spoor_counters *c, const struct spoor_stat_view *v)
{
	if (v->level != SPOOR_STAT_TREE)
		spoor_counters_sort_tasks(c, v->sort);
	for (size_t i = 0; i < c->n; i++)
		spoor_task_sort_calls(&c->tasks[i], v->sort);
}

static int print_text(FILE *out, const struct spoor_counters *c, const struct spoor_stat_view *v,
		      const struct spoor_stat_labels *labels)
{
	struct spoor_counters folded;
	int r = spoor_counters_fold(c, v->level, v->by_site, &folded);

	if (r < 0)
		return r;
	sort(&folded, v);
	r = put_text(out, &folded, v, labels);
	spoor_counters_done(&folded);
	return r;
}

static int print_json(FILE *out, const struct spoor_counters *c, const struct spoor_stat_view *v,
		      const struct spoor_stat_labels *labels)
{
	struct spoor_counters folded, sites = {};
	int r = spoor_counters_fold(c, v->level, 0, &folded);

	if (r < 0)
		return r;
	if (v->by_site)
		r = spoor_counters_fold(c, v->level, 1, &sites);
	if (r == 0) {
		sort(&folded, v);
		sort(&sites, v);
		spoor_stat_put_json(out, &folded, v->by_site ? &sites : NULL, v, labels);
	}
	spoor_counters_done(&folded);
	spoor_counters_done(&sites);
	return r;
}

int spoor_stat_print(FILE *out, const struct spoor_counters *c, const struct spoor_stat_view *v)
{
	struct spoor_stat_labels labels = {};
	struct spoor_counters labelled = {};
	int r = v->by_site ? spoor_stat_label(c, v, &labelled, &labels) : 0;

	if (r < 0)
		return r;
	if (v->by_site)
		c = &labelled;
	r = v->json ? print_json(out, c, v, &labels) : print_text(out, c, v, &labels);
	spoor_counters_done(&labelled);
	spoor_stat_labels_done(&labels);
	return r;
}
