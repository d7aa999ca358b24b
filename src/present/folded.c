/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Folded stacks, as flame graph tools take them: comm;outermost;...;innermost;system_call COUNT. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings.h"
#include "present/present.h"

static void processes_freep(struct spoor_processes **p)
{
	spoor_processes_free(*p);
}

static void callsites_freep(struct spoor_callsites **c)
{
	spoor_callsites_free(*c);
}

/* A name is one field: the separators of the format, and what a terminal must not see, become '_'. */
static void put_field(FILE *out, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];

		fputc(c == ';' ? ':' : c < ' ' || c == 0x7f || c >= 0x80 ? '_' : c, out);
	}
}

static void put_frame(FILE *out, const struct spoor_frame *f, int line)
{
	const char *module = f->path ? spoor_basename(f->path) : SPOOR_ANONYMOUS;

	fputc(';', out);
	if (line < f->n && f->lines[line].function) {
		put_field(out, f->lines[line].function, strlen(f->lines[line].function));
		return;
	}
	put_field(out, module, strlen(module));
	fprintf(out, "+%#" PRIx64, f->offset);
}

static void put_cell(struct spoor_view *v, FILE *out, const struct spoor_process *process,
		     const struct spoor_cell *cell)
{
	const struct spoor_stack *stack = cell->stack ? spoor_segment_stack(cell->segment, cell->stack) : NULL;
	const char *comm = process->comm[0] ? process->comm : "?";
	char name[64];

	put_field(out, comm, strnlen(comm, 16));
	if (!stack)
		fputs(cell->stack ? ";[stack lost]" : ";[no stack]", out);
	else if (stack->status != SPOOR_WALK_COMPLETE && stack->status != SPOOR_WALK_BUDGET)
		fprintf(out, ";[%s]", spoor_walk_status_name(stack->status));
	for (int i = stack ? stack->n - 1 : -1; i >= 0; i--) {
		const struct spoor_frame *f = spoor_symbolize(v->symbols, cell->segment, cell->pid, stack, i);

		for (int k = f && f->n ? f->n - 1 : 0; f && k >= 0; k--)
			put_frame(out, f, k);
	}
	spoor_call_key_name(cell->call, name, sizeof(name));
	fprintf(out, ";%s", name);
}

struct line {
	char *text;
	uint64_t value;
};

static int by_text(const void *pa, const void *pb)
{
	const struct line *a = pa, *b = pb;

	return strcmp(a->text, b->text);
}

static void free_lines(struct line *lines, size_t n)
{
	for (size_t i = 0; lines && i < n; i++)
		free(lines[i].text);
	free(lines);
}

static int make_lines(struct spoor_view *v, struct spoor_processes *processes, const struct spoor_cell *cells, size_t n,
		      struct line *lines, size_t *ret_n)
{
	for (size_t i = 0; i < n; i++) {
		const struct spoor_count *count = &cells[i].count;
		uint64_t value = v->by_time ? count->total + count->so_far : count->calls + count->unfinished;
		size_t size;
		FILE *out;

		spoor_view_progress(v, "naming call sites", i + 1, n);
		if (!value)
			continue;
		out = open_memstream(&lines[*ret_n].text, &size);
		if (!out)
			return -ENOMEM;
		put_cell(v, out, spoor_processes_get(processes, cells[i].process), &cells[i]);
		lines[*ret_n].value = value;
		if (fclose(out))
			return -ENOMEM;
		++*ret_n;
	}
	return 0;
}

/* Equal stacks may have several ids (those that user space unwound have one each): here they are one line. */
static int put_lines(struct spoor_view *v, struct spoor_processes *processes, const struct spoor_cell *cells, size_t n)
{
	struct line *lines = calloc(n + 1, sizeof(*lines));
	size_t n_lines = 0;
	uint64_t sum = 0;
	int r = lines ? make_lines(v, processes, cells, n, lines, &n_lines) : -ENOMEM;

	spoor_view_progress_end(v);
	if (r == 0)
		qsort(lines, n_lines, sizeof(*lines), by_text);
	for (size_t i = 0; r == 0 && i < n_lines; i++) {
		sum += lines[i].value;
		if (i + 1 < n_lines && !by_text(&lines[i], &lines[i + 1]))
			continue;
		fprintf(v->out, "%s %" PRIu64 "\n", lines[i].text, sum);
		sum = 0;
	}
	free_lines(lines, lines ? n + 1 : 0);
	return r;
}

int spoor_present_folded(struct spoor_view *v, struct spoor_error *e)
{
	_cleanup_(processes_freep) struct spoor_processes *processes = NULL;
	_cleanup_(callsites_freep) struct spoor_callsites *matrix = NULL;
	const struct spoor_cell *cells;
	FILE *out = v->out;
	size_t n;
	int r;

	if (spoor_processes_new(SPOOR_BY_APP, &processes) < 0 || spoor_callsites_new(processes, &matrix) < 0)
		return spoor_fail(e, ENOMEM, "out of memory");
	r = spoor_view_matrix(v, matrix, NULL, e);
	if (r < 0)
		return r;
	n = spoor_callsites_cells(matrix, &cells);
	r = put_lines(v, processes, cells, n);
	if (r < 0)
		return spoor_fail(e, ENOMEM, "out of memory");
	/* Flame graph tools read every line of standard output. */
	if (fflush(out) && errno != EPIPE)
		return spoor_fail(e, errno, "cannot write the report: %s", strerror(errno));
	v->out = stderr;
	spoor_put_footer(v);
	v->out = out;
	return 0;
}
