/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "analyze/callsites.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/select.h"
#include "base/cleanup.h"
#include "trace/syscalls.h"

struct spoor_callsites {
	struct spoor_processes *processes;
	struct spoor_cell *cells;
	size_t n, capacity;
	uint32_t *slots; /* cell number + 1; open addressing */
	size_t size;
};

int spoor_callsites_new(struct spoor_processes *processes, struct spoor_callsites **ret)
{
	struct spoor_callsites *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->processes = processes;
	*ret = c;
	return 0;
}

void spoor_callsites_free(struct spoor_callsites *c)
{
	if (!c)
		return;
	free(c->cells);
	free(c->slots);
	free(c);
}

static uint32_t *find(const struct spoor_callsites *c, uint32_t *slots, size_t size, uint32_t process, uint64_t call,
		      uint32_t stack, uint32_t whose)
{
	size_t i = (((uint64_t)stack << 32 | process) * 0x9E3779B97F4A7C15ULL ^
		    (call ^ (uint64_t)whose << 41) * 0xC2B2AE3D27D4EB4FULL) >>
		   24;

	for (;; i++) {
		uint32_t *slot = &slots[i & (size - 1)];
		const struct spoor_cell *cell;

		if (!*slot)
			return slot;
		cell = &c->cells[*slot - 1];
		if (cell->stack == stack && cell->process == process && cell->call == call && cell->whose == whose)
			return slot;
	}
}

static int grow(struct spoor_callsites *c)
{
	size_t size = c->size ? c->size * 2 : 1024;
	uint32_t *slots = calloc(size, sizeof(*slots));
	struct spoor_cell *cells = reallocarray(c->cells, size / 2, sizeof(*cells));

	if (cells) {
		c->cells = cells;
		c->capacity = size / 2;
	}
	if (!slots || !cells) {
		free(slots);
		return -ENOMEM;
	}
	for (size_t i = 0; i < c->n; i++)
		*find(c, slots, size, cells[i].process, cells[i].call, cells[i].stack, cells[i].whose) =
			(uint32_t)i + 1;
	free(c->slots);
	c->slots = slots;
	c->size = size;
	return 0;
}

static struct spoor_cell *add_cell(struct spoor_callsites *c, uint32_t *slot, const struct spoor_cell *cell)
{
	const struct spoor_stack *stack = cell->stack ? spoor_segment_stack(cell->segment, cell->stack) : NULL;

	c->cells[c->n] = *cell;
	c->cells[c->n].own_names = stack && spoor_stack_is_anonymous(stack);
	*slot = (uint32_t)++c->n;
	return &c->cells[*slot - 1];
}

/* Of a stack that means in pid something else than in the process of the cell that it has. */
static struct spoor_cell *get_own(struct spoor_callsites *c, const struct spoor_event *ev, uint32_t process,
				  uint32_t pid, uint64_t call, uint32_t stack)
{
	struct spoor_cell cell = {
		.process = process, .stack = stack, .call = call, .segment = ev->segment, .pid = pid, .whose = pid
	};
	uint32_t *slot;

	if (c->n == c->capacity && grow(c) < 0)
		return NULL;
	slot = find(c, c->slots, c->size, process, call, stack, pid);
	return *slot ? &c->cells[*slot - 1] : add_cell(c, slot, &cell);
}

static struct spoor_cell *get_cell(struct spoor_callsites *c, const struct spoor_event *ev, uint32_t pid, uint64_t call,
				   uint32_t stack)
{
	int process = spoor_processes_of(c->processes, ev->segment, pid, ev->h->tid, ev->h->ts);
	struct spoor_cell *cell;
	uint32_t *slot;

	if (process < 0 || (c->n == c->capacity && grow(c) < 0))
		return NULL;
	slot = find(c, c->slots, c->size, (uint32_t)process, call, stack, 0);
	if (!*slot)
		return add_cell(c, slot,
				&(struct spoor_cell){ .process = (uint32_t)process,
						      .stack = stack,
						      .call = call,
						      .segment = ev->segment,
						      .pid = pid });
	cell = &c->cells[*slot - 1];
	if (cell->own_names && cell->pid != pid)
		return get_own(c, ev, (uint32_t)process, pid, call, stack);
	return cell;
}

static int add_pending(struct spoor_callsites *c, const struct spoor_event *ev, uint64_t so_far)
{
	const struct spoor_pending *p = (const void *)ev->h;
	struct spoor_cell *cell = get_cell(c, ev, p->pid, p->nr, p->stack);

	if (!cell)
		return -ENOMEM;
	if (spoor_is_exit(p)) {
		cell->count.calls++;
		return 0;
	}
	cell->count.unfinished++;
	cell->count.so_far += so_far;
	return 0;
}

int spoor_callsites_add(struct spoor_callsites *c, const struct spoor_event *ev, uint64_t so_far)
{
	const struct spoor_syscall *call = (const void *)ev->h;
	const struct spoor_syscall_other *other = (const void *)ev->h;
	struct spoor_cell *cell;
	uint64_t key;

	if (ev->h->id == SPOOR_EV_PENDING)
		return add_pending(c, ev, so_far);
	key = spoor_syscall_id(ev->h);
	if (key >= SPOOR_SYSCALL_MAX)
		key = spoor_call_key((unsigned)key, other->nr, other->i386);
	cell = get_cell(c, ev, call->pid, key, call->stack);
	if (!cell)
		return -ENOMEM;
	cell->count.calls++;
	cell->count.errors += (uint64_t)spoor_ret_failed(spoor_syscall_ret(ev->h));
	cell->count.total += call->dur;
	if (call->dur > cell->count.max)
		cell->count.max = call->dur;
	return 0;
}

size_t spoor_callsites_cells(const struct spoor_callsites *c, const struct spoor_cell **ret)
{
	*ret = c->cells;
	return c->n;
}

void spoor_call_key_name(uint64_t key, char *buf, size_t size)
{
	const char *name = key < SPOOR_SYSCALL_MAX ? spoor_syscall_info((unsigned)key)->name : NULL;
	int i386 = key < SPOOR_SYSCALL_MAX ? key >= SPOOR_SYSCALL_I386 : key >> 32 & 1;
	uint32_t nr = key < SPOOR_SYSCALL_MAX ? key & (SPOOR_SYSCALL_I386 - 1) : (uint32_t)key;

	if (name)
		snprintf(buf, size, "%s%s", name, i386 ? " (i386)" : "");
	else
		snprintf(buf, size, "syscall_%u%s", nr, i386 ? " (i386)" : "");
}

const char *spoor_walk_status_name(unsigned status)
{
	static const char *const names[SPOOR_WALK_STATUS_MAX] = {
		[SPOOR_WALK_COMPLETE] = "complete",   [SPOOR_WALK_BUDGET] = "budget",
		[SPOOR_WALK_NO_ROWS] = "no rows",     [SPOOR_WALK_UNREADABLE] = "unreadable",
		[SPOOR_WALK_TRUNCATED] = "truncated", [SPOOR_WALK_GONE] = "object gone",
		[SPOOR_WALK_LOST] = "lost",           [SPOOR_WALK_BUSY] = "busy",
		[SPOOR_WALK_GUESSED] = "guessed",
	};

	return status < SPOOR_WALK_STATUS_MAX ? names[status] : "unknown";
}

const char *spoor_walk_way_name(unsigned way)
{
	static const char *const names[SPOOR_WAY_MAX] = {
		[SPOOR_WAY_KERNEL] = "kernel",
		[SPOOR_WAY_USER] = "user",
		[SPOOR_WAY_ROWS] = "rows",
		[SPOOR_WAY_FRAME_POINTERS] = "frame pointers",
	};

	return way < SPOOR_WAY_MAX ? names[way] : "unknown";
}

/* ---- sites ---- */

static char *format_label(const struct spoor_frame *f)
{
	const struct spoor_source_line *inner = f->n ? &f->lines[0] : NULL, *owner = f->n ? &f->lines[f->n - 1] : NULL;
	const char *module = f->path ? spoor_basename(f->path) : SPOOR_ANONYMOUS;
	char *text = NULL;
	int n;

	if (!inner || !inner->function)
		n = asprintf(&text, "%s+%#llx", module, (unsigned long long)f->offset);
	else if (inner->file && f->n > 1 && owner->function)
		n = asprintf(&text, "%s %s:%u (inlined in %s)", inner->function, inner->file, inner->line,
			     owner->function);
	else if (inner->file)
		n = asprintf(&text, "%s %s:%u", inner->function, inner->file, inner->line);
	else
		n = asprintf(&text, "%s+%#llx (%s+%#llx)", inner->function, (unsigned long long)owner->function_offset,
			     module, (unsigned long long)f->offset);
	return n < 0 ? NULL : text;
}

/* Of a stack in which there is no frame to name the site by; NULL: not defined, or there is none. */
static char *label_of_none(const struct spoor_stack *stack, uint32_t id)
{
	char *text;

	if (!stack)
		return strdup(id ? "[stack lost]" : "[no stack]");
	if (stack->status == SPOOR_WALK_COMPLETE)
		return strdup("[no application frame]");
	return asprintf(&text, "[no application frame: %s]", spoor_walk_status_name(stack->status)) < 0 ? NULL : text;
}

char *spoor_site_label(struct spoor_symbolizer *z, const struct spoor_segment *segment, uint32_t pid, uint32_t id)
{
	const struct spoor_stack *stack = id ? spoor_segment_stack(segment, id) : NULL;

	for (unsigned i = 0; stack && i < stack->n; i++) {
		uint32_t object = SPOOR_FRAME_OBJECT(stack->frames[i]);
		const struct spoor_object *def = spoor_segment_object(segment, object);
		const struct spoor_frame *f;

		if (!def || !(def->flags & SPOOR_OBJECT_APP))
			continue;
		f = spoor_symbolize(z, segment, pid, stack, i);
		return f ? format_label(f) : NULL;
	}
	return label_of_none(stack, id);
}

char *spoor_chain_label(struct spoor_symbolizer *z, const struct spoor_segment *segment, uint32_t pid, uint32_t id)
{
	const struct spoor_stack *stack = id ? spoor_segment_stack(segment, id) : NULL;
	char *text = NULL;
	size_t size;
	FILE *out;

	if (!stack || !stack->n)
		return label_of_none(stack, id);
	out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	for (unsigned i = 0; i < stack->n; i++) {
		const struct spoor_frame *f = spoor_symbolize(z, segment, pid, stack, i);
		_cleanup_(spoor_freep) char *label = f ? format_label(f) : NULL;

		fprintf(out, "%s%s", i ? " < " : "", label ?: "?");
	}
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

static int by_site(const void *pa, const void *pb)
{
	const struct spoor_site *a = pa, *b = pb;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	if (a->call != b->call)
		return a->call < b->call ? -1 : 1;
	return strcmp(a->label, b->label);
}

struct order {
	struct spoor_site site;
	uint64_t process_time;
};

static int by_time(const void *pa, const void *pb)
{
	const struct order *a = pa, *b = pb;

	if (a->process_time != b->process_time)
		return a->process_time > b->process_time ? -1 : 1;
	if (a->site.process != b->site.process)
		return a->site.process < b->site.process ? -1 : 1;
	if (a->site.count.total != b->site.count.total)
		return a->site.count.total > b->site.count.total ? -1 : 1;
	return by_site(&a->site, &b->site);
}

static void merge(struct spoor_count *to, const struct spoor_count *from)
{
	to->calls += from->calls;
	to->errors += from->errors;
	to->total += from->total;
	to->unfinished += from->unfinished;
	to->so_far += from->so_far;
	if (from->max > to->max)
		to->max = from->max;
}

static size_t merge_equal(struct spoor_site *sites, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		if (kept && by_site(&sites[kept - 1], &sites[i]) == 0) {
			merge(&sites[kept - 1].count, &sites[i].count);
			free(sites[i].label);
		} else {
			sites[kept++] = sites[i];
		}
	}
	return kept;
}

static int order_by_time(struct spoor_site *sites, size_t n, size_t n_processes)
{
	_cleanup_(spoor_freep) struct order *order = calloc(n + 1, sizeof(*order));
	_cleanup_(spoor_freep) uint64_t *times = calloc(n_processes + 1, sizeof(*times));

	if (!order || !times)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		times[sites[i].process] += sites[i].count.total;
	for (size_t i = 0; i < n; i++)
		order[i] = (struct order){ sites[i], times[sites[i].process] };
	qsort(order, n, sizeof(*order), by_time);
	for (size_t i = 0; i < n; i++)
		sites[i] = order[i].site;
	return 0;
}

int spoor_callsites_sites(const struct spoor_callsites *c, struct spoor_symbolizer *z,
			  void (*progress)(void *p, size_t done, size_t total), void *p, struct spoor_site **ret,
			  size_t *ret_n)
{
	struct spoor_site *sites = calloc(c->n + 1, sizeof(*sites));
	size_t n = 0;
	int r = 0;

	if (!sites)
		return -ENOMEM;
	for (; n < c->n && r == 0; n++) {
		const struct spoor_cell *cell = &c->cells[n];

		sites[n] = (struct spoor_site){ cell->process, cell->call, NULL, cell->count };
		sites[n].label = spoor_site_label(z, cell->segment, cell->pid, cell->stack);
		if (!sites[n].label)
			r = -ENOMEM;
		if (progress)
			progress(p, n + 1, c->n);
	}
	if (r == 0 && n) {
		qsort(sites, n, sizeof(*sites), by_site);
		n = merge_equal(sites, n);
		r = order_by_time(sites, n, spoor_processes_count(c->processes));
	}
	if (r < 0) {
		spoor_sites_free(sites, n);
		return r;
	}
	*ret = sites;
	*ret_n = n;
	return 0;
}

void spoor_sites_free(struct spoor_site *sites, size_t n)
{
	for (size_t i = 0; sites && i < n; i++)
		free(sites[i].label);
	free(sites);
}
