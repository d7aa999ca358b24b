/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a tracepoint costs: ust EVENT THREADS EVENTS. Prints ns an event (of one thread, in a loop that does nothing
 * else, that loop's own time taken off). EVENT: two (an int and a long), text (an int and a string of 20), none, rdtsc.
 * Compiled twice: with Spoor's sites, and with LTTng-UST's (BENCH_LTTNG).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef BENCH_LTTNG
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "ust_lttng.h"
#else
#include "ust.h"
#endif

static long events;
static const char *what;
static pthread_barrier_t together;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static __attribute__((noinline)) void none(long n)
{
	for (long i = 0; i < n; i++)
		__asm__ volatile("" ::"r"(i));
}

static __attribute__((noinline)) void two(long n)
{
	for (long i = 0; i < n; i++) {
		__asm__ volatile("" ::"r"(i));
		TRACE_TWO((int)i, i);
	}
}

static __attribute__((noinline)) void text(long n)
{
	for (long i = 0; i < n; i++) {
		__asm__ volatile("" ::"r"(i));
		TRACE_TEXT((int)i, "twenty characters ..");
	}
}

static __attribute__((noinline)) void rdtsc(long n)
{
	for (long i = 0; i < n; i++)
		__asm__ volatile("rdtsc" ::: "eax", "edx");
}

static void *work(void *arg)
{
	static const struct {
		const char *name;
		void (*run)(long n);
	} all[] = { { "none", none }, { "two", two }, { "text", text }, { "rdtsc", rdtsc } };
	double *ns = arg, begin, bare;

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (strcmp(all[i].name, what))
			continue;
		all[i].run(10000);
		pthread_barrier_wait(&together);
		begin = now();
		none(events);
		bare = now() - begin;
		begin = now();
		all[i].run(events);
		*ns = (now() - begin - bare) / (double)events;
		return NULL;
	}
	exit(2);
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	double ns[64], sum = 0;
	int n;

	if (argc != 4 || (n = atoi(argv[2])) < 1 || n > 64)
		return 2;
	what = argv[1];
	events = atol(argv[3]);
	pthread_barrier_init(&together, NULL, (unsigned)n);
	for (int i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, work, &ns[i]))
			return 1;
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		sum += ns[i];
	}
	printf("%.2f\n", sum / n);
	return 0;
}
