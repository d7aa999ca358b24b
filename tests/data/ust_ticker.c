/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Events whose numbers can be checked: ust_ticker THREADS COUNT [PAUSE_US] [fork]. Each thread does zoo:tick COUNT times
 * with its number and 0, 1, 2 ...; COUNT 0: until it is killed. zoo:rare comes with every tenth. fork: a child does the
 * same as thread 100 and on. Standard output gets "ready" first. $TICKER_COUNTER is a file of 8 bytes a thread: how many
 * ticks it has behind it. $TICKER_FIRST is the first thread's number, so that programs can share such a file.
 * $TICKER_WAITS: for a byte of standard input, before all that. $TICKER_TELLS: before "ready" what it cost to get to
 * main(): nanoseconds of CPU, and how often it waited for something.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spoor/tracepoint.h"

SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int thread, unsigned long n), TP_ARGS(thread, n),
		 TP_FIELDS(spoor_int(int, thread, thread), spoor_int(unsigned long, n, n)))
SPOOR_TRACEPOINT_LEVEL(zoo, rare, SPOOR_LEVEL_DEBUG, TP_PROTO(unsigned long n, const char *what), TP_ARGS(n, what),
		       TP_FIELDS(spoor_int(unsigned long, n, n), spoor_string(what, what)))

static unsigned long count, pause_us;
static int first;
static volatile unsigned long *behind;

static void *run(void *arg)
{
	int thread = first + (int)(long)arg;

	for (unsigned long n = 0; !count || n < count; n++) {
		spoor_trace(zoo, tick, thread, n);
		if (behind)
			behind[thread] = n + 1;
		if (n % 10 == 0)
			spoor_trace(zoo, rare, n, "one of ten");
		if (pause_us)
			usleep(pause_us);
	}
	return NULL;
}

static void tell(void)
{
	struct timespec cpu;
	struct rusage own;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	getrusage(RUSAGE_THREAD, &own);
	printf("%ld %ld\n", cpu.tv_sec * 1000000000 + cpu.tv_nsec, own.ru_nvcsw);
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	int n = argc > 1 ? atoi(argv[1]) : 1;
	pid_t child = 0;

	if (getenv("TICKER_TELLS"))
		tell();
	count = argc > 2 ? strtoul(argv[2], NULL, 10) : 10;
	pause_us = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
	if (getenv("TICKER_COUNTER")) {
		int fd = open(getenv("TICKER_COUNTER"), O_RDWR);

		behind = mmap(NULL, lseek(fd, 0, SEEK_END), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (behind == MAP_FAILED)
			return 1;
	}
	if (getenv("TICKER_FIRST"))
		first = atoi(getenv("TICKER_FIRST"));
	puts("ready");
	fflush(stdout);
	if (getenv("TICKER_WAITS"))
		getchar();
	if (argc > 4 && !strcmp(argv[4], "fork")) {
		child = fork();
		first += child ? 0 : 100;
	}
	for (long i = 1; i < n; i++)
		pthread_create(&threads[i], NULL, run, (void *)i);
	run(NULL);
	for (int i = 1; i < n; i++)
		pthread_join(threads[i], NULL);
	if (child)
		waitpid(child, NULL, 0);
	return 0;
}
