/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cmd/target_options.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strings.h"
#include "base/time.h"
#include "collect/session/filter.h"

/* ---- targets ---- */

static int add_pid(struct spoor_targets *t, const char *arg, struct spoor_error *e)
{
	uint64_t pid;

	if (spoor_parse_number(arg, 1, INT_MAX, &pid))
		return spoor_fail(e, EINVAL, "-p %s: not a process id", arg);
	if (t->n_pids == SPOOR_MAX_PIDS)
		return spoor_fail(e, E2BIG, "-p: more than %d processes", SPOOR_MAX_PIDS);
	t->pids[t->n_pids++] = pid;
	return 0;
}

static int add_name(struct spoor_targets *t, const char *arg, struct spoor_error *e)
{
	if (strlen(arg) >= SPOOR_NAME_MAX)
		return spoor_fail(e, EINVAL, "-n %s: longer than %d characters", arg, SPOOR_NAME_MAX - 1);
	if (!*arg || strpbrk(arg, "/[]"))
		return spoor_fail(e, EINVAL, "-n %s: a name with * and ?, without a path", arg);
	if (t->n_names == SPOOR_MAX_NAMES)
		return spoor_fail(e, E2BIG, "-n: more than %d names", SPOOR_MAX_NAMES);
	t->names[t->n_names++] = arg;
	return 0;
}

int spoor_target_option(int c, const char *arg, struct spoor_targets *t, int *follow, struct spoor_error *e)
{
	int r = 0;

	switch (c) {
	case 'p':
		r = add_pid(t, arg, e);
		break;
	case 'n':
		r = add_name(t, arg, e);
		break;
	case 'a':
		t->all = true;
		break;
	case SPOOR_OPT_CGROUP:
		if (!*arg)
			return spoor_fail(e, EINVAL, "--cgroup: an empty name");
		t->cgroup = arg;
		break;
	case SPOOR_OPT_FOLLOW:
	case SPOOR_OPT_NO_FOLLOW:
		*follow = c == SPOOR_OPT_FOLLOW;
		break;
	default:
		return 0;
	}
	return r ? r : 1;
}

int spoor_targets_settle(struct spoor_targets *t, int follow, const char *what, struct spoor_error *e)
{
	if (!t->argv && !t->n_pids && !t->n_names && !t->cgroup && !t->all)
		return spoor_fail(e, EINVAL, "nothing to %s: give `-- CMD`, -p PID, -n NAME, --cgroup PATH or -a",
				  what);
	if (t->argv && (t->n_pids || t->n_names || t->cgroup || t->all))
		return spoor_fail(e, EINVAL, "`-- CMD` does not go with -p, -n, --cgroup or -a");
	if (t->all && (t->n_pids || t->n_names || t->cgroup))
		return spoor_fail(e, EINVAL, "-a is everything: it does not go with -p, -n or --cgroup");
	if (t->cgroup && (t->n_pids || t->n_names))
		return spoor_fail(e, EINVAL, "--cgroup does not go with -p or -n");
	if (follow == 0 && !t->argv && !t->n_pids)
		return spoor_fail(e, EINVAL, "--no-follow goes with `-- CMD` and -p only");
	t->follow = follow < 0 ? t->argv != NULL : follow;
	return 0;
}

/* ---- values ---- */

int spoor_count_option(const char *name, const char *arg, unsigned least, unsigned most, unsigned *ret,
		       struct spoor_error *e)
{
	uint64_t n;

	if (spoor_parse_number(arg, least, most, &n))
		return spoor_fail(e, EINVAL, "%s %s: a number from %u to %u", name, arg, least, most);
	*ret = n;
	return 0;
}

int spoor_size_option(const char *name, const char *arg, uint64_t least, uint64_t *ret, struct spoor_error *e)
{
	uint64_t n;

	if (spoor_parse_size(arg, &n) || n < least)
		return spoor_fail(e, EINVAL, "%s %s: a size of at least %lu bytes, such as 64M", name, arg, least);
	*ret = n;
	return 0;
}

int spoor_duration_option(const char *name, const char *arg, uint64_t *ret, struct spoor_error *e)
{
	if (spoor_parse_duration(arg, ret) || !*ret)
		return spoor_fail(e, EINVAL, "%s %s: a time such as 10s, 500ms or 2m", name, arg);
	return 0;
}

int spoor_unwind_option(const char *arg, enum spoor_unwind *ret, struct spoor_error *e)
{
	static const char *const words[] = { "cfi", "fp", "scan" };

	for (unsigned i = 0; i < 3; i++)
		if (!strcmp(arg, words[i])) {
			*ret = i;
			return 0;
		}
	return spoor_fail(e, EINVAL, "--unwind %s: cfi, fp or scan", arg);
}

int spoor_mode_option(const char *arg, enum spoor_mode *ret, struct spoor_error *e)
{
	int mode = spoor_mode_parse(arg, e);

	if (mode >= 0)
		*ret = mode;
	return mode < 0 ? mode : 0;
}

int spoor_wrong_option(const char *verb, int c, const char *arg, struct spoor_error *e)
{
	char shown[128];

	spoor_escape_terminal(arg, strlen(arg), shown, sizeof(shown));
	return spoor_fail(e, EINVAL, "%s '%s'; 'spoor %s -h' lists the options",
			  c == ':' ? "a value is missing after" : "wrong option", shown, verb);
}

const char *spoor_cache_directory(char *buf)
{
	const char *dir = getenv("SPOOR_CACHE_DIR"), *home = getenv("HOME");

	*buf = 0;
	if (dir)
		snprintf(buf, PATH_MAX, "%s", dir);
	else if (!geteuid())
		snprintf(buf, PATH_MAX, "/var/cache/spoor");
	else if (home)
		snprintf(buf, PATH_MAX, "%s/.cache/spoor", home);
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

int spoor_snapshot_signal(const char *arg, int *ret, struct spoor_error *e)
{
	const char *name = strncmp(arg, "SIG", 3) ? arg : arg + 3;

	for (int sig = 1; sig < NSIG; sig++) {
		const char *abbrev = sigabbrev_np(sig);

		if (!abbrev || strcmp(name, abbrev))
			continue;
		if (has_another_use(sig))
			return spoor_fail(e, EINVAL, "--snapshot-on %s: that signal has another use; SIGUSR2 has none",
					  arg);
		*ret = sig;
		return 0;
	}
	return spoor_fail(e, EINVAL, "--snapshot-on %s: a signal such as SIGUSR2", arg);
}
