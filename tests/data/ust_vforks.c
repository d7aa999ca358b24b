/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A child by vfork() waits for a signal; its parent then opens some files, writes 101 events, and ends with how many of
 * the files are closed. Before each it waits for a byte. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

static void say(const char *what)
{
	puts(what);
	fflush(stdout);
	getchar();
}

static void call_child(void)
{
	if (!vfork()) {
		pause();
		_exit(0);
	}
}

int main(void)
{
	int files[10], closed = 0;

	say("ready");
	call_child();
	for (int i = 0; i < 10; i++)
		files[i] = dup(1);
	say("back");
	for (int i = 0; i < 101; i++)
		spoor_trace(zoo, tick, i);
	for (int i = 0; i < 10; i++)
		closed += fcntl(files[i], F_GETFD) < 0;
	return closed;
}
