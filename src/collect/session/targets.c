/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/targets.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/process.h"
#include "base/signals.h"
#include "base/strings.h"
#include "object/executable.h"

static void closedirp(DIR **d)
{
	if (*d)
		closedir(*d);
}

/* ---- checking ---- */

static bool runnable(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

/* As execvp(3) looks for it. */
static int find_command(const char *name, char *ret, struct spoor_error *e)
{
	const char *dirs = getenv("PATH");
	struct stat st;

	if (strchr(name, '/')) {
		snprintf(ret, PATH_MAX, "%s", name);
		if (runnable(name))
			return 0;
		if (stat(name, &st))
			return spoor_fail(e, ENOENT, "%s: no such command", name);
		return spoor_fail(e, EACCES, "%s: not an executable file", name);
	}
	for (const char *d = dirs ? dirs : "/usr/local/bin:/usr/bin:/bin"; *name;) {
		size_t len = strcspn(d, ":");

		/* An empty one is the working directory. */
		snprintf(ret, PATH_MAX, "%.*s/%s", len ? (int)len : 1, len ? d : ".", name);
		if (runnable(ret))
			return 0;
		if (!d[len])
			break;
		d += len + 1;
	}
	return spoor_fail(e, ENOENT, "%s: no such command in PATH", name);
}

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
	_cleanup_(closedirp) DIR *d = NULL;
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
	return t->argv ? find_command(t->argv[0], ret_cmd, e) : 0;
}

/* ---- preloading ---- */

/* What a thread has mapped executable. Returns false if it has nothing mapped at all: it has ended. */
static bool preload_mappings(pid_t tid, struct spoor_objects *objects)
{
	char path[64], line[4400], perms[8];
	unsigned long start, end, ino;
	bool any = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", tid);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		int at = 0;

		any = true;
		if (sscanf(line, "%lx-%lx %7s %*x %*x:%*x %lu %n", &start, &end, perms, &ino, &at) != 4 || !at ||
		    perms[2] != 'x' || !ino)
			continue;
		line[strcspn(line, "\n")] = 0;
		spoor_cut_deleted(line);
		spoor_objects_preload_mapping(objects, tid, start, end, ino, line + at, NULL);
	}
	fclose(f);
	return any;
}

/* A leader that has ended shows no mappings, though its threads have them. */
static void preload_process(pid_t pid, struct spoor_objects *objects)
{
	_cleanup_(closedirp) DIR *d = NULL;
	struct dirent *de;
	char path[64];

	if (preload_mappings(pid, objects))
		return;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && (de = readdir(d))) {
		pid_t tid = atoi(de->d_name);

		if (tid > 0 && tid != pid && preload_mappings(tid, objects))
			return;
	}
}

/*
 * What a command will map at its start: the dynamic loader is asked (it runs no code of the program). A script's
 * interpreter counts as the program.
 */
static void preload_command(const char *path, struct spoor_objects *objects, int depth)
{
	_cleanup_(spoor_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	char interp[PATH_MAX] = "", script[PATH_MAX], line[2 * PATH_MAX];
	struct stat before, after;
	int out[2], status;
	FILE *f;
	pid_t pid;

	if (fd < 0)
		return;
	spoor_object_script(fd, script, sizeof(script));
	if (script[0] && depth < 4) {
		preload_command(script, objects, depth + 1);
		return;
	}
	spoor_objects_preload(objects, path);
	spoor_object_interpreter(fd, interp, sizeof(interp));
	if (!interp[0] || fstat(fd, &before) || stat(path, &after) || before.st_ino != after.st_ino ||
	    pipe2(out, O_CLOEXEC))
		return;
	pid = fork();
	if (!pid) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(out[1], 1);
		dup2(null, 2);
		alarm(2);
		execl(interp, interp, "--list", path, (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	f = fdopen(out[0], "r");
	while (f && fgets(line, sizeof(line), f)) {
		char *lib = strchr(line, '/'), *real;

		if (!lib)
			continue;
		lib[strcspn(lib, " \n")] = 0;
		real = realpath(lib, NULL);
		if (real)
			spoor_objects_preload(objects, real);
		free(real);
	}
	if (f)
		fclose(f);
	if (pid > 0)
		waitpid(pid, &status, 0);
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
	_cleanup_(closedirp) DIR *d = opendir("/proc");
	struct dirent *de;

	while (d && (de = readdir(d))) {
		pid_t pid = atoi(de->d_name);

		if (pid > 0 && pid != getpid() && (t->all || name_matches(t, pid)))
			f(ctx, pid);
	}
}

size_t spoor_targets_hidden(const struct spoor_targets *t)
{
	_cleanup_(closedirp) DIR *d = t->n_names || t->all || t->cgroup ? opendir("/proc") : NULL;
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
	preload_process(pid, ctx);
}

/* A program that may start later: the one of this very name that a shell would find, sbin included. */
static void preload_name(const char *name, struct spoor_objects *objects)
{
	static const char *const dirs[] = { "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin" };

	for (unsigned i = 0; !strpbrk(name, "*?[\\") && i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		_cleanup_(spoor_freep) char *real = NULL;
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", dirs[i], name);
		real = runnable(path) ? realpath(path, NULL) : NULL;
		if (real) {
			preload_command(real, objects, 0);
			return;
		}
	}
}

void spoor_targets_preload(const struct spoor_targets *t, const char *cmd, struct spoor_objects *objects)
{
	_cleanup_(spoor_freep) char *real = t->argv ? realpath(cmd, NULL) : NULL;

	if (real)
		preload_command(real, objects, 0);
	for (size_t i = 0; i < t->n_pids; i++)
		preload_process(t->pids[i], objects);
	for (size_t i = 0; i < t->n_names; i++)
		preload_name(t->names[i], objects);
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

long spoor_targets_take_in(const struct spoor_targets *t, struct spoor_kernel *k)
{
	long n;

	if (t->n_names)
		for_each_process(t, pick_named, &(struct picking){ t, k });
	for (size_t i = 0; i < t->n_pids; i++)
		pick_by_number(t, k, t->pids[i]);
	if (!t->n_pids && !t->n_names && !t->all && !t->cgroup)
		return 0;
	n = spoor_kernel_take_in(k);
	spoor_kernel_end_attach(k);
	return !n && t->n_pids && !t->n_names && !t->all && !t->cgroup ? -ESRCH : n;
}

/* ---- the command ---- */

static bool is_elf(const char *path)
{
	_cleanup_(spoor_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	char magic[4];

	return fd >= 0 && read(fd, magic, 4) == 4 && !memcmp(magic, "\177ELF", 4);
}

static void exec_by_shell(char **argv, const char *path)
{
	_cleanup_(spoor_freep) char **sh = NULL;
	size_t n = 0;

	while (argv[n])
		n++;
	sh = calloc(n + 2, sizeof(*sh)); /* "sh", the path in the command's place, its arguments, NULL */
	if (!sh)
		return;
	sh[0] = "sh";
	sh[1] = (char *)path;
	memcpy(sh + 2, argv + 1, n * sizeof(*sh));
	execv("/bin/sh", sh);
}

int spoor_command_fork(char **argv, const char *path, struct spoor_command *ret, struct spoor_error *e)
{
	int go[2], status[2];
	pid_t pid, parent = getpid();

	if (pipe2(go, O_CLOEXEC) || pipe2(status, O_CLOEXEC))
		return spoor_fail(e, errno, "cannot make a pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		return spoor_fail(e, errno, "cannot fork: %s", strerror(errno));
	if (!pid) {
		char byte;

		prctl(PR_SET_PDEATHSIG, SIGKILL); /* only until execve: the command must outlive us, not this stub */
		if (getppid() != parent)
			_exit(127);
		spoor_signals_restore();
		close(go[1]);
		if (read(go[0], &byte, 1) != 1)
			_exit(127);
		prctl(PR_SET_PDEATHSIG, 0);
		spoor_descriptors_restore();
		execv(path, argv);
		if (errno == ENOEXEC && !is_elf(path)) /* a script without #!, as execvp(3) does */
			exec_by_shell(argv, path);
		if (write(status[1], &(int){ errno }, sizeof(int)) < 0)
			_exit(126);
		_exit(127);
	}
	close(go[0]);
	close(status[1]);
	*ret = (struct spoor_command){ .pid = pid, .go_fd = go[1], .status_fd = status[0], .path = path };
	return 0;
}

void spoor_command_drop(struct spoor_command *c)
{
	if (!c->pid || c->go_fd < 0)
		return;
	close(c->go_fd);
	close(c->status_fd);
	waitpid(c->pid, NULL, 0);
	c->pid = 0;
}

int spoor_command_go(struct spoor_command *c, struct spoor_error *e)
{
	int err = 0;
	ssize_t n;

	if (write(c->go_fd, "g", 1) != 1)
		err = errno;
	close(c->go_fd);
	c->go_fd = -1;
	do
		n = read(c->status_fd, &err, sizeof(err));
	while (n < 0 && errno == EINTR);
	close(c->status_fd);
	if (!err)
		return 0;
	waitpid(c->pid, NULL, 0);
	c->pid = 0;
	if (err == ENOENT && !access(c->path, F_OK))
		return spoor_fail(e, err, "%s: cannot execute: the interpreter or loader that it names is not there",
				  c->path);
	return spoor_fail(e, err, "%s: cannot execute: %s", c->path, strerror(err));
}
