/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/targets.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process.h"
#include "base/strings.h"
#include "collect/session/command.h"
#include "collect/session/preload.h"

/* ---- checking ---- */

static bool is_kernel_thread(pid_t pid)
{
	const unsigned kthread = 0x200000; /* the kernel's PF_KTHREAD */
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	char path[64], line[512], *p = NULL;
	unsigned flags = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (f && fgets(line, sizeof(line), f))
		p = strrchr(line, ')'); /* behind the name, which may hold anything */
	return p && sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & kthread;
}

/* The process of a thread and its state (R, S, Z ...); 0 if there is none. */
static pid_t read_status(pid_t tid, char *ret_state)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	char path[64], line[256], state = 0;
	pid_t tgid = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	f = fopen(path, "re");
	while (f && !tgid && fgets(line, sizeof(line), f))
		if (sscanf(line, "State: %c", &state) != 1)
			sscanf(line, "Tgid: %d", &tgid);
	*ret_state = state;
	return tgid;
}

/* All of it: a leader may have ended before its threads. */
static bool has_ended(pid_t pid)
{
	_cleanup_(spoor_closedirp) DIR *d = NULL;
	struct dirent *de;
	char path[64], state;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && (de = readdir(d))) {
		pid_t tid = atoi(de->d_name);

		if (tid > 0 && read_status(tid, &state) && state != 'Z' && state != 'X')
			return false;
	}
	return true;
}

/* /proc shows threads by their ids, too, although it does not list them. */
static int check_pid(pid_t pid, struct spoor_error *e)
{
	char state;
	pid_t tgid = read_status(pid, &state);

	if (!tgid)
		return spoor_fail(e, ESRCH, "-p %d: no such process", pid);
	if (tgid == getpid())
		return spoor_fail(e, EINVAL, "-p %d is Spoor itself, whose own calls are never taken", pid);
	if (tgid != pid)
		return spoor_fail(e, EINVAL, "-p %d is a thread, not a process: give its process's pid, %d", pid, tgid);
	if (is_kernel_thread(pid))
		return spoor_fail(e, EINVAL, "-p %d is a kernel thread: it makes no system calls", pid);
	if (state == 'Z' && has_ended(pid))
		return spoor_fail(e, ESRCH, "-p %d has ended: it is a zombie, which its parent has not waited for",
				  pid);
	return 0;
}

int spoor_targets_check(const struct spoor_targets *t, char *ret_cmd, struct spoor_error *e)
{
	for (size_t i = 0; i < t->n_pids; i++) {
		int r = check_pid(t->pids[i], e);

		if (r)
			return r;
	}
	return t->argv ? spoor_command_find(t->argv[0], ret_cmd, e) : 0;
}

/* ---- processes by name ---- */

/* Another user's, and CAP_SYS_PTRACE is missing or of no avail: its executable, memory, mappings cannot be seen. */
static bool is_hidden(pid_t pid)
{
	char path[64], exe[PATH_MAX];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return readlink(path, exe, sizeof(exe)) < 0 && (errno == EACCES || errno == EPERM) && !is_kernel_thread(pid);
}

/* What /proc has of a process under this name, its first bytes and a NUL. Returns how many they are. */
static size_t read_of(pid_t pid, const char *what, char *ret, size_t size)
{
	_cleanup_(spoor_closep) int fd = -1;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, ret, size - 1) : 0;
	ret[n > 0 ? n : 0] = '\0';
	return n > 0 ? n : 0;
}

#define COMM_LENGTH 15

/*
 * A name that comm has cut goes on in one of the first arguments: the program's own name or, behind an interpreter and
 * its option, the script's. (What AT_EXECFN points to would be certain. But who has mapped a file of his own file
 * system there could let /proc/PID/mem wait for ever; cmdline reads nothing of the kind.)
 */
static bool uncut_name(pid_t pid, const char *comm, char *args, size_t size, const char **ret)
{
	size_t n, at = 0, len;

	if (strlen(comm) != COMM_LENGTH)
		return false;
	n = read_of(pid, "cmdline", args, size);
	for (int i = 0; i < 3; i++, at += len + 1) {
		len = at < n ? strlen(args + at) : n;
		if (at + len >= n)
			return false;
		*ret = spoor_basename(args + at);
		if (!strncmp(*ret, comm, COMM_LENGTH))
			return true;
	}
	return false;
}

static bool is_named(const struct spoor_targets *t, const char *name)
{
	for (size_t i = 0; i < t->n_names; i++)
		if (!fnmatch(t->names[i], name, 0))
			return true;
	return false;
}

static bool name_matches(const struct spoor_targets *t, pid_t pid)
{
	char path[64], exe[PATH_MAX], comm[64], args[3 * PATH_MAX];
	const char *uncut;
	ssize_t n;

	n = read_of(pid, "comm", comm, sizeof(comm));
	comm[n ? n - 1 : 0] = 0;
	pid = spoor_process_thread(pid); /* of an ended leader nothing else is seen */
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	n = readlink(path, exe, sizeof(exe) - 1);
	if (n <= 0 && !is_hidden(pid))
		return false; /* a kernel thread, or gone */
	exe[n > 0 ? n : 0] = 0;
	spoor_cut_deleted(exe); /* replaced by an update, say */
	return is_named(t, spoor_basename(exe)) || is_named(t, comm) ||
	       (uncut_name(pid, comm, args, sizeof(args), &uncut) && is_named(t, uncut));
}

static void for_each_process(const struct spoor_targets *t, void (*f)(void *ctx, pid_t pid), void *ctx)
{
	_cleanup_(spoor_closedirp) DIR *d = opendir("/proc");
	struct dirent *de;

	while (d && (de = readdir(d))) {
		pid_t pid = atoi(de->d_name);

		if (pid > 0 && pid != getpid() && (t->all || name_matches(t, pid)))
			f(ctx, pid);
	}
}

size_t spoor_targets_hidden(const struct spoor_targets *t)
{
	_cleanup_(spoor_closedirp) DIR *d = t->n_names || t->all || t->cgroup ? opendir("/proc") : NULL;
	struct dirent *de;
	size_t n = 0;

	for (size_t i = 0; i < t->n_pids; i++)
		n += is_hidden(t->pids[i]);
	while (d && (de = readdir(d))) {
		pid_t pid = atoi(de->d_name);

		n += pid > 0 && is_hidden(pid);
	}
	return n;
}

static void preload_one(void *ctx, pid_t pid)
{
	spoor_preload_process(pid, ctx);
}

void spoor_targets_preload(const struct spoor_targets *t, const char *cmd, struct spoor_objects *objects)
{
	if (t->argv)
		spoor_preload_command(cmd, objects);
	for (size_t i = 0; i < t->n_pids; i++)
		spoor_preload_process(t->pids[i], objects);
	for (size_t i = 0; i < t->n_names; i++)
		spoor_preload_name(t->names[i], objects);
	if (t->n_names || t->all)
		for_each_process(t, preload_one, objects);
}

struct picking {
	const struct spoor_targets *t;
	struct spoor_kernel *k;
};

/* From the pick on the kernel side sees what it executes; what it executed just before that shows now. */
static void pick_named(void *ctx, pid_t pid)
{
	const struct picking *p = ctx;

	spoor_kernel_pick(p->k, pid, SPOOR_PICK_NAMED);
	if (!name_matches(p->t, pid))
		spoor_kernel_unpick(p->k, pid);
}

/* It stays in whatever it executes, also if it is in by its name besides. */
static void pick_by_number(const struct spoor_targets *t, struct spoor_kernel *k, pid_t pid)
{
	bool named = t->n_names && name_matches(t, pid);

	spoor_kernel_pick(k, pid,
			  SPOOR_PICK_PINNED | (t->follow ? SPOOR_PICK_FOLLOW : 0) | (named ? SPOOR_PICK_NAMED : 0));
}

static long take_in(struct spoor_kernel *k, void (*make_room)(void *ctx), void *ctx)
{
	long n = 0, more;

	for (;;) {
		more = spoor_kernel_take_in(k);
		if (more < 0)
			return more;
		n += more;
		if (!make_room || !spoor_kernel_crowded(k))
			return n;
		make_room(ctx);
	}
}

long spoor_targets_take_in(const struct spoor_targets *t, struct spoor_kernel *k, void (*make_room)(void *ctx),
			   void *ctx)
{
	long n;

	if (t->n_names)
		for_each_process(t, pick_named, &(struct picking){ t, k });
	for (size_t i = 0; i < t->n_pids; i++)
		pick_by_number(t, k, t->pids[i]);
	if (!t->n_pids && !t->n_names && !t->all && !t->cgroup)
		return 0;
	n = take_in(k, make_room, ctx);
	spoor_kernel_end_attach(k);
	return !n && t->n_pids && !t->n_names && !t->all && !t->cgroup ? -ESRCH : n;
}
