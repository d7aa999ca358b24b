/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ust_probes ROUNDS THREADS: threads run through a tracepoint and a marker whose probes come and go. A probe's data is
 * spoilt and given back as soon as a synchronize has returned; says how often probes were called.
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <spoor/marker.h>
#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(probes, step, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

#define GOOD 0x600df00dUL

struct data {
	unsigned long state, calls;
};

static bool stop;
static unsigned long all;

/* Others run meanwhile: who does not wait for this spoils the data under it. */
static void called(struct data *d)
{
	__atomic_fetch_add(&d->calls, 1, __ATOMIC_RELAXED);
	sched_yield();
	if (__atomic_load_n(&d->state, __ATOMIC_RELAXED) != GOOD)
		abort();
}

static void on_step(void *data, int n)
{
	(void)n;
	called(data);
}

static void on_mark(void *data, void *call_data, const char *format, va_list *args)
{
	(void)call_data;
	(void)format;
	(void)args;
	called(data);
}

static void *runner(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		spoor_trace(probes, step, 1);
		trace_mark(probes_mark, "n %d", 2);
	}
	return arg;
}

static struct data *begin(void)
{
	struct data *d = calloc(1, sizeof(*d));

	d->state = GOOD;
	return d;
}

static void await_calls(struct data *d)
{
	while (__atomic_load_n(&d->calls, __ATOMIC_RELAXED) < 3)
		sched_yield();
}

static void end(struct data *d)
{
	all += d->calls;
	d->state = 0;
	free(d);
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 100, n = argc > 2 ? atol(argv[2]) : 2, i;
	pthread_t t[64];

	for (i = 0; i < n; i++)
		pthread_create(&t[i], NULL, runner, NULL);
	for (i = 0; i < rounds; i++) {
		struct data *step = begin(), *mark = begin();

		if (register_trace_probes_step(on_step, step) || marker_probe_register("probes_mark", NULL, on_mark, mark))
			return 1;
		await_calls(step);
		await_calls(mark);
		if (unregister_trace_probes_step(on_step, step))
			return 1;
		tracepoint_synchronize_unregister();
		end(step);
		if (marker_probe_unregister("probes_mark", on_mark, mark))
			return 1;
		marker_synchronize_unregister();
		end(mark);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	printf("called %lu\n", all);
	return 0;
}
