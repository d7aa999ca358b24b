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
	const char *module = f->path ? spoor_basename(f->path) : "[anonymous]";

	fputc(';', out);
	if (line < f->n && f->lines[line].function) {
		put_field(out, f->lines[line].function, strlen(f->lines[line].function));
		return;
	}
	put_field(out, module, strlen(module));
	fprintf(out, "+%#" PRIx64, f->offset);
}

static void put_cell(struct spoor_view *v, const struct spoor_process *process, const struct spoor_cell *cell)
{
	const struct spoor_stack *stack = cell->stack ? spoor_segment_stack(cell->segment, cell->stack) : NULL;
	uint64_t value = v->by_time ? cell->count.total : cell->count.calls + cell->count.unfinished;
	const char *comm = process->comm[0] ? process->comm : "?";
	char name[64];

	if (!value)
		return;
	put_field(v->out, comm, strnlen(comm, 16));
	if (!stack)
		fputs(cell->stack ? ";[stack lost]" : ";[no stack]", v->out);
	else if (stack->status != SPOOR_WALK_COMPLETE && stack->status != SPOOR_WALK_BUDGET)
		fprintf(v->out, ";[%s]", spoor_walk_status_name(stack->status));
	for (int i = stack ? stack->n - 1 : -1; i >= 0; i--) {
		const struct spoor_frame *f = spoor_symbolize(v->symbols, cell->segment, cell->pid, stack, i);

		for (int k = f && f->n ? f->n - 1 : 0; f && k >= 0; k--)
			put_frame(v->out, f, k);
	}
	spoor_call_key_name(cell->call, name, sizeof(name));
	fprintf(v->out, ";%s %" PRIu64 "\n", name, value);
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
	r = spoor_view_matrix(v, processes, matrix, e);
	if (r < 0)
		return r;
	n = spoor_callsites_cells(matrix, &cells);
	for (size_t i = 0; i < n; i++)
		put_cell(v, spoor_processes_get(processes, cells[i].process), &cells[i]);
	/* Flame graph tools read every line of standard output. */
	fflush(out);
	v->out = stderr;
	spoor_put_footer(v);
	v->out = out;
	return 0;
}
