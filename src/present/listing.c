/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --events: every call as a line, like strace, and every user event. Lines are in the order in which calls ended. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>

#include "base/time.h"
#include "present/call.h"
#include "present/present.h"
#include "present/text.h"
#include "present/user.h"
#include "trace/syscalls.h"

/* "12:34:56.789012", local time. */
static void put_clock(FILE *out, uint64_t realtime)
{
	char text[32];

	spoor_format_clock(realtime, text, sizeof(text));
	fprintf(out, "%.15s", text);
}

static void put_begin(struct spoor_view *v, uint32_t tid, uint64_t ts)
{
	fprintf(v->out, "%s[%u]%s ", v->colour ? "\033[2m" : "", tid, v->colour ? "\033[0m" : "");
	put_clock(v->out, ts + spoor_trace_info(v->trace)->epoch_offset);
	fputc(' ', v->out);
}

static void put_unfinished(struct spoor_view *v, const struct spoor_event *ev, const struct spoor_call *call,
			   enum spoor_unfinished why)
{
	uint64_t so_far = spoor_view_so_far(v, ev, why);
	char text[32];

	fputs(" = ?", v->out);
	if (call->info->flags & SPOOR_SYSCALL_NORETURN && call->pending == SPOOR_PENDING_DEATH)
		return;
	fputs(" <unfinished: ", v->out);
	if (why == SPOOR_UNFINISHED_LOST) {
		fputs("its end was lost>", v->out);
		return;
	}
	fputs(call->pending == SPOOR_PENDING_DEATH ? "its thread ended in it" :
	      call->pending == SPOOR_PENDING_LEFT  ? "its thread left the recording" :
						     "in flight at the end",
	      v->out);
	if (so_far && !spoor_pending_is_final((const struct spoor_pending *)ev->h)) {
		spoor_format_duration(so_far, text, sizeof(text));
		fprintf(v->out, ", %s%s so far", ((const struct spoor_pending *)ev->h)->exact ? "" : "at least ", text);
	}
	fputc('>', v->out);
}

static int each(struct spoor_view *v, const struct spoor_event *ev, enum spoor_unfinished why, void *p)
{
	struct spoor_call call;

	spoor_view_listed(v);
	spoor_tally_stack(&v->tally, ev->segment, ((const struct spoor_syscall *)ev->h)->stack, 1);
	if (spoor_call_decode(ev, &call) < 0) {
		v->n_undecodable++;
		return 0;
	}
	put_begin(v, call.tid, call.start ? call.start : ev->h->ts);
	spoor_put_call(v->out, &call, ev->segment);
	if (why) {
		put_unfinished(v, ev, &call, why);
	} else {
		fputs(" = ", v->out);
		spoor_put_ret(v->out, &call, ev->segment);
		fprintf(v->out, " <%s%" PRIu64 ".%06u>", v->start_is_bound ? "began before, at least " : "",
			call.dur / SPOOR_NS_PER_SEC, (unsigned)(call.dur % SPOOR_NS_PER_SEC / 1000));
	}
	fputc('\n', v->out);
	if (v->stacks)
		spoor_put_stack(v, ev->segment, call.pid, call.stack, "    > ");
	return ferror(v->out) ? -EPIPE : 0;
}

static int in_time(const struct spoor_view *v, uint64_t ts)
{
	return ts >= v->select->from && (!v->select->to || ts <= v->select->to);
}

/* Anything that chooses calls or user events hides what is neither; times and threads choose all. */
static int chooses(const struct spoor_select *s)
{
	return spoor_select_chooses_calls(s) || s->functions.n || s->events.n;
}

static int put_user(struct spoor_view *v, const struct spoor_event *ev)
{
	spoor_view_listed(v);
	put_begin(v, ev->h->tid, ev->h->ts);
	spoor_put_user(v->out, ev);
	fputc('\n', v->out);
	if (v->stacks && spoor_user_stack(ev))
		spoor_put_stack(v, ev->segment, v->user_pid, spoor_user_stack(ev), "    > ");
	return ferror(v->out) ? -EPIPE : 0;
}

static void put_exit(struct spoor_view *v, const struct spoor_thread_exit *x)
{
	put_begin(v, x->h.tid, x->h.ts);
	if (x->kind == SPOOR_EXIT_LEFT)
		fputs("--- left the recording ---\n", v->out);
	else if (x->kind == SPOOR_EXIT_EXEC)
		fprintf(v->out, "+++ superseded by execve in thread %d +++\n", x->code);
	else if (WIFSIGNALED(x->code))
		fprintf(v->out, "+++ killed by SIG%s +++\n", sigabbrev_np(WTERMSIG(x->code)) ?: "?");
	else
		fprintf(v->out, "+++ exited with %d +++\n", WEXITSTATUS(x->code));
}

static int other(struct spoor_view *v, const struct spoor_event *ev, void *p)
{
	const struct spoor_config *config = (const void *)ev->h;
	const struct spoor_select *s = v->select;

	if (ev->class)
		return put_user(v, ev);
	if (!in_time(v, ev->h->ts))
		return 0;
	if (ev->h->id == SPOOR_EV_CONFIG) {
		put_begin(v, ev->h->tid, ev->h->ts);
		fputs("--- ", v->out);
		spoor_put_string(v->out, config->text);
		fputs(" ---\n", v->out);
	}
	if (ev->h->id == SPOOR_EV_THREAD_EXIT && !chooses(s) &&
	    spoor_select_thread(s, ((const struct spoor_thread_exit *)ev->h)->pid, ev->h->tid))
		put_exit(v, (const void *)ev->h);
	return ferror(v->out) ? -EPIPE : 0;
}

int spoor_present_events(struct spoor_view *v, struct spoor_error *e)
{
	int r = spoor_view_read(v, each, other, NULL, e);

	spoor_view_progress_end(v);
	if (r < 0)
		return r;
	spoor_put_footer(v);
	return 0;
}
