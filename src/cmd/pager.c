/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cmd.h"

static void run_pager(int in)
{
	/* A pager that cannot be run has read nothing: the text is still there to be shown. */
	static const char script[] = "(eval \"$1\"); s=$?; [ $s = 126 ] || [ $s = 127 ] || exit $s; exec cat";
	const char *pager = getenv("PAGER");

	dup2(in, STDIN_FILENO);
	/* Ctrl-C belongs to the pager, and a page that fits stays on the screen. */
	setenv("LESS", "FRX", 0);
	execl("/bin/sh", "sh", "-c", script, "sh", pager && *pager ? pager : "less 2>/dev/null", NULL);
	_exit(127);
}

struct spoor_pager spoor_pager_open(void)
{
	struct spoor_pager p = { .out = stdout };
	FILE *out;
	int fds[2];

	if (!isatty(STDOUT_FILENO) || pipe2(fds, O_CLOEXEC) < 0)
		return p;
	out = fdopen(fds[1], "w");
	fflush(NULL);
	p.pid = out ? fork() : -1;
	if (!p.pid)
		run_pager(fds[0]);
	close(fds[0]);
	if (p.pid < 0) {
		if (out)
			fclose(out);
		else
			close(fds[1]);
		p.pid = 0;
		return p;
	}
	/* A reader who quits early is no error. */
	signal(SIGPIPE, SIG_IGN);
	p.out = out;
	return p;
}

void spoor_pager_close(struct spoor_pager *p)
{
	if (!p->pid)
		return;
	fclose(p->out);
	signal(SIGINT, SIG_IGN);
	waitpid(p->pid, NULL, 0);
	signal(SIGINT, SIG_DFL);
	*p = (struct spoor_pager){ .out = stdout };
}
