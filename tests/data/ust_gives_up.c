/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * As servers do: ust_gives_up [FILE r+|a] as root does actor:step 0, then three children, one after another, become nobody
 * and do 1 to 10 each. FILE takes the place of standard error before.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spoor/tracepoint.h"

SPOOR_TRACEPOINT(actor, step, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

static int child(void)
{
	if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		return 1;
	for (int i = 1; i <= 10; i++)
		spoor_trace(actor, step, i);
	return 0;
}

int main(int argc, char **argv)
{
	int status, failed = 0;

	if (argc > 2 && dup2(open(argv[1], O_WRONLY | (*argv[2] == 'a' ? O_APPEND : 0)), 2) != 2)
		return 1;
	spoor_trace(actor, step, 0);
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(child());
		failed |= waitpid(pid, &status, 0) != pid || status;
	}
	return failed;
}
