/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A task's system calls as a table: the columns of `strace -c`, and more after them. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings.h"
#include "base/time.h"
#include "present/stat_internal.h"
#include "trace/record.h"
#include "trace/syscalls.h"

const char *const spoor_stat_headings[SPOOR_STAT_COLUMNS] = {
	[SPOOR_STAT_SHARE] = "% time",  [SPOOR_STAT_SECONDS] = "seconds", [SPOOR_STAT_USECS] = "usecs/call",
	[SPOOR_STAT_CALLS] = "calls",   [SPOOR_STAT_ERRORS] = "errors",   [SPOOR_STAT_NAME] = "syscall",
	[SPOOR_STAT_ON_CPU] = "on CPU", [SPOOR_STAT_BLOCKED] = "blocked", [SPOOR_STAT_MAX] = "max",
};

int spoor_stat_has_column(const struct spoor_stat_view *v, unsigned column)
{
	return v->blocked || (column != SPOOR_STAT_ON_CPU && column != SPOOR_STAT_BLOCKED);
}

int spoor_stat_is_left(unsigned column)
{
	return column == SPOOR_STAT_NAME;
}

#define CELL(row, column) (row)->cells[column], sizeof((row)->cells[column])

static void format_note(const struct spoor_call_counters *c, struct spoor_stat_row *row)
{
	int noreturn = c->id < SPOOR_SYSCALL_MAX && spoor_syscall_info(c->id)->flags & SPOOR_SYSCALL_NORETURN;
	char time[32];
	size_t len = 0;

	row->note[0] = 0;
	if (c->in_flight) {
		spoor_format_duration(c->in_flight_ns, time, sizeof(time));
		len = (size_t)snprintf(row->note, sizeof(row->note), "(%" PRIu64 " in flight, %s so far%s",
				       c->in_flight, time, c->in_flight > 1 ? " together" : "");
	}
	if (c->unreturned && !noreturn)
		len += (size_t)snprintf(row->note + len, sizeof(row->note) - len, "%s%" PRIu64 " never returned",
					len ? "; " : "(", c->unreturned);
	if (c->left)
		len += (size_t)snprintf(row->note + len, sizeof(row->note) - len,
					"%s%" PRIu64 " in flight when moved away", len ? "; " : "(", c->left);
	if (len)
		snprintf(row->note + len, sizeof(row->note) - len, ")");
}

void spoor_stat_format(const struct spoor_call_counters *c, uint32_t share, struct spoor_stat_row *ret)
{
	uint64_t ns = spoor_call_shown_ns(c), calls = spoor_call_shown(c), blocked = spoor_call_shown_blocked_ns(c);
	uint64_t average = calls ? ns / calls : 0;
	char max[32];

	snprintf(CELL(ret, SPOOR_STAT_SHARE), "%u.%02u", share / 100, share % 100);
	snprintf(CELL(ret, SPOOR_STAT_SECONDS), "%" PRIu64 ".%09" PRIu64, ns / SPOOR_NS_PER_SEC, ns % SPOOR_NS_PER_SEC);
	snprintf(CELL(ret, SPOOR_STAT_USECS), "%" PRIu64 ".%03" PRIu64, average / 1000, average % 1000);
	if (!calls)
		snprintf(CELL(ret, SPOOR_STAT_USECS), "-");
	snprintf(CELL(ret, SPOOR_STAT_CALLS), "%" PRIu64, calls);
	ret->cells[SPOOR_STAT_ERRORS][0] = 0;
	if (c->errors)
		snprintf(CELL(ret, SPOOR_STAT_ERRORS), "%" PRIu64, c->errors);
	spoor_call_counters_name(c->id, CELL(ret, SPOOR_STAT_NAME));
	spoor_format_duration(spoor_sub_saturated(ns, blocked), CELL(ret, SPOOR_STAT_ON_CPU));
	spoor_format_duration(blocked, CELL(ret, SPOOR_STAT_BLOCKED));
	spoor_format_duration(c->max_ns, max, sizeof(max));
	snprintf(CELL(ret, SPOOR_STAT_MAX), "%s%s", c->max_is_bound ? "<" : "", c->calls ? max : "-");
	format_note(c, ret);
}

/* ---- text of the traced side ---- */

size_t spoor_stat_escape(const char *s, size_t len, int utf8, char *buf, size_t size)
{
	static const char digits[] = "0123456789abcdef";
	size_t at = 0;

	if (utf8)
		return spoor_escape_terminal(s, len, buf, size);
	for (size_t i = 0; i < len; i++) {
		unsigned char b = (unsigned char)s[i];
		char escaped[8];
		size_t n = b < 0x80 ? spoor_escape_terminal(s + i, 1, escaped, sizeof(escaped)) : 4;

		if (b >= 0x80)
			snprintf(escaped, sizeof(escaped), "\\x%c%c", digits[b >> 4], digits[b & 15]);
		if (at + n < size)
			memcpy(buf + at, escaped, n + 1);
		at += n;
	}
	if (!len && size)
		buf[0] = 0;
	return at;
}

void spoor_stat_put_text(FILE *out, const struct spoor_stat_view *v, const char *s, size_t len)
{
	for (size_t i = 0, n; i < len; i += n) {
		char buf[1100];

		/* Pieces, but never in the midst of a character. */
		for (n = len - i < 256 ? len - i : 256;
		     i + n < len && n > 252 && ((unsigned char)s[i + n] & 0xc0) == 0x80;)
			n--;
		spoor_stat_escape(s + i, n, v->utf8, buf, sizeof(buf));
		fputs(buf, out);
	}
}

/* ---- the table ---- */

struct table {
	const struct spoor_stat_view *v;
	FILE *out;
	int widths[SPOOR_STAT_COLUMNS];
	struct spoor_stat_row *rows; /* of the calls, then the total */
};

static void widen(int *width, const char *cell)
{
	if ((int)strlen(cell) > *width)
		*width = (int)strlen(cell);
}

static const char *errno_text(unsigned number, char *buf, size_t size)
{
	const char *name = spoor_errno_name((int)number);

	if (name)
		snprintf(buf, size, "  %s", name);
	else
		snprintf(buf, size, "  errno %u", number);
	return buf;
}

static void widen_errors(struct table *t, const struct spoor_call_counters *c)
{
	char text[48];

	for (size_t i = 0; i < c->n_errnos; i++)
		widen(&t->widths[SPOOR_STAT_NAME], errno_text(c->errnos[i].number, text, sizeof(text)));
}

static void measure(struct table *t, const struct spoor_task_counters *task)
{
	for (unsigned k = 0; k < SPOOR_STAT_COLUMNS; k++) {
		widen(&t->widths[k], spoor_stat_headings[k]);
		for (size_t i = 0; i <= task->n_calls; i++)
			widen(&t->widths[k], t->rows[i].cells[k]);
	}
	if (t->v->errors)
		for (size_t i = 0; i < task->n_calls; i++)
			widen_errors(t, &task->calls[i]);
}

static void put_cells(struct table *t, const char *const *cells, const char *site, const char *note)
{
	int blanks = 0;

	for (unsigned k = 0; k < SPOOR_STAT_COLUMNS; k++) {
		int len = (int)strlen(cells[k]), pad = t->widths[k] - len, left = spoor_stat_is_left(k);

		if (!spoor_stat_has_column(t->v, k))
			continue;
		if (!len) { /* no blanks at the end of a line */
			blanks += t->widths[k] + 1;
			continue;
		}
		fprintf(t->out, "%*s%s", blanks + (left ? 0 : pad), "", cells[k]);
		blanks = (left ? pad : 0) + 1;
	}
	if (site[0]) {
		fprintf(t->out, "%*s", blanks, "");
		spoor_stat_put_text(t->out, t->v, site, strlen(site));
		blanks = 1;
	}
	if (note[0])
		fprintf(t->out, "%*s%s", blanks, "", note);
	fputc('\n', t->out);
}

static void put_row(struct table *t, const struct spoor_stat_row *row, const char *site)
{
	const char *cells[SPOOR_STAT_COLUMNS];

	for (unsigned k = 0; k < SPOOR_STAT_COLUMNS; k++)
		cells[k] = row->cells[k];
	put_cells(t, cells, site, row->note);
}

static void put_rule(struct table *t)
{
	static const char dashes[] = "------------------------------------------------";
	const char *cells[SPOOR_STAT_COLUMNS];

	for (unsigned k = 0; k < SPOOR_STAT_COLUMNS; k++)
		cells[k] = dashes + sizeof(dashes) - 1 - t->widths[k];
	put_cells(t, cells, t->v->by_site ? "---------" : "", "");
}

static void put_errno(struct table *t, uint64_t n, const char *name)
{
	const char *cells[SPOOR_STAT_COLUMNS] = { "", "", "", "", "", "", "", "", "" };
	char number[32];

	snprintf(number, sizeof(number), "%" PRIu64, n);
	cells[SPOOR_STAT_ERRORS] = number;
	cells[SPOOR_STAT_NAME] = name;
	put_cells(t, cells, "", "");
}

static int by_number(const void *pa, const void *pb)
{
	const struct spoor_errno_count *a = pa, *b = pb;

	if (a->n != b->n)
		return a->n > b->n ? -1 : 1;
	return a->number < b->number ? -1 : a->number > b->number;
}

/* The most frequent first; what was counted as an error without its number last. */
static void put_errnos(struct table *t, const struct spoor_call_counters *c)
{
	uint64_t rest = c->errors;
	char text[48];

	if (c->n_errnos)
		qsort(c->errnos, c->n_errnos, sizeof(*c->errnos), by_number);
	for (size_t i = 0; i < c->n_errnos; i++) {
		put_errno(t, c->errnos[i].n, errno_text(c->errnos[i].number, text, sizeof(text)));
		rest = spoor_sub_saturated(rest, c->errnos[i].n);
	}
	if (rest)
		put_errno(t, rest, "  others");
}

static int make_rows(struct table *t, const struct spoor_task_counters *task)
{
	_cleanup_(spoor_freep) uint64_t *times = calloc(task->n_calls + 1, sizeof(*times));
	_cleanup_(spoor_freep) uint32_t *shares = calloc(task->n_calls + 1, sizeof(*shares));
	struct spoor_call_counters total = spoor_task_total(task);
	uint32_t sum = 0;

	t->rows = calloc(task->n_calls + 1, sizeof(*t->rows));
	if (!times || !shares || !t->rows)
		return -ENOMEM;
	for (size_t i = 0; i < task->n_calls; i++)
		times[i] = spoor_call_shown_ns(&task->calls[i]);
	if (spoor_shares(times, task->n_calls, shares) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < task->n_calls; i++) {
		spoor_stat_format(&task->calls[i], shares[i], &t->rows[i]);
		sum += shares[i];
	}
	spoor_stat_format(&total, sum, &t->rows[task->n_calls]);
	snprintf(t->rows[task->n_calls].cells[SPOOR_STAT_NAME], sizeof(t->rows->cells[0]), "total");
	t->rows[task->n_calls].note[0] = 0;
	return 0;
}

static const char *site_of(const struct table *t, const struct spoor_stat_labels *labels, uint32_t site)
{
	return t->v->by_site ? spoor_stat_label_of(labels, site) : "";
}

static void put_table(struct table *t, const struct spoor_task_counters *task, const struct spoor_stat_labels *labels)
{
	fputs(t->v->colour ? "\033[2m" : "", t->out);
	put_cells(t, spoor_stat_headings, t->v->by_site ? "call site" : "", "");
	fputs(t->v->colour ? "\033[0m" : "", t->out);
	put_rule(t);
	for (size_t i = 0; i < task->n_calls; i++) {
		put_row(t, &t->rows[i], site_of(t, labels, task->calls[i].stack));
		if (t->v->errors)
			put_errnos(t, &task->calls[i]);
	}
	put_rule(t);
	put_row(t, &t->rows[task->n_calls], "");
}

int spoor_stat_put_table(FILE *out, const struct spoor_task_counters *task, const struct spoor_stat_view *v,
			 const struct spoor_stat_labels *labels)
{
	struct table t = { .v = v, .out = out };

	if (make_rows(&t, task) < 0) {
		free(t.rows);
		return -ENOMEM;
	}
	measure(&t, task);
	put_table(&t, task, labels);
	free(t.rows);
	if (!v->histogram)
		return 0;
	for (size_t i = 0; i < task->n_calls; i++)
		if (task->calls[i].calls)
			spoor_stat_put_histogram(out, &task->calls[i],
						 v->by_site ? spoor_stat_label_of(labels, task->calls[i].stack) : NULL,
						 v);
	return 0;
}
