/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reading a trace for a report, and the text that reports have in common. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "analyze/userevents.h"
#include "base/strings.h"
#include "base/time.h"
#include "present/present.h"
#include "present/text.h"
#include "present/user.h"

static void pendings_freep(struct spoor_pendings **p)
{
	spoor_pendings_free(*p);
}

/* until: to when a call that never ended is known to have gone on. */
static int wanted(struct spoor_view *v, const struct spoor_event *ev, uint64_t until)
{
	const struct spoor_syscall *call = (const void *)ev->h; /* pid (below 2^22) and stack are at one place in all */

	if (!spoor_select_event(v->select, ev->h, until))
		return 0;
	return !v->select->functions.n ||
	       spoor_select_stack(v->select, v->symbols, ev->segment, call->pid, call->stack);
}

_Static_assert(offsetof(struct spoor_pending, stack) == offsetof(struct spoor_syscall, stack), "");
_Static_assert(offsetof(struct spoor_syscall_other, stack) == offsetof(struct spoor_syscall, stack), "");

/* Sets the pid that goes with it. */
static int wanted_user(struct spoor_view *v, const struct spoor_event *ev)
{
	const struct spoor_thread *t = spoor_segment_thread(ev->segment, ev->h->tid, ev->h->ts);
	uint32_t stack;

	v->user_pid = t ? t->pid : 0;
	if (!spoor_select_user(v->select, ev, v->user_pid))
		return 0;
	if (!v->select->functions.n)
		return 1;
	stack = spoor_user_stack(ev);
	return stack && spoor_select_stack(v->select, v->symbols, ev->segment, v->user_pid, stack);
}

static int give_other(struct spoor_view *v, const struct spoor_event *ev, spoor_each_other *other, void *p)
{
	int r = spoor_programs_see(&v->programs, ev);

	if (r < 0)
		return r;
	if (ev->class) {
		if (!wanted_user(v, ev))
			return 0;
		if (!v->tally.user_events++)
			v->first_user_ts = ev->h->ts;
		v->last_user_ts = ev->h->ts;
	}
	return other ? other(v, ev, p) : 0;
}

static int is_final(const struct spoor_event_header *h)
{
	return h->id == SPOOR_EV_PENDING && spoor_pending_is_final((const struct spoor_pending *)h);
}

static int give_completed(struct spoor_view *v, const struct spoor_event *ev, spoor_each_call *each, void *p)
{
	if (!wanted(v, ev, ev->h->ts))
		return 0;
	v->tally.calls++;
	v->tally.began_before += v->start_is_bound;
	v->tally.errors += (uint64_t)spoor_ret_failed(spoor_syscall_ret(ev->h));
	return each(v, ev, 0, p);
}

static uint64_t known_until(const struct spoor_view *v, const struct spoor_event *ev, enum spoor_unfinished why)
{
	const struct spoor_pending *p = (const void *)ev->h;

	return why != SPOOR_UNFINISHED_IN_FLIGHT || spoor_pending_is_final(p) ? ev->h->ts : v->last_ts;
}

static int give_unfinished(struct spoor_view *v, const struct spoor_event *ev, enum spoor_unfinished why,
			   spoor_each_call *each, void *p)
{
	if (!wanted(v, ev, known_until(v, ev, why)))
		return 0;
	if (spoor_is_exit((const void *)ev->h))
		v->tally.calls++;
	else
		v->tally.unfinished++;
	return each(v, ev, why, p);
}

/* What is final has been given where it stood. */
static int read_unfinished(struct spoor_view *v, const struct spoor_pendings *pendings, spoor_each_call *each, void *p)
{
	enum spoor_unfinished why;
	struct spoor_event ev;
	size_t it = 0;
	int r = 0;

	while (r == 0 && spoor_pendings_next(pendings, &it, &ev, &why))
		if (!is_final(ev.h))
			r = give_unfinished(v, &ev, why, each, p);
	return r;
}

/* Their completed events have been given, and counted. */
static int read_killed(struct spoor_view *v, const struct spoor_pendings *pendings, spoor_each_call *each, void *p)
{
	const struct spoor_trace_info *info = spoor_trace_info(v->trace);
	uint64_t from = UINT64_MAX;
	struct spoor_event ev;
	size_t it = 0;
	int r = 0;

	if (!info->ended && !info->live) /* who killed the recorder may have killed the program as well */
		from = v->last_ts > SPOOR_NS_PER_SEC ? v->last_ts - SPOOR_NS_PER_SEC : 0;
	while (r == 0 && spoor_pendings_next_killed(pendings, &it, from, &ev))
		if (wanted(v, &ev, ev.h->ts))
			r = each(v, &ev, SPOOR_UNFINISHED_KILLED, p);
	return r;
}

/* What is being written comes some times a second. */
#define LOOK_AGAIN_US 100000

static int must_stop(const struct spoor_view *v)
{
	return v->stop && *v->stop;
}

/* Once each time. */
static void look_who_writes(struct spoor_view *v)
{
	int away = spoor_trace_info(v->trace)->away;

	if (away != v->writer_away && v->tell_away)
		v->tell_away(away);
	v->writer_away = away;
}

/* The next event, waiting for it if the trace is followed. As spoor_trace_next(). */
static int next(struct spoor_view *v, struct spoor_event *ev)
{
	int r = must_stop(v) ? 0 : spoor_trace_next(v->trace, ev);

	while (r == 0 && v->follow && !must_stop(v)) {
		int live = spoor_trace_info(v->trace)->live;

		if (fflush(v->out))
			return -EPIPE;
		r = spoor_trace_more(v->trace);
		look_who_writes(v);
		if (r == 0)
			r = spoor_trace_next(v->trace, ev);
		if (r != 0 || !live) /* it had ended before we looked */
			break;
		usleep(LOOK_AGAIN_US);
	}
	return r;
}

int spoor_view_read(struct spoor_view *v, spoor_each_call *each, spoor_each_other *other, void *p,
		    struct spoor_error *e)
{
	_cleanup_(pendings_freep) struct spoor_pendings *pendings = NULL;
	struct spoor_event ev;
	int r = spoor_pendings_new(&pendings);

	if (r == 0 && v->killed)
		spoor_pendings_keep_killed(pendings);
	while (r == 0 && (r = next(v, &ev)) == 1) {
		if (!v->first_ts)
			v->first_ts = ev.h->ts;
		v->last_ts = ev.h->ts;
		r = spoor_pendings_see(pendings, &ev);
		if (r < 0)
			break;
		v->start_is_bound = r > 0;
		if (ev.h->id <= SPOOR_EV_SYSCALL_OTHER)
			r = give_completed(v, &ev, each, p);
		else if (is_final(ev.h))
			r = give_unfinished(v, &ev, SPOOR_UNFINISHED_IN_FLIGHT, each, p);
		else if (ev.h->id != SPOOR_EV_PENDING)
			r = give_other(v, &ev, other, p);
	}
	if (r == 0)
		r = read_unfinished(v, pendings, each, p);
	if (r == 0 && v->killed)
		r = read_killed(v, pendings, each, p);
	if (r == -EPIPE)
		return 0;
	return r < 0 ? spoor_fail(e, -r, "cannot read on: %s", strerror(-r)) : 0;
}

uint64_t spoor_view_so_far(const struct spoor_view *v, const struct spoor_event *ev, enum spoor_unfinished why)
{
	const struct spoor_pending *p = (const void *)ev->h;
	uint64_t until = known_until(v, ev, why);
	uint64_t from = p->start ? p->start : ev->h->ts;

	return until > from ? until - from : 0;
}

struct counts {
	struct spoor_callsites *matrix;
	struct spoor_userevents *user;
};

static int add_to_matrix(struct spoor_view *v, const struct spoor_event *ev, enum spoor_unfinished why, void *p)
{
	const bool pending = ev->h->id == SPOOR_EV_PENDING;

	return spoor_callsites_add(((struct counts *)p)->matrix, ev, pending ? spoor_view_so_far(v, ev, why) : 0);
}

static int add_user(struct spoor_view *v, const struct spoor_event *ev, void *p)
{
	struct counts *counts = p;

	return ev->class && counts->user ? spoor_userevents_add(counts->user, ev, v->user_pid) : 0;
}

int spoor_view_has_calls(const struct spoor_view *v)
{
	if (v->select->events.n && !spoor_select_chooses_calls(v->select))
		return 0;
	return spoor_trace_info(v->trace)->has_calls || v->tally.calls || v->tally.unfinished;
}

int spoor_view_matrix(struct spoor_view *v, struct spoor_callsites *matrix, struct spoor_userevents *user,
		      struct spoor_error *e)
{
	struct counts counts = { matrix, user };
	const struct spoor_cell *cells;
	int r = spoor_view_read(v, add_to_matrix, add_user, &counts, e);
	size_t n;

	if (r < 0)
		return r;
	n = spoor_callsites_cells(matrix, &cells);
	for (size_t i = 0; i < n; i++)
		spoor_tally_stack(&v->tally, cells[i].segment, cells[i].stack,
				  cells[i].count.calls + cells[i].count.unfinished);
	return 0;
}

const char *spoor_view_comm(const struct spoor_segment *segment, uint32_t tid, uint64_t ts)
{
	const struct spoor_thread *t = spoor_segment_thread(segment, tid, ts);

	return t && t->comm[0] ? t->comm : "?";
}

/* "function", "function (inlined)", "module+0x12" of one line of a frame, without file and line. */
static void put_frame_name(FILE *out, const struct spoor_frame *f, int line)
{
	const struct spoor_source_line *l = line < f->n ? &f->lines[line] : NULL;

	if (l && l->function)
		spoor_put_string(out, l->function);
	else if (f->path)
		spoor_put_string(out, spoor_basename(f->path));
	else
		fputs(SPOOR_ANONYMOUS, out);
	if (!l || !l->function)
		fprintf(out, "+%#" PRIx64, f->offset);
}

static void put_frame_line(FILE *out, const struct spoor_frame *f, int line, const char *indent)
{
	const struct spoor_source_line *l = line < f->n ? &f->lines[line] : NULL;

	fputs(indent, out);
	put_frame_name(out, f, line);
	if (l && l->function && !l->inlined && f->n == line + 1 && !l->file)
		fprintf(out, "+%#" PRIx64, l->function_offset);
	if (l && l->file) {
		fputc(' ', out);
		spoor_put_string(out, l->file);
		fprintf(out, ":%u", l->line);
	}
	if (l && l->inlined) {
		fputs(" (inlined)\n", out);
		return;
	}
	if (l && l->function) {
		fputs(" (", out);
		spoor_put_string(out, f->path ? spoor_basename(f->path) : SPOOR_ANONYMOUS);
		fprintf(out, "+%#" PRIx64 ")", f->offset);
	}
	fputc('\n', out);
}

void spoor_put_stack(struct spoor_view *v, const struct spoor_segment *segment, uint32_t pid, uint32_t id,
		     const char *indent)
{
	const struct spoor_stack *stack = id ? spoor_segment_stack(segment, id) : NULL;

	if (!stack) {
		fprintf(v->out, "%s%s\n", indent, id ? "[stack lost]" : "[no stack]");
		return;
	}
	for (unsigned i = 0; i < stack->n; i++) {
		const struct spoor_frame *f = spoor_symbolize(v->symbols, segment, pid, stack, i);

		for (int k = 0; f && (k == 0 || k < f->n); k++)
			put_frame_line(v->out, f, k, indent);
	}
	if (stack->status != SPOOR_WALK_COMPLETE)
		fprintf(v->out, "%s[%s]\n", indent, spoor_walk_status_name(stack->status));
	else if (!stack->n)
		fprintf(v->out, "%s[no application frame]\n", indent);
}

const char *spoor_pending_name(unsigned why)
{
	switch (why) {
	case SPOOR_PENDING_SLEEP:
		return "sleep";
	case SPOOR_PENDING_BEFORE:
		return "before";
	case SPOOR_PENDING_END:
		return "end";
	case SPOOR_PENDING_DEATH:
		return "death";
	case SPOOR_PENDING_LEFT:
		return "left";
	case SPOOR_PENDING_KILLED:
		return "killed";
	}
	return "unknown";
}
