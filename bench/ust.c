/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a tracepoint costs: ust [-t THREADS] [-b BATCHES] [-n EVENTS] [-w REST_US] [-f FRAMES] EVENT
 *
 * Prints the median of all batches of all threads, in ns an event; what the loop itself takes is taken off. EVENT: two
 * (an int and a long), text (an int and a string of 20), stack (as two, with a call stack), none, rdtsc, walk. After
 * each batch a thread rests for REST_US, so that buffers can be emptied.
 *
 * stack and walk stand beneath twenty functions. With Spoor's sites the recorder is asked for the call stack; with
 * LTTng-UST's, which has no such context in user space, backtrace() takes it, at most FRAMES of it. walk is rdtsc, and
 * FRAMES return addresses found by frame pointers and stored: nobody can do less. Before these are measured the thread
 * rests for a second, in which whoever prepares for a program's objects can do that.
 *
 * With -r RATE there is one thread, which does not measure: EVENTS of them, so many a second.
 *
 * Compiled twice: with Spoor's sites, and with LTTng-UST's (BENCH_LTTNG).
 */
#include <execinfo.h>
#include <pthread.h>
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
#define MOST_FRAMES 64
#define PACE 100 /* events between two looks at the clock */
#define PREPARATION_US 1000000

typedef void run_fn(long n);

static long threads = 1, batches = 200, events = 20000, rest_us, rate, frames = 20;
static run_fn *measured;
static long prepare_us;
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

static __attribute__((noinline)) void stack_here(long n)
{
	for (long i = 0; i < n; i++) {
		__asm__ volatile("" ::"r"(i));
		TRACE_STACK((int)i, i, frames);
	}
}

static __attribute__((noinline)) void walk_here(long n)
{
	for (long i = 0; i < n; i++) {
		const void *const *frame = __builtin_frame_address(0);
		const void *found[MOST_FRAMES];

		__asm__ volatile("rdtsc" ::: "eax", "edx");
		for (long k = 0; k < frames; k++, frame = frame[0])
			found[k] = frame[1];
		__asm__ volatile("" ::"r"(found) : "memory");
	}
}

/* The statement after the call keeps it from becoming a jump. */
#define NEST(name, below)                                 \
	static __attribute__((noinline)) void name(long n) \
	{                                                 \
		below(n);                                 \
		__asm__ volatile("" ::: "memory");        \
	}
#define NEST5(name, below)      \
	NEST(name##1, below)    \
	NEST(name##2, name##1)  \
	NEST(name##3, name##2)  \
	NEST(name##4, name##3)  \
	NEST(name##5, name##4)
#define NEST20(name)           \
	NEST5(name##_d, name##_here) \
	NEST5(name##_c, name##_d5)   \
	NEST5(name##_b, name##_c5)   \
	NEST5(name##_a, name##_b5)
NEST20(stack)
NEST20(walk)

static const struct {
	const char *name;
	run_fn *run;
	long prepare_us;
} all[] = { { "none", none, 0 },
	    { "two", two, 0 },
	    { "text", text, 0 },
	    { "rdtsc", rdtsc, 0 },
	    { "stack", stack_a5, PREPARATION_US },
	    { "walk", walk_a5, PREPARATION_US } };

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
	usleep((useconds_t)prepare_us);
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
	fprintf(stderr, "usage: ust [-t THREADS] [-b BATCHES] [-n EVENTS] [-w REST_US] [-f FRAMES] [-r RATE] EVENT\n");
	return 2;
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "t:b:n:w:f:r:")) != -1) {
		long *to = c == 't' ? &threads : c == 'b' ? &batches : c == 'n' ? &events :
			   c == 'w' ? &rest_us : c == 'f' ? &frames : c == 'r' ? &rate : NULL;

		if (!to || (*to = atol(optarg)) < 1)
			return usage();
	}
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (optind + 1 == argc && !strcmp(all[i].name, argv[optind])) {
			measured = all[i].run;
			prepare_us = all[i].prepare_us;
		}
	if (!measured || threads > MOST_THREADS || frames > MOST_FRAMES)
		return usage();
	return rate ? paced() : in_batches();
}
