/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The default report: per process or application, system calls by call site of its own code, and its user events. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/userevents.h"
#include "base/cleanup.h"
#include "base/strings.h"
#include "base/time.h"
#include "present/present.h"
#include "present/text.h"

static void processes_freep(struct spoor_processes **p)
{
	spoor_processes_free(*p);
}

static void callsites_freep(struct spoor_callsites **c)
{
	spoor_callsites_free(*c);
}

static void userevents_freep(struct spoor_userevents **u)
{
	spoor_userevents_free(*u);
}

static void show_progress(void *p, size_t done, size_t total)
{
	spoor_view_progress(p, "naming call sites", done, total);
}

static uint64_t sort_key(const struct spoor_view *v, const struct spoor_site *s)
{
	switch (v->sort) {
	case SPOOR_SORT_CALLS:
		return s->count.calls;
	case SPOOR_SORT_ERRORS:
		return s->count.errors;
	case SPOOR_SORT_MAX:
		return s->count.max;
	default:
		return s->count.total;
	}
}

static int by_key(const void *pa, const void *pb, void *p)
{
	const struct spoor_site *a = pa, *b = pb;
	uint64_t x = sort_key(p, a), y = sort_key(p, b);

	if (x != y)
		return x > y ? -1 : 1;
	if (a->count.calls != b->count.calls)
		return a->count.calls > b->count.calls ? -1 : 1;
	if (a->call != b->call)
		return a->call < b->call ? -1 : 1;
	return strcmp(a->label, b->label);
}

void spoor_put_process_name(struct spoor_view *v, const struct spoor_process *process)
{
	const char *comm = process->comm[0] ? process->comm : "?";

	fputs(v->colour ? "\033[1m" : "", v->out);
	if (v->by == SPOOR_BY_ALL)
		fputs("all processes", v->out);
	else
		spoor_put_text(v->out, comm, strnlen(comm, 16));
	if (v->by == SPOOR_BY_PROCESS)
		fprintf(v->out, "[%u]", process->pid);
	else
		fprintf(v->out, " (%u %s)", process->n_pids, spoor_plural(process->n_pids, "process", "processes"));
	fputs(v->colour ? "\033[0m" : "", v->out);
}

static void put_heading(struct spoor_view *v, const struct spoor_process *process, const struct spoor_count *sum)
{
	char calls[32], errors[32], time[32];

	spoor_format_count(sum->calls, calls, sizeof(calls));
	spoor_format_count(sum->errors, errors, sizeof(errors));
	spoor_format_duration(sum->total, time, sizeof(time));
	spoor_put_process_name(v, process);
	fprintf(v->out, ": %s %s, %s failed, %s in them", calls, spoor_plural(sum->calls, "call", "calls"), errors,
		time);
	if (sum->unfinished)
		fprintf(v->out, ", %" PRIu64 " never ended", sum->unfinished);
	fputc('\n', v->out);
}

static void put_site(struct spoor_view *v, const struct spoor_site *s)
{
	char calls[32], errors[32] = "", total[32] = "-", avg[32] = "-", max[32] = "-", name[64];
	const struct spoor_count *c = &s->count;

	spoor_format_count(c->calls, calls, sizeof(calls));
	if (c->errors)
		spoor_format_count(c->errors, errors, sizeof(errors));
	if (c->calls) {
		spoor_format_duration(c->total, total, sizeof(total));
		spoor_format_duration(c->total / c->calls, avg, sizeof(avg));
		spoor_format_duration(c->max, max, sizeof(max));
	}
	spoor_call_key_name(s->call, name, sizeof(name));
	fprintf(v->out, "%10s %8s  %9s  %9s  %9s  %-18s ", calls, errors, total, avg, max, name);
	spoor_put_string(v->out, s->label);
	if (c->unfinished)
		fprintf(v->out, " (and %" PRIu64 " never ended)", c->unfinished);
	fputc('\n', v->out);
}

static void add(struct spoor_count *to, const struct spoor_count *from)
{
	to->calls += from->calls;
	to->errors += from->errors;
	to->total += from->total;
	to->unfinished += from->unfinished;
}

static void put_process(struct spoor_view *v, const struct spoor_process *process, struct spoor_site *sites, size_t n)
{
	struct spoor_count sum = {}, rest = {};
	size_t shown = v->top && v->top < n ? v->top : n;
	char calls[32], time[32];

	for (size_t i = 0; i < n; i++)
		add(&sum, &sites[i].count);
	qsort_r(sites, n, sizeof(*sites), by_key, v);
	put_heading(v, process, &sum);
	fprintf(v->out, "%s%10s %8s  %9s  %9s  %9s  %-18s %s%s\n", v->colour ? "\033[2m" : "", "calls", "errors",
		"total", "avg", "max", "system call", "call site", v->colour ? "\033[0m" : "");
	for (size_t i = 0; i < shown; i++)
		put_site(v, &sites[i]);
	for (size_t i = shown; i < n; i++)
		add(&rest, &sites[i].count);
	if (shown < n) {
		spoor_format_count(rest.calls, calls, sizeof(calls));
		spoor_format_duration(rest.total, time, sizeof(time));
		fprintf(v->out, "%10s  in %zu more rows, %s (--top 0 shows them)\n", calls, n - shown, time);
	}
}

static void put_sites(struct spoor_view *v, const struct spoor_processes *processes, struct spoor_site *sites, size_t n)
{
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && sites[end].process == sites[i].process; end++)
			;
		if (i)
			fputc('\n', v->out);
		put_process(v, spoor_processes_get(processes, sites[i].process), sites + i, end - i);
	}
	if (!n && spoor_view_has_calls(v))
		fputs("No call of the trace fits.\n", v->out);
}

static void put_title(struct spoor_view *v)
{
	const struct spoor_trace_info *info = spoor_trace_info(v->trace);

	fputs("Recorded", v->out);
	if (info->hostname[0]) {
		fputs(" on ", v->out);
		spoor_put_string(v->out, info->hostname);
	}
	if (info->release[0]) {
		fputs(", Linux ", v->out);
		spoor_put_string(v->out, info->release);
	}
	if (info->mode[0]) {
		fputs(", ", v->out);
		spoor_put_string(v->out, info->mode);
	}
	if (info->command[0]) {
		fputs(": ", v->out);
		spoor_put_line(v->out, info->command);
	}
	fputs("\n\n", v->out);
}

int spoor_present_table(struct spoor_view *v, struct spoor_error *e)
{
	_cleanup_(processes_freep) struct spoor_processes *processes = NULL;
	_cleanup_(callsites_freep) struct spoor_callsites *matrix = NULL;
	_cleanup_(userevents_freep) struct spoor_userevents *user = NULL;
	struct spoor_site *sites;
	size_t n;
	int r;

	if (spoor_processes_new(v->by, &processes) < 0 || spoor_callsites_new(processes, &matrix) < 0 ||
	    spoor_userevents_new(processes, &user) < 0)
		return spoor_fail(e, ENOMEM, "out of memory");
	r = spoor_view_matrix(v, matrix, user, e);
	if (r < 0)
		return r;
	put_title(v);
	r = spoor_callsites_sites(matrix, v->symbols, show_progress, v, &sites, &n);
	spoor_view_progress_end(v);
	if (r < 0)
		return spoor_fail(e, -r, "out of memory");
	put_sites(v, processes, sites, n);
	spoor_sites_free(sites, n);
	spoor_put_userevents(v, processes, user, n > 0);
	spoor_put_footer(v);
	return 0;
}
