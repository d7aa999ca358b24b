/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long a program takes from its exec to its main():
 *
 *   ust_start N [NAME=VALUE...] PROGRAM    starts it N times, one after another; prints the median
 *   ust_start                              is such a program: says what time it is, has some sites, ends
 *
 * Compiled three times: with two sites of Spoor's or LTTng-UST's (BENCH_LTTNG), and with a thousand tracepoints more,
 * each with a site (BENCH_MANY).
 */
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef BENCH_LTTNG
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "ust_lttng.h"
#else
#include "ust.h"
#endif

#ifdef BENCH_MANY
#define DECLARE(n)                                              \
	SPOOR_TRACEPOINT(many, n, TP_PROTO(int a, long b), TP_ARGS(a, b), \
			 TP_FIELDS(spoor_int(int, a, a), spoor_int(long, b, b)))
#define TRACE(n) spoor_trace(many, n, 1, 2);
#define TEN(what, n) \
	what(n##0) what(n##1) what(n##2) what(n##3) what(n##4) what(n##5) what(n##6) what(n##7) what(n##8) what(n##9)
#define HUNDRED(what, n)                                                                                       \
	TEN(what, n##0) TEN(what, n##1) TEN(what, n##2) TEN(what, n##3) TEN(what, n##4) TEN(what, n##5)        \
	TEN(what, n##6) TEN(what, n##7) TEN(what, n##8) TEN(what, n##9)
#define THOUSAND(what)                                                                                         \
	HUNDRED(what, e0) HUNDRED(what, e1) HUNDRED(what, e2) HUNDRED(what, e3) HUNDRED(what, e4)              \
	HUNDRED(what, e5) HUNDRED(what, e6) HUNDRED(what, e7) HUNDRED(what, e8) HUNDRED(what, e9)
THOUSAND(DECLARE)
#else
#define TRACE(n)
#define THOUSAND(what)
#endif

extern char **environ;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int started(void)
{
	uint64_t at = now();

	TRACE_TWO(1, 2);
	TRACE_TEXT(3, "text");
	THOUSAND(TRACE)
	return write(STDOUT_FILENO, &at, sizeof(at)) != sizeof(at);
}

/* Returns ns, or 0: it failed. */
static uint64_t start(char **argv)
{
	posix_spawn_file_actions_t actions;
	uint64_t at, begin;
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe(ends))
		return 0;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	begin = now();
	if (posix_spawn(&pid, argv[0], &actions, NULL, argv, environ))
		return 0;
	close(ends[1]);
	n = read(ends[0], &at, sizeof(at));
	close(ends[0]);
	posix_spawn_file_actions_destroy(&actions);
	if (waitpid(pid, &status, 0) != pid || status || n != sizeof(at))
		return 0;
	return at - begin;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	uint64_t *ns;
	int n;

	if (argc == 1)
		return started();
	n = atoi(argv[1]);
	for (argv += 2; *argv && strchr(*argv, '='); argv++)
		putenv(*argv);
	if (n < 1 || !*argv)
		return 2;
	ns = calloc((size_t)n, sizeof(*ns));
	if (!ns)
		return 1;
	for (int i = 0; i < n; i++) {
		ns[i] = start(argv);
		if (!ns[i]) {
			fprintf(stderr, "ust_start: %s did not start or failed\n", *argv);
			return 1;
		}
	}
	qsort(ns, (size_t)n, sizeof(*ns), by_size);
	printf("median %lu ns, %d calls\n", ns[n / 2], n);
	free(ns);
	return 0;
}
