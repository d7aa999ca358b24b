/* SPDX-License-Identifier: GPL-2.0-or-later */
/* spoor report: options in, a trace read, one of the forms of src/present out. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/report_options.h"
#include "cmd/report_times.h"
#include "trace/packed.h"

static int present(struct spoor_report_options *o, struct spoor_error *e)
{
	struct spoor_view *v = &o->view;

	if (o->blocked)
		return spoor_present_blocked(v, e);
	if (o->folded)
		return spoor_present_folded(v, e);
	if (o->json)
		return spoor_present_json(v, e);
	if (o->events)
		return spoor_present_events(v, e);
	return spoor_present_table(v, e);
}

/*
 * What is written while the trace is read would get into a terminal's line about it, also what others (grep, less) make
 * of it behind a pipe.
 */
static bool can_show_progress(const struct spoor_report_options *o)
{
	bool writes = o->json || o->events || o->blocked;
	struct stat out;

	if (!isatty(STDERR_FILENO) || o->view.follow)
		return false;
	return !writes || (fstat(STDOUT_FILENO, &out) == 0 && S_ISREG(out.st_mode));
}

/* Lines for programs do not go through a pager. */
static int show(struct spoor_report_options *o, struct spoor_trace *trace)
{
	const char *no_colour = getenv("NO_COLOR");
	bool terminal = isatty(STDOUT_FILENO), text = !o->json && !o->folded;
	struct spoor_pager pager = text && !o->view.follow ? spoor_pager_open() : (struct spoor_pager){ .out = stdout };
	struct spoor_error e = {};
	int r;

	o->view.trace = trace;
	o->view.select = &o->select;
	o->view.out = pager.out;
	o->view.json = o->json;
	o->view.colour = text && terminal && !(no_colour && *no_colour);
	o->view.progress = can_show_progress(o);
	r = present(o, &e);
	if (r == 0 && fflush(pager.out) != 0) {
		if (errno != EPIPE)
			r = spoor_fail(&e, errno, "cannot write the report: %s", strerror(errno));
		clearerr(pager.out);
	}
	spoor_pager_close(&pager);
	if (r == 0)
		return SPOOR_EXIT_OK;
	spoor_cmd_say("report", e.text);
	return SPOOR_EXIT_FAILED;
}

static volatile sig_atomic_t stopped;

static void stop(int number)
{
	stopped = 1;
}

static void tell_away(int away)
{
	fprintf(stderr, "spoor report: who writes this trace is %s\n",
		away ? "away; waiting until it is gone on with (Ctrl-C ends)" : "there again");
}

/* Ctrl-C ends the looking on, and what was lost so far is still said; a second one ends it at once. */
static void follow(struct spoor_report_options *o, struct spoor_trace *trace)
{
	struct sigaction act = { .sa_handler = stop, .sa_flags = SA_RESETHAND };

	spoor_trace_follow(trace);
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	o->view.stop = &stopped;
	o->view.tell_away = tell_away;
}

static int report(struct spoor_report_options *o)
{
	struct spoor_packed *packed = NULL;
	struct spoor_trace *trace;
	struct spoor_error e = {};
	int r = 0;

	if (spoor_trace_open(o->trace, &trace, &e) < 0) {
		spoor_cmd_say("report", e.text);
		return SPOOR_EXIT_FAILED;
	}
	if (o->view.follow)
		follow(o, trace);
	if (spoor_report_times(o->from, o->to, trace, &o->select, &e) < 0)
		r = spoor_cmd_misuse("report", &e);
	if (r == 0 && spoor_symbolizer_new(o->debug_root, NULL, &o->view.symbols) < 0) {
		spoor_cmd_say("report", "out of memory");
		r = SPOOR_EXIT_FAILED;
	}
	if (r == 0)
		spoor_symbolizer_use_trace(o->view.symbols, spoor_trace_info(trace));
	if (r == 0 && spoor_packed_open(spoor_trace_info(trace)->root, &packed) == 0)
		spoor_symbolizer_use_packed(o->view.symbols, packed);
	if (r == 0)
		r = show(o, trace);
	spoor_symbolizer_free(o->view.symbols);
	spoor_packed_close(packed);
	spoor_trace_close(trace);
	return r;
}

int spoor_cmd_report(int argc, char **argv)
{
	static struct spoor_report_options o;
	static char buffer[1 << 18];
	int r = spoor_report_parse(&o, argc, argv);

	if (r == 0) {
		setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
		r = report(&o);
	} else {
		r--;
	}
	spoor_select_done(&o.select);
	spoor_programs_done(&o.view.programs);
	return r;
}
