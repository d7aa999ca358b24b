/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `spoor stat`: options in, counters kept in the kernel (src/collect/session/counting.c), tables out. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/signals.h"
#include "base/strings.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/stat_fill.h"
#include "cmd/stat_options.h"
#include "cmd/target_options.h"
#include "present/stat_sites.h"
#include "present/stat_watch.h"

struct stat {
	struct spoor_stat_options o;
	FILE *out;
	struct spoor_watch *watch;
	struct spoor_symbolizer *symbols; /* --by site, as the next */
	struct spoor_stat_sites sites;
	struct spoor_counters last; /* --interval: what was shown the last time */
	bool has_last;
	int error; /* of printing ended processes */
};

/* ---- looking ---- */

static void freep_counters(struct spoor_counters *c)
{
	spoor_counters_done(c);
}

static int flush(struct stat *s)
{
	if (!fflush(s->out) && !ferror(s->out))
		return 0;
	if (s->o.c.targets.argv && spoor_file_unread(fileno(s->out)))
		return 0; /* a reader who left early is no error: how the command ends is still to be told */
	return -(errno ? errno : EIO);
}

static int print(struct stat *s, const struct spoor_counters *c, bool delta)
{
	struct spoor_stat_view v = s->o.view;
	int r;

	v.delta = delta;
	r = spoor_stat_print(s->out, c, &v);
	return r ? r : flush(s);
}

/* Threads are kept apart where somebody asks for them. Code made at run time has its name by process. */
static enum spoor_stat_level level_of_snapshots(const struct stat *s)
{
	const struct spoor_stat_view *v = &s->o.view;

	return s->watch || (v->by_site && v->level == SPOOR_STAT_APPLICATION) ? SPOOR_STAT_THREAD : v->level;
}

/* An application is the same one, even if it is known by another process now: one that began before the others came. */
static void keep_application(struct stat *s, const struct spoor_counters *now)
{
	struct spoor_task_counters *last = s->last.tasks;

	if (level_of_snapshots(s) != SPOOR_STAT_APPLICATION || !s->last.n || !now->n)
		return;
	last->pid = now->tasks[0].pid;
	last->tid = now->tasks[0].tid;
	last->start_ns = now->tasks[0].start_ns;
	last->process_start_ns = now->tasks[0].process_start_ns;
}

static int print_interval(struct stat *s, struct spoor_counters *now)
{
	_cleanup_(freep_counters) struct spoor_counters delta = {};
	int r = 0;

	if (s->has_last) {
		keep_application(s, now);
		r = spoor_counters_delta(&s->last, now, &delta);
		spoor_counters_done(&s->last);
	}
	if (!r)
		r = print(s, s->has_last ? &delta : now, true);
	s->last = *now;
	s->has_last = true;
	*now = (struct spoor_counters){};
	return r;
}

static void see_sites(struct stat *s, const struct spoor_counting *c)
{
	if (c->sites)
		s->sites.segment = spoor_site_stacks_segment(c->sites);
}

static int look(void *ctx, struct spoor_counting *c, enum spoor_counting_why why)
{
	struct stat *s = ctx;
	_cleanup_(freep_counters) struct spoor_counters now = {};
	int r = spoor_stat_fill(c, level_of_snapshots(s), &now);

	if (r)
		return r;
	see_sites(s, c);
	if (s->watch && why == SPOOR_COUNTING_INTERVAL)
		return spoor_watch_draw(s->watch, &now);
	if (s->watch) {
		spoor_watch_close(s->watch);
		s->watch = NULL;
	}
	if (why == SPOOR_COUNTING_INTERVAL)
		return print_interval(s, &now);
	if (why != SPOOR_COUNTING_END || !s->o.c.interval_ns || s->o.watch)
		return print(s, &now, false);
	r = print_interval(s, &now); /* what came since the last one: they add up to the whole */
	return r ? r : print(s, &s->last, false);
}

static bool on_key(void *ctx, struct spoor_counting *c)
{
	struct stat *s = ctx;

	switch (spoor_watch_key(s->watch)) {
	case SPOOR_WATCH_QUIT:
		return false;
	case SPOOR_WATCH_DRAW:
		return !spoor_watch_draw(s->watch, NULL);
	default:
		return true;
	}
}

static int print_final(void *ctx, struct spoor_counters *c)
{
	struct stat *s = ctx;
	struct spoor_stat_view v = s->o.view;
	int r;

	v.level = SPOOR_STAT_PROCESS;
	r = spoor_stat_print(s->out, c, &v);
	return r ? r : flush(s);
}

/* --each-exit */
static void on_finals(void *ctx, struct spoor_counting *c)
{
	struct stat *s = ctx;
	int r;

	see_sites(s, c);
	r = spoor_stat_take_finals(c, print_final, s);
	s->error = s->error ?: r;
}

/* ---- beginning and end ---- */

static void say_ready(void *ctx, long threads)
{
	const struct stat *s = ctx;

	if (!s->watch)
		fprintf(stderr, "spoor: counting %ld %s; %s\n", threads, spoor_plural(threads, "thread", "threads"),
			s->o.c.duration_ns ? "it ends by itself" : "Ctrl-C ends it");
}

static void say_output(const struct stat *s)
{
	struct spoor_error e;

	spoor_fail(&e, errno, "-o %s: %s", s->o.output, strerror(errno));
	spoor_cmd_say("stat", e.text);
}

static int open_output(struct stat *s)
{
	s->out = stderr;
	if (!s->o.output)
		return 0;
	s->out = fopen(s->o.output, "we");
	if (s->out)
		return 0;
	say_output(s);
	return -1;
}

/* Who counts for nobody is ended by that, as is usual; not for a file, and not before a command is. */
static void outlive_reader(const struct stat *s)
{
	if (s->o.c.targets.argv || lseek(fileno(s->out), 0, SEEK_CUR) >= 0)
		spoor_signals_survive(SIGPIPE);
}

static void look_of(struct stat *s)
{
	const char *no_colour = getenv("NO_COLOR");
	struct winsize size;
	int fd = fileno(s->out);

	s->o.view.utf8 = spoor_stat_utf8();
	if (!isatty(fd))
		return;
	s->o.view.colour = !no_colour || !*no_colour;
	if (!ioctl(fd, TIOCGWINSZ, &size))
		s->o.view.width = size.ws_col;
}

static int open_watch(struct stat *s)
{
	struct spoor_error e = { "" };

	if (!s->o.watch)
		return 0;
	if (spoor_watch_open(&s->o.view, &s->watch, &e)) {
		spoor_cmd_say("stat", e.text);
		return -1;
	}
	s->o.c.fd = spoor_watch_fd(s->watch);
	s->o.c.on_fd = on_key;
	if (!s->o.c.interval_ns)
		s->o.c.interval_ns = SPOOR_NS_PER_SEC;
	return 0;
}

static int open_symbols(struct stat *s)
{
	int r = s->o.view.by_site ? spoor_symbolizer_new(NULL, NULL, &s->symbols) : 0;

	if (r) {
		spoor_cmd_say("stat", strerror(-r));
		return -1;
	}
	s->sites.symbols = s->symbols;
	s->sites.chains = s->o.c.mode != SPOOR_MODE_APP || spoor_filter_uses(&s->o.c.filter, SPOOR_MODE_APP_ALL) ||
			  spoor_filter_uses(&s->o.c.filter, SPOOR_MODE_LIB);
	if (s->symbols) {
		spoor_symbolizer_use_now(s->symbols);
		spoor_stat_sites_use(&s->o.view, &s->sites);
	}
	return 0;
}

static int failed(const struct stat *s)
{
	return s->o.c.targets.argv ? SPOOR_EXIT_INTERNAL : SPOOR_EXIT_FAILED;
}

static int say_end(const struct stat *s, const struct spoor_counting_result *r)
{
	if (r->lost_stacks)
		fprintf(stderr, "spoor: %lu call sites are unknown: there was no room for their stacks, or no time\n",
			(unsigned long)r->lost_stacks);
	spoor_say_forbidden(r->forbidden);
	if (s->error) {
		fprintf(stderr, "spoor stat: cannot write: %s\n", strerror(-s->error));
		return failed(s);
	}
	if (r->end != SPOOR_END_COMMAND)
		return SPOOR_EXIT_OK;
	return WIFEXITED(r->wait_status) ? WEXITSTATUS(r->wait_status) : 128 + WTERMSIG(r->wait_status);
}

static int run(struct stat *s)
{
	struct spoor_counting_result result;
	struct spoor_error e = { "" };
	int r;

	s->o.c.ctx = s;
	s->o.c.ready = say_ready;
	s->o.c.look = look;
	s->o.c.finals = on_finals;
	r = spoor_counting_run(&s->o.c, &result, &e);
	spoor_watch_close(s->watch);
	s->watch = NULL;
	if (r) {
		spoor_cmd_say("stat", spoor_error_text(&e, r));
		return failed(s);
	}
	return say_end(s, &result);
}

int spoor_cmd_stat(int argc, char **argv)
{
	static struct stat s;
	int r = spoor_stat_parse(&s.o, argc, argv);

	if (r)
		return r - 1;
	if (open_symbols(&s) || open_output(&s))
		return failed(&s);
	outlive_reader(&s);
	look_of(&s);
	r = open_watch(&s) ? failed(&s) : run(&s);
	if (s.o.output && fclose(s.out)) {
		say_output(&s);
		r = failed(&s);
	}
	spoor_counters_done(&s.last);
	spoor_symbolizer_free(s.symbols);
	return r;
}
