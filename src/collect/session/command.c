/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/command.h"

#include <errno.h>
#include <fcntl.h>
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
#include "base/time.h"

#define AWAIT_NS (5 * SPOOR_NS_PER_SEC) /* on a busy machine it may be long before it runs again */
#define STEP_US 10000
#define STEPS 20

bool spoor_command_runnable(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

int spoor_command_find(const char *name, char *ret, struct spoor_error *e)
{
	const char *dirs = getenv("PATH");
	struct stat st;

	if (strchr(name, '/')) {
		snprintf(ret, PATH_MAX, "%s", name);
		if (spoor_command_runnable(name))
			return 0;
		if (stat(name, &st))
			return spoor_fail(e, ENOENT, "%s: no such command", name);
		return spoor_fail(e, EACCES, "%s: not an executable file", name);
	}
	for (const char *d = dirs ? dirs : "/usr/local/bin:/usr/bin:/bin"; *name;) {
		size_t len = strcspn(d, ":");

		/* An empty one is the working directory. */
		snprintf(ret, PATH_MAX, "%.*s/%s", len ? (int)len : 1, len ? d : ".", name);
		if (spoor_command_runnable(ret))
			return 0;
		if (!d[len])
			break;
		d += len + 1;
	}
	return spoor_fail(e, ENOENT, "%s: no such command in PATH", name);
}

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

		prctl(PR_SET_PDEATHSIG, SIGKILL); /* only until execve: the command must outlive us, not what waits */
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

	if (spoor_signals_told_to_end())
		return spoor_fail(e, EINTR, "ended by a signal before the command began");
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

void spoor_command_await(const struct spoor_command *c, void (*serve)(void *ctx), void *ctx)
{
	uint64_t until = spoor_now_monotonic() + AWAIT_NS;

	for (int i = 0; i < STEPS && c->pid && spoor_now_monotonic() < until;) {
		bool behind = spoor_process_is_behind(c->pid);

		usleep(STEP_US);
		serve(ctx);
		i += !behind;
	}
}
