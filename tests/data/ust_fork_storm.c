/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Many threads fork without a pause while probes come and go: says "ended" when these have. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(storm, step, TP_PROTO(int i), TP_ARGS(i), TP_FIELDS(spoor_int(int, i, i)))

enum { FORKERS = 32, ROUNDS = 20 };

static atomic_bool done;
static atomic_int forked;

static void probe(void *data, int i)
{
	(void)data;
	(void)i;
}

static void *fork_on(void *arg)
{
	while (!done) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		forked++;
		waitpid(pid, NULL, 0);
	}
	return arg;
}

int main(void)
{
	pthread_t threads[FORKERS];

	for (int i = 0; i < FORKERS; i++)
		pthread_create(&threads[i], NULL, fork_on, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		for (int before = forked; forked - before < FORKERS;)
			sched_yield();
		register_trace_storm_step(probe, NULL);
		spoor_trace(storm, step, i);
		unregister_trace_storm_step(probe, NULL);
		tracepoint_synchronize_unregister();
	}
	puts("ended");
	fflush(stdout);
	done = true;
	for (int i = 0; i < FORKERS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
