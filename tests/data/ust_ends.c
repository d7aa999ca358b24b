/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writes an event and ends as it is told, without exit(): by itself, or by a signal. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(ends, by, TP_PROTO(const char *way), TP_ARGS(way), TP_FIELDS(spoor_string(way, way)))

#define TRUE "/bin/true"
extern char **environ;
static char *argv[] = { "true", "1", NULL };

static void kill_self(void)
{
	raise(SIGKILL);
}

static void underscore_exit(void)
{
	_exit(3);
}

static void capital_exit(void)
{
	_Exit(3);
}

static void quick(void)
{
	quick_exit(3);
}

static void quick_and_crash(void)
{
	at_quick_exit(abort);
	quick_exit(3);
}

static void *in_a_thread(void *arg)
{
	(void)arg;
	_exit(3);
}

static void threaded_exit(void)
{
	pthread_t t;

	pthread_create(&t, NULL, in_a_thread, NULL);
	pthread_join(t, NULL);
}

/* Its parent, which is traced, ends in it; what goes on writes an event of its own and returns from main(). */
static void daemonize(void)
{
	if (daemon(1, 1))
		abort();
	spoor_trace(ends, by, "daemon's child");
	exit(0);
}

static void by_execl(void)
{
	execl(TRUE, "true", "2", "3", NULL);
}

static void by_execlp(void)
{
	execlp("true", "true", NULL);
}

static void by_execle(void)
{
	char *only[] = { "MARK=here", NULL };

	execle("/bin/sh", "sh", "-c", "test \"$MARK\" = here && test \"$0\" = zero || kill -9 $$", "zero", NULL, only);
}

static void by_execv(void)
{
	execv(TRUE, argv);
}

static void by_execve(void)
{
	execve(TRUE, argv, environ);
}

static void by_execvp(void)
{
	execvp("true", argv);
}

static void by_execvpe(void)
{
	execvpe("true", argv, environ);
}

static void by_fexecve(void)
{
	fexecve(open(TRUE, O_RDONLY | O_CLOEXEC), argv, environ);
}

static void by_execveat(void)
{
	execveat(open("/bin", O_PATH | O_DIRECTORY | O_CLOEXEC), "true", argv, environ, 0);
}

static void fail_to_execute(void)
{
	if (execl("/nonexistent", "x", NULL) != -1 || errno != ENOENT || execvp("/etc/passwd", argv) != -1 ||
	    errno != EACCES)
		exit(9);
}

static void failed_and_killed(void)
{
	fail_to_execute();
	raise(SIGKILL);
}

static void failed_and_exited(void)
{
	fail_to_execute();
	_exit(3);
}

/* What children do that have its memory is not its end. */
static void children_end(void)
{
	pid_t child = vfork();

	if (!child)
		_exit(4);
	waitpid(child, NULL, 0);
	child = vfork();
	if (!child)
		execv(TRUE, argv);
	waitpid(child, NULL, 0);
	if (!posix_spawn(&child, TRUE, NULL, NULL, argv, environ))
		waitpid(child, NULL, 0);
	child = fork();
	if (!child)
		_exit(system("true"));
	waitpid(child, NULL, 0);
	raise(SIGKILL);
}

static void child_writes(void)
{
	pid_t child = fork();

	if (child)
		waitpid(child, NULL, 0);
	else
		spoor_trace(ends, by, "a child");
	if (child)
		raise(SIGSEGV);
	_exit(0);
}

static const struct {
	const char *way;
	void (*end)(void);
} ways[] = {
	{ "kill", kill_self },
	{ "abort", abort },
	{ "_exit", underscore_exit },
	{ "_Exit", capital_exit },
	{ "quick_exit", quick },
	{ "quick-abort", quick_and_crash },
	{ "thread", threaded_exit },
	{ "daemon", daemonize },
	{ "execl", by_execl },
	{ "execlp", by_execlp },
	{ "execle", by_execle },
	{ "execv", by_execv },
	{ "execve", by_execve },
	{ "execvp", by_execvp },
	{ "execvpe", by_execvpe },
	{ "fexecve", by_fexecve },
	{ "execveat", by_execveat },
	{ "failed-killed", failed_and_killed },
	{ "failed-exited", failed_and_exited },
	{ "children-killed", children_end },
	{ "child-killed", child_writes },
};

int main(int argc, char **args)
{
	size_t i;

	for (i = 0; argc > 1 && i < sizeof(ways) / sizeof(*ways); i++) {
		if (strcmp(args[1], ways[i].way))
			continue;
		spoor_trace(ends, by, args[1]);
		ways[i].end();
	}
	return 2;
}
