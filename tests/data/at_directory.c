/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Preloaded into spoor: what $AT_DIRECTORY says is done when it has just made the directory t.spoor. Not by system(),
 * which sets what SIGINT does, and takes one that is pending away where that had been ignored.
 */
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int mkdirat(int at, const char *path, mode_t mode)
{
	char *argv[] = { "sh", "-c", getenv("AT_DIRECTORY"), NULL };
	int r = syscall(SYS_mkdirat, at, path, mode), status;
	pid_t pid;

	if (!r && !strcmp(path, "t.spoor") &&
	    (posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ) || waitpid(pid, &status, 0) != pid || status))
		abort();
	return r;
}
