/* SPDX-License-Identifier: GPL-2.0-or-later */
/* User events in the default report: how many of each, and how often. */
#include <inttypes.h>

#include "analyze/userevents.h"
#include "base/time.h"
#include "present/present.h"
#include "present/text.h"
#include "present/user.h"

static void put_rate(FILE *out, const struct spoor_userevent_row *row)
{
	uint64_t span = row->last - row->first;

	/* Between the first and the last there is one step fewer than there are events. */
	if (row->count < 2 || !span)
		fprintf(out, "%10s", "-");
	else
		fprintf(out, "%10.4g", (double)(row->count - 1) * SPOOR_NS_PER_SEC / (double)span);
}

static void put_row(struct spoor_view *v, const struct spoor_userevent_row *row)
{
	char count[32];

	spoor_format_count(row->count, count, sizeof(count));
	fprintf(v->out, "%10s ", count);
	put_rate(v->out, row);
	fputs("  ", v->out);
	spoor_put_string(v->out, row->class->name);
	spoor_put_format(v->out, "  ", row->class);
	if (row->class->file[0] && !row->class->format) { /* else it is in the name */
		fputs("  ", v->out);
		spoor_put_string(v->out, row->class->file);
		fprintf(v->out, ":%u", row->class->line);
	}
	fputc('\n', v->out);
}

static void put_process(struct spoor_view *v, const struct spoor_process *process,
			const struct spoor_userevent_row *rows, size_t n)
{
	size_t shown = v->top && v->top < n ? v->top : n;
	uint64_t sum = 0, rest = 0;
	char count[32];

	for (size_t i = 0; i < n; i++)
		sum += rows[i].count;
	spoor_format_count(sum, count, sizeof(count));
	spoor_put_process_name(v, process);
	fprintf(v->out, ": %s user events\n", count);
	fprintf(v->out, "%s%10s %10s  %s%s\n", v->colour ? "\033[2m" : "", "count", "per second", "event, a site of it",
		v->colour ? "\033[0m" : "");
	for (size_t i = 0; i < shown; i++)
		put_row(v, &rows[i]);
	for (size_t i = shown; i < n; i++)
		rest += rows[i].count;
	if (shown < n) {
		spoor_format_count(rest, count, sizeof(count));
		fprintf(v->out, "%10s  in %zu more rows (--top 0 shows them)\n", count, n - shown);
	}
}

void spoor_put_userevents(struct spoor_view *v, const struct spoor_processes *processes, struct spoor_userevents *user,
			  int more)
{
	const struct spoor_userevent_row *rows;
	size_t n = spoor_userevents_rows(user, &rows);

	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && rows[end].process == rows[i].process; end++)
			;
		if (i || more)
			fputc('\n', v->out);
		put_process(v, spoor_processes_get(processes, rows[i].process), rows + i, end - i);
	}
}
