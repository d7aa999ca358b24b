/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Nearly always it has a child that is about to execute something, in which no signal is handled. */
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

extern char **environ;

int main(void)
{
	char *argv[] = { (char *)"true", NULL };
	pid_t child;
	char go;
	int n;

	if (write(1, "ready\n", 6) != 6)
		return 1;
	for (n = 0; n < 1000000; n++) {
		spoor_trace(zoo, tick, n);
		if (posix_spawn(&child, "/bin/true", NULL, NULL, argv, environ))
			return 1;
		while (waitpid(child, NULL, 0) < 0)
			;
	}
	return read(0, &go, 1) < 0;
}
