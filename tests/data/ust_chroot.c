/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program that locks itself up as servers do: ust_chroot COUNT DIR UID. It does zoo:tick COUNT times as thread 0,
 * then chroot() to DIR, and becomes UID, if that is not 0. Says "ready", and for each byte of standard input it does so
 * again as thread 10, 20, ..., beside a child, as 11, 21, ..., and that one's own, as 12, 22, ...; then "ready".
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spoor/tracepoint.h"

SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int thread, unsigned long n), TP_ARGS(thread, n),
		 TP_FIELDS(spoor_int(int, thread, thread), spoor_int(unsigned long, n, n)))

static unsigned long count;

static void run(int thread)
{
	for (unsigned long n = 0; n < count; n++)
		spoor_trace(zoo, tick, thread, n);
}

static void generations(int thread, int last)
{
	pid_t child = thread < last ? fork() : 0;

	if (thread < last && !child) {
		generations(thread + 1, last);
		_exit(0);
	}
	run(thread);
	if (child)
		waitpid(child, NULL, 0);
}

static void ready(void)
{
	puts("ready");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	uid_t uid = argc > 3 ? atoi(argv[3]) : 0;

	if (argc < 3)
		return 2;
	count = strtoul(argv[1], NULL, 10);
	run(0);
	if (chroot(argv[2]) || chdir("/") || (uid && (setgid(uid) || setuid(uid))))
		return 1;
	ready();
	for (int round = 10; getchar() != EOF; round += 10) {
		generations(round, round + 2);
		ready();
	}
	return 0;
}
