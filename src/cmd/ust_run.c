/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `spoor ust run -- CMD`: a recorder of its own for a command and its descendants. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/signals.h"
#include "base/strings.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/ust.h"
#include "cmd/target_options.h"
#include "cmd/ust_options.h"
#include "collect/session/command.h"
#include "collect/user/perf.h"
#include "collect/user/private.h"

struct run {
	struct spoor_ust_cmd_options o;
	char **argv;
	char command[4096];
	char cache[PATH_MAX];
	struct spoor_private_hub private;
	struct spoor_ust_session *session;
	struct spoor_command child;
	int signal_fd;
	bool stop, named, made_usttrace; /* named: the trace, by -o */
	int status, snapshot_signal;
	unsigned n_snapshots;
};

/* ---- options ---- */

/* False: it was named, or there are too many of that name. */
static bool choose_output(struct run *r)
{
	const char *command = spoor_basename(r->argv[0]);
	char date[32], what[65];
	int n = 0;

	if (r->named)
		return false;
	spoor_escape_file_name(command, strlen(command), what, sizeof(what));
	spoor_format_date(spoor_now_realtime(), date, sizeof(date));
	do {
		char again[16] = "";

		if (n++)
			snprintf(again, sizeof(again), "-%d", n);
		snprintf(r->o.output, sizeof(r->o.output), "usttrace/%s-%s%s.spoor", date, what, again);
	} while (n < 1000 && !access(r->o.output, F_OK));
	return n < 1000;
}

/* ./usttrace/ is where the paper's usttrace puts it. */
static int default_output(struct run *r, struct spoor_error *e)
{
	r->named = r->o.output[0];
	if (r->named)
		return 0;
	r->made_usttrace = !mkdir("usttrace", 0700);
	if (!r->made_usttrace && errno != EEXIST)
		return spoor_fail(e, errno, "usttrace: cannot be created: %s; choose another place with -o",
				  strerror(errno));
	choose_output(r);
	return 0;
}

static void join_command(struct run *r)
{
	int n = 0;

	while (r->argv[n])
		n++;
	spoor_shell_words(r->argv, n, r->command, sizeof(r->command));
}

static const struct spoor_option options[] = {
	SPOOR_UST_OPTIONS(struct run, o),
	{ "snapshot-on", 0, SPOOR_OPTION_OWN, SPOOR_AT(struct run, snapshot_signal),
	  .take = spoor_take_snapshot_signal },
	{},
};

/* 0, or the exit code + 1. */
static int parse(struct run *r, int argc, char **argv)
{
	const struct spoor_command_line line = { .verb = "ust run", .options = options, .has_command = true };
	struct spoor_error e = { "" };
	int err;

	spoor_ust_options_init(&r->o);
	err = spoor_options_parse(&line, argc, argv, r, NULL, &e);
	if (err > 0)
		return spoor_cmd_usage("ust") + 1;
	r->argv = argv + optind;
	if (!err && !*r->argv)
		err = spoor_fail(&e, EINVAL, "which command? spoor ust run [OPTION...] -- CMD [ARGUMENT...]");
	if (!err)
		err = spoor_ust_options_check(&r->o, &e);
	if (err)
		return spoor_cmd_misuse("ust", &e) + 1;
	spoor_ust_options_settle(&r->o);
	if (default_output(r, &e)) {
		spoor_ust_say(e.text);
		return SPOOR_EXIT_INTERNAL + 1;
	}
	join_command(r);
	return 0;
}

/* ---- beginning ---- */

static void warn(void *ctx, const char *text)
{
	spoor_ust_say(text);
}

static int open_session(struct run *r, struct spoor_error *e)
{
	char missing[1024];
	int err;

	r->o.s.name = "run";
	r->o.s.output = r->o.output;
	r->o.s.command = r->command;
	do
		err = spoor_ust_session_new(&r->o.s, 0, &r->session, e);
	while (err == -EEXIST && !access(r->o.output, F_OK) && choose_output(r)); /* another one took it meanwhile */
	for (unsigned i = 0; i < r->o.n_rules && !err; i++)
		err = spoor_ust_session_rule(r->session, &r->o.rules[i], e);
	if (err)
		return err;
	spoor_user_perf_missing(spoor_ust_options_contexts(&r->o), missing, sizeof(missing));
	if (*missing)
		spoor_ust_say(missing);
	r->session->recording = true;
	spoor_hub_add(r->private.hub, r->session);
	return 0;
}

static int begin(struct run *r, struct spoor_error *e)
{
	struct spoor_error why = { "" };
	char path[PATH_MAX], text[sizeof(why.text) + 64];
	int err;

	spoor_signals_survive(SIGPIPE);
	err = spoor_command_find(r->argv[0], path, e);
	if (!err)
		err = spoor_private_open(&r->private, spoor_cache_directory(r->cache), warn, r, e);
	if (!err)
		err = open_session(r, e);
	if (!err)
		err = r->signal_fd = spoor_signals_watch(r->snapshot_signal, e);
	if (err < 0)
		return err;
	if (spoor_private_environment(&r->private, path, &why)) {
		snprintf(text, sizeof(text), "%s: only programs that are linked with it are traced", why.text);
		spoor_ust_say(text);
	}
	err = spoor_command_fork(r->argv, path, &r->child, e);
	return err ? err : spoor_command_go(&r->child, e);
}

/* ---- under way ---- */

static void take_snapshot(struct run *r)
{
	char path[PATH_MAX + 32], shown[PATH_MAX];
	struct spoor_error e = { "" };
	size_t n = strlen(r->o.output);

	if (n > 6 && !strcmp(r->o.output + n - 6, ".spoor"))
		n -= 6;
	do
		snprintf(path, sizeof(path), "%.*s-snapshot-%u.spoor", (int)n, r->o.output, ++r->n_snapshots);
	while (!access(path, F_OK));
	if (spoor_hub_snapshot(r->private.hub, r->session, path, &e)) {
		spoor_ust_say(e.text);
		return;
	}
	spoor_escape_line(path, strlen(path), shown, sizeof(shown));
	fprintf(stderr, "spoor ust: snapshot in %s\n", shown);
}

static void take_signals(struct run *r)
{
	struct signalfd_siginfo si;

	while (read(r->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGCHLD) {
			if (r->child.pid && waitpid(r->child.pid, &r->status, WNOHANG) == r->child.pid) {
				r->child.pid = 0;
				r->stop = true;
			}
		} else if ((int)si.ssi_signo == r->snapshot_signal) {
			take_snapshot(r);
		} else {
			r->stop = true;
		}
	}
}

static void serve(void *ctx)
{
	struct run *r = ctx;

	spoor_hub_serve(r->private.hub);
	take_signals(r);
}

static void loop(struct run *r)
{
	while (!r->stop) {
		struct pollfd fds[] = { { .fd = spoor_hub_fd(r->private.hub), .events = POLLIN },
					{ .fd = r->signal_fd, .events = POLLIN } };

		poll(fds, 2, spoor_hub_tick(r->private.hub));
		if (fds[0].revents)
			spoor_hub_serve(r->private.hub);
		if (fds[1].revents)
			take_signals(r);
		if (r->session->failed)
			r->stop = true;
	}
	spoor_command_await(&r->child, serve, r);
	spoor_hub_serve(r->private.hub);
}

/* ---- the end ---- */

static void say_end(const struct run *r, const struct spoor_hub_result *result)
{
	char sum[192], shown[PATH_MAX];

	spoor_escape_line(r->o.output, strlen(r->o.output), shown, sizeof(shown));
	fprintf(stderr, "spoor: %s in %s\n", spoor_ust_sum(result, sum, sizeof(sum)), shown);
	spoor_ust_say_end(result);
}

int spoor_ust_cmd_run(int argc, char **argv)
{
	static struct run r = { .signal_fd = -1 };
	struct spoor_hub_result result = {};
	struct spoor_error e = { "" };
	int err = parse(&r, argc, argv);

	if (err)
		return err - 1;
	err = begin(&r, &e);
	if (err) {
		spoor_ust_say(spoor_error_text(&e, err));
		spoor_command_drop(&r.child);
		if (r.session && r.private.hub)
			spoor_hub_end(r.private.hub, r.session, NULL, NULL);
		spoor_private_close(&r.private);
		if (r.session) /* nothing was recorded: the next try may use the name */
			spoor_remove_tree(r.o.output);
		if (r.made_usttrace)
			rmdir("usttrace"); /* unless there is something in it */
		return SPOOR_EXIT_INTERNAL;
	}
	loop(&r);
	spoor_private_call_heirs(&r.private, r.session, NULL, NULL);
	spoor_hub_catch_up(r.private.hub, NULL);
	err = spoor_hub_end(r.private.hub, r.session, &result, &e);
	spoor_private_close(&r.private);
	if (err && !result.why[0])
		snprintf(result.why, sizeof(result.why), "%s", e.text);
	say_end(&r, &result);
	if (result.why[0])
		return SPOOR_EXIT_INTERNAL;
	if (r.child.pid)
		return SPOOR_EXIT_OK;
	return WIFEXITED(r.status) ? WEXITSTATUS(r.status) : 128 + WTERMSIG(r.status);
}
