/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cmd/target_options.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strings.h"
#include "collect/session/check.h"
#include "collect/session/filter.h"
#include "collect/session/scope.h"

/* ---- targets ---- */

int spoor_take_pid(void *targets, const char *arg, struct spoor_error *e)
{
	struct spoor_targets *t = targets;
	uint64_t pid;

	if (spoor_parse_number(arg, 1, INT_MAX, &pid))
		return spoor_fail(e, EINVAL, "-p %s: not a process id; of several each has a -p", arg);
	if (t->n_pids == SPOOR_MAX_PIDS)
		return spoor_fail(e, E2BIG, "-p: more than %d processes", SPOOR_MAX_PIDS);
	t->pids[t->n_pids++] = pid;
	return 0;
}

int spoor_take_name(void *targets, const char *arg, struct spoor_error *e)
{
	struct spoor_targets *t = targets;

	struct spoor_names alone = { 0 };
	int r;

	if (!*arg || strchr(arg, '/'))
		return spoor_fail(e, EINVAL, "-n %s: a name, or a pattern with *, ? and [...], without a path", arg);
	r = spoor_names_add(&alone, arg, e);
	if (r)
		return r;
	if (t->n_names == SPOOR_MAX_NAMES)
		return spoor_fail(e, E2BIG, "-n: more than %d names", SPOOR_MAX_NAMES);
	t->names[t->n_names++] = arg;
	return 0;
}

int spoor_take_follow(void *targets, const char *arg, struct spoor_error *e)
{
	((struct spoor_targets *)targets)->follow_said = SPOOR_FOLLOW_YES;
	return 0;
}

int spoor_take_no_follow(void *targets, const char *arg, struct spoor_error *e)
{
	((struct spoor_targets *)targets)->follow_said = SPOOR_FOLLOW_NO;
	return 0;
}

int spoor_targets_settle(struct spoor_targets *t, const char *what, struct spoor_error *e)
{
	if (!t->argv && !t->n_pids && !t->n_names && !t->cgroup && !t->all)
		return spoor_fail(e, EINVAL, "nothing to %s: give `-- CMD`, -p PID, -n NAME, --cgroup PATH or -a",
				  what);
	if (t->argv && (t->n_pids || t->n_names || t->cgroup || t->all))
		return spoor_fail(e, EINVAL,
				  "'%s' is a command: that does not go with -p, -n (one for each), --cgroup or -a",
				  t->argv[0]);
	if (t->all && (t->n_pids || t->n_names || t->cgroup))
		return spoor_fail(e, EINVAL, "-a is everything: it does not go with -p, -n or --cgroup");
	if (t->cgroup && (t->n_pids || t->n_names))
		return spoor_fail(e, EINVAL, "--cgroup does not go with -p or -n");
	if (t->follow_said == SPOOR_FOLLOW_NO && !t->argv && !t->n_pids)
		return spoor_fail(e, EINVAL, "--no-follow goes with `-- CMD` and -p only");
	t->follow = t->follow_said ? t->follow_said == SPOOR_FOLLOW_YES : t->argv != NULL;
	return 0;
}

/* ---- what is recorded of them ---- */

int spoor_take_filter(void *filter, const char *arg, struct spoor_error *e)
{
	return spoor_filter_parse_kernel(filter, arg, e);
}

int spoor_take_mode(void *mode, const char *arg, struct spoor_error *e)
{
	int parsed = spoor_mode_parse(arg, e);

	if (parsed < 0)
		return parsed;
	*(enum spoor_mode *)mode = parsed;
	return 0;
}

int spoor_take_app(void *scope, const char *arg, struct spoor_error *e)
{
	return spoor_app_parse(scope, arg, e);
}

const char *spoor_cache_directory(char *buf)
{
	const char *dir = getenv("SPOOR_CACHE_DIR"), *home = getenv("HOME");

	*buf = 0;
	if (dir) {
		snprintf(buf, PATH_MAX, "%s", dir);
	} else if (!geteuid()) {
		snprintf(buf, PATH_MAX, "/var/cache/spoor");
	} else if (home && snprintf(buf, PATH_MAX, "%s/.cache", home) > 0) {
		mkdir(buf, 0700); /* a user who is new has none yet */
		snprintf(buf, PATH_MAX, "%s/.cache/spoor", home);
	}
	return *buf && (!mkdir(buf, 0700) || errno == EEXIST) ? buf : NULL;
}

/* ---- signals ---- */

/* Those that end a recording, tell of its command, cannot be waited for, or say that we ourselves went wrong. */
static bool has_another_use(int sig)
{
	static const int used[] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGKILL, SIGSTOP, SIGSEGV, SIGBUS,
				    SIGFPE, SIGILL,  SIGTRAP, SIGABRT, SIGSYS, SIGPIPE, SIGXFSZ };

	for (size_t i = 0; i < sizeof(used) / sizeof(*used); i++)
		if (sig == used[i])
			return true;
	return false;
}

int spoor_take_snapshot_signal(void *ret, const char *arg, struct spoor_error *e)
{
	const char *name = strncmp(arg, "SIG", 3) ? arg : arg + 3;

	for (int sig = 1; sig < NSIG; sig++) {
		const char *abbrev = sigabbrev_np(sig);

		if (!abbrev || strcmp(name, abbrev))
			continue;
		if (has_another_use(sig))
			return spoor_fail(e, EINVAL, "--snapshot-on %s: that signal has another use; SIGUSR2 has none",
					  arg);
		*(int *)ret = sig;
		return 0;
	}
	return spoor_fail(e, EINVAL, "--snapshot-on %s: a signal such as SIGUSR2", arg);
}

void spoor_say_forbidden(uint64_t files)
{
	const char *why = spoor_check_capable(CAP_DAC_READ_SEARCH) ? "a security module or their server forbids it" :
								     "CAP_DAC_READ_SEARCH is missing";

	if (files)
		fprintf(stderr, "spoor: %lu %s may not be read (%s): walks end there with \"object gone\"\n",
			(unsigned long)files, spoor_plural(files, "program or library", "programs and libraries"), why);
}
