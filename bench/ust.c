/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a tracepoint costs: ust [-t THREADS] [-b BATCHES] [-n EVENTS] [-w REST_US] EVENT
 *
 * Prints the median of all batches of all threads, in ns an event; what the loop itself takes is taken off. EVENT: two
 * (an int and a long), deep (the same beneath ten functions), text (an int and a string of 20), none, rdtsc. After each
 * batch a thread rests for REST_US, so that buffers can be emptied.
 *
 * With -r RATE there is one thread, which does not measure: EVENTS of them, so many a second.
 *
 * Compiled twice: with Spoor's sites, and with LTTng-UST's (BENCH_LTTNG).
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef BENCH_LTTNG
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "ust_lttng.h"
#else
#include "ust.h"
#endif

#define MOST_THREADS 64
#define PACE 100 /* events between two looks at the clock */

typedef void run_fn(long n);

static long threads = 1, batches = 200, events = 20000, rest_us, rate;
static run_fn *measured;
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

/* The statement after the call keeps it from becoming a jump. */
#define NEST(name, below)                                 \
	static __attribute__((noinline)) void name(long n) \
	{                                                 \
		below(n);                                 \
		__asm__ volatile("" ::: "memory");        \
	}
NEST(deep1, two)
NEST(deep2, deep1)
NEST(deep3, deep2)
NEST(deep4, deep3)
NEST(deep5, deep4)
NEST(deep6, deep5)
NEST(deep7, deep6)
NEST(deep8, deep7)
NEST(deep9, deep8)
NEST(deep, deep9)

static const struct {
	const char *name;
	run_fn *run;
} all[] = { { "none", none }, { "two", two }, { "deep", deep }, { "text", text }, { "rdtsc", rdtsc } };

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, long n)
{
	qsort(values, (size_t)n, sizeof(*values), by_size);
	return values[n / 2];
}

static void measure(run_fn *run, double *ret_ns, long rest)
{
	for (long i = 0; i < batches; i++) {
		double begin = now();

		run(events);
		ret_ns[i] = (now() - begin) / (double)events;
		if (rest)
			usleep((useconds_t)rest);
	}
}

static void *work(void *arg)
{
	double *ns = arg, bare;

	measure(none, ns, 0);
	bare = median(ns, batches);
	measured(events); /* buffers taken, code warm */
	pthread_barrier_wait(&together);
	measure(measured, ns, rest_us);
	for (long i = 0; i < batches; i++)
		ns[i] -= bare;
	return NULL;
}

static int in_batches(void)
{
	double *ns = calloc((size_t)(threads * batches), sizeof(*ns));
	pthread_t started[MOST_THREADS];

	if (!ns)
		return 1;
	pthread_barrier_init(&together, NULL, (unsigned)threads);
	for (long i = 0; i < threads; i++)
		if (pthread_create(&started[i], NULL, work, ns + i * batches))
			return 1;
	for (long i = 0; i < threads; i++)
		pthread_join(started[i], NULL);
	printf("median %.3f ns, %ld calls\n", median(ns, threads * batches), threads * (batches + 1) * events);
	free(ns);
	return 0;
}

/* How late it ever was tells whether it has been kept from running. */
static int paced(void)
{
	double begin = now(), latest = 0;

	for (long n = 0; n < events; n += PACE) {
		double due = begin + (double)n * 1e9 / (double)rate, late = now() - due;

		latest = late > latest ? late : latest;
		while (now() < due)
			;
		measured(PACE);
	}
	printf("median 0 ns, %ld calls in %.3f s, at most %.1f ms late\n", events, (now() - begin) / 1e9, latest / 1e6);
	return 0;
}

static int usage(void)
{
	fprintf(stderr, "usage: ust [-t THREADS] [-b BATCHES] [-n EVENTS] [-w REST_US] [-r RATE] EVENT\n");
	return 2;
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "t:b:n:w:r:")) != -1) {
		long *to = c == 't' ? &threads : c == 'b' ? &batches : c == 'n' ? &events :
			   c == 'w' ? &rest_us : c == 'r' ? &rate : NULL;

		if (!to || (*to = atol(optarg)) < 1)
			return usage();
	}
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (optind + 1 == argc && !strcmp(all[i].name, argv[optind]))
			measured = all[i].run;
	if (!measured || threads > MOST_THREADS)
		return usage();
	return rate ? paced() : in_batches();
}
