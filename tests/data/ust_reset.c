/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A program that takes the handler of SIGURG away, or blocks it: default|ignore|block. A byte of standard input undoes
 * the latter. It does zoo:tick every millisecond.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

int main(int argc, char **argv)
{
	struct pollfd input = { .events = POLLIN };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGURG);
	if (argc > 1 && !strcmp(argv[1], "block"))
		sigprocmask(SIG_BLOCK, &set, NULL);
	else
		signal(SIGURG, argc > 1 && !strcmp(argv[1], "ignore") ? SIG_IGN : SIG_DFL);
	puts("ready");
	fflush(stdout);
	for (int n = 0;; n++) {
		spoor_trace(zoo, tick, n);
		if (poll(&input, 1, 1) == 1 && getchar() != EOF)
			sigprocmask(SIG_UNBLOCK, &set, NULL);
	}
}
