/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * --blocked: which calls were in flight when the recording ended, or when their thread was killed, on what, for how
 * long, and from where.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/strings.h"
#include "base/time.h"
#include "present/address.h"
#include "present/call.h"
#include "present/present.h"
#include "present/text.h"
#include "trace/syscalls.h"

struct blocked {
	struct spoor_event ev; /* a copy of its own */
	enum spoor_unfinished why;
	uint64_t so_far;
};

struct list {
	struct blocked *items;
	size_t n, n_killed;
};

static int collect(struct spoor_view *v, const struct spoor_event *ev, enum spoor_unfinished why, void *p)
{
	struct list *list = p;
	struct blocked *items;
	void *copy;

	/* Ended with their thread, out of sight, or their end was lost: not in flight any more. */
	if (!why || why == SPOOR_UNFINISHED_LOST || spoor_pending_is_final((const struct spoor_pending *)ev->h))
		return 0;
	items = reallocarray(list->items, list->n + 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	list->items = items;
	copy = malloc(spoor_event_size(ev->h));
	if (!copy)
		return -ENOMEM;
	memcpy(copy, ev->h, spoor_event_size(ev->h));
	list->n_killed += why == SPOOR_UNFINISHED_KILLED;
	items[list->n++] = (struct blocked){ { copy, ev->segment, NULL, ev->cpu }, why, spoor_view_so_far(v, ev, why) };
	spoor_tally_stack(&v->tally, ev->segment, ((const struct spoor_pending *)ev->h)->stack, 1);
	return 0;
}

static int by_time(const void *pa, const void *pb)
{
	const struct blocked *a = pa, *b = pb;

	if (a->so_far != b->so_far)
		return a->so_far > b->so_far ? -1 : 1;
	return a->ev.h->tid < b->ev.h->tid ? -1 : a->ev.h->tid > b->ev.h->tid;
}

/* Of futex_waitv() only the list of the futexes is known: where each of them is, is in the program's memory. */
static void put_futex(FILE *out, const char *name, const struct spoor_call *call)
{
	const uint64_t at = call->args[0].value, n = call->args[1].value;

	if (strcmp(name, "futex_waitv"))
		fprintf(out, "    on futex %#" PRIx64 "\n", at);
	else
		fprintf(out, "    on %" PRIu64 " %s, listed at %#" PRIx64 "\n", n, spoor_plural(n, "futex", "futexes"),
			at);
}

/* waitid()'s own words for whose end is waited for (wait(2)); a pidfd is known by its number alone. */
static void put_child(FILE *out, int which, int64_t id)
{
	switch (which) {
	case P_PID:
		fprintf(out, "    on process %" PRId64 "\n", id);
		return;
	case P_PGID:
		fputs("    on a child of ", out);
		fprintf(out, id ? "process group %" PRId64 "\n" : "its own process group\n", id);
		return;
	case P_PIDFD:
		fprintf(out, "    on the process of descriptor %" PRId64 "\n", id);
		return;
	case P_ALL:
		fputs("    on any child\n", out);
	}
}

/* As wait4() and waitpid() take it. */
static void put_wait(FILE *out, int64_t pid)
{
	if (pid > 0)
		put_child(out, P_PID, pid);
	else if (pid == -1)
		put_child(out, P_ALL, 0);
	else
		put_child(out, P_PGID, -pid);
}

/* The thing waited for: a descriptor's file, a futex's address, a child. */
static void put_object(struct spoor_view *v, const struct spoor_event *ev, const struct spoor_call *call)
{
	const char *name = call->info->name ?: "";

	for (unsigned i = 0; i < call->n_args; i++) {
		if (!call->args[i].file || call->args[i].value == (uint64_t)-100)
			continue;
		fprintf(v->out, "    on descriptor %" PRId64, (int64_t)call->args[i].value);
		spoor_put_file(v->out, ev->segment, call->args[i].file);
		fputc('\n', v->out);
		return;
	}
	if (!strncmp(name, "futex", 5) && call->n_args)
		put_futex(v->out, name, call);
	else if ((!strcmp(name, "wait4") || !strcmp(name, "waitpid")) && call->n_args)
		put_wait(v->out, (int64_t)call->args[0].value);
	else if (!strcmp(name, "waitid") && call->n_args > 1)
		put_child(v->out, (int)call->args[0].value, (int64_t)call->args[1].value);
}

/* A recording that was killed did not see how long the call went on. */
static bool is_exact(const struct spoor_view *v, const struct blocked *b)
{
	const struct spoor_pending *p = (const void *)b->ev.h;

	return p->exact && p->start && (b->why == SPOOR_UNFINISHED_KILLED || spoor_trace_info(v->trace)->ended);
}

static void put_blocked(struct spoor_view *v, const struct blocked *b)
{
	const struct spoor_pending *p = (const void *)b->ev.h;
	struct spoor_call call;
	char time[32];

	if (spoor_call_decode(&b->ev, &call) < 0) {
		v->n_undecodable++;
		return;
	}
	spoor_format_duration(b->so_far, time, sizeof(time));
	fputs(v->colour ? "\033[1m" : "", v->out);
	spoor_put_string(v->out, spoor_view_comm(b->ev.segment, call.tid, p->h.ts));
	fprintf(v->out, "[%u]%s", call.pid, v->colour ? "\033[0m" : "");
	if (call.tid != call.pid)
		fprintf(v->out, " thread %u", call.tid);
	fprintf(v->out, ": for %s%s%s in ", is_exact(v, b) ? "" : "at least ", time,
		b->why == SPOOR_UNFINISHED_KILLED ? ", until it was killed," : "");
	spoor_put_call(v->out, &call, b->ev.segment);
	fputc('\n', v->out);
	put_object(v, &b->ev, &call);
	spoor_put_stack(v, b->ev.segment, call.pid, call.stack, "      ");
	fputc('\n', v->out);
}

static void put_counts(struct spoor_view *v, size_t n, size_t n_killed)
{
	fprintf(v->out, "%zu %s in flight at the end", n, spoor_plural(n, "call was", "calls were"));
	if (n_killed)
		fprintf(v->out, ", and %zu %s until %s killed", n_killed, spoor_plural(n_killed, "was", "were"),
			spoor_plural(n_killed, "its thread was", "their threads were"));
	fputs(".\n", v->out);
}

static void free_list(struct list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free((void *)list->items[i].ev.h);
	free(list->items);
}

int spoor_present_blocked(struct spoor_view *v, struct spoor_error *e)
{
	struct list list = {};
	int r;

	v->killed = 1;
	r = spoor_view_read(v, collect, NULL, &list, e);
	if (r == 0 && list.n)
		qsort(list.items, list.n, sizeof(*list.items), by_time);
	for (size_t i = 0; i < list.n && r == 0; i++) {
		spoor_view_progress(v, "naming call sites", i + 1, list.n);
		if (v->json)
			spoor_put_event_json(v, &list.items[i].ev, list.items[i].why);
		else
			put_blocked(v, &list.items[i]);
	}
	spoor_view_progress_end(v);
	if (r == 0 && v->json) {
		spoor_put_summary_json(v);
	} else if (r == 0) {
		put_counts(v, list.n - list.n_killed, list.n_killed);
		spoor_put_footer(v);
	}
	free_list(&list);
	return r;
}
