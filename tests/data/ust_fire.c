/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sites that are switched while threads run through them: ust_fire SWITCHES THREADS EVERY. Linked with libspoor-ust.a,
 * whose insides it calls as a recorder's message would. While off no event may come, while on every one must: a site's
 * arguments are evaluated only for an event, and count them. That is looked at for two of EVERY switches and the last, which
 * switches it on; how many were evaluated in all is said at the end.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(fire, shot, TP_PROTO(unsigned long n), TP_ARGS(n), TP_FIELDS(spoor_int(unsigned long, n, n)))

/* src/agent/ust/sites.h, src/agent/core/process.h */
int sites_record(unsigned session, bool on, unsigned first_slot);
bool process_lock(void);
void process_unlock(void);

static bool stop;
static unsigned long rounds[64]; /* of each thread: odd while it is in a round */
static unsigned long hits[64];
static pthread_barrier_t stopped;

static unsigned long get(const unsigned long *at)
{
	return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

/* Of the one thread that writes it. */
static unsigned long next(unsigned long *at)
{
	unsigned long n = __atomic_load_n(at, __ATOMIC_RELAXED) + 1;

	__atomic_store_n(at, n, __ATOMIC_RELEASE);
	return n;
}

static void shoot(unsigned long i)
{
	next(&rounds[i]);
	spoor_trace(fire, shot, next(&hits[i]));
	spoor_trace(fire, shot, next(&hits[i]));
	for (int k = 0; k < 4; k++)
		spoor_trace(fire, shot, next(&hits[i]));
	next(&rounds[i]);
}

/* Two rounds more when all have stopped: else a thread that waits for a CPU has its last events overwritten. */
static void *shooter(void *arg)
{
	unsigned long i = (unsigned long)arg;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		shoot(i);
	pthread_barrier_wait(&stopped);
	shoot(i);
	shoot(i);
	return NULL;
}

static void switch_to(bool on)
{
	process_lock();
	sites_record(0, on, 0);
	process_unlock();
}

/* Until the thread has begun or ended a round so many times. Whoever waits leaves the CPU to the threads. */
static void wait_for(int thread, unsigned long times)
{
	unsigned long from = get(&rounds[thread]);

	while (get(&rounds[thread]) - from < times)
		usleep(20);
}

/* Each thread finishes the round it is in and does another: none of what it does from now on began before. */
static void pass(int n)
{
	for (int i = 0; i < n; i++)
		wait_for(i, 3);
}

int main(int argc, char **argv)
{
	unsigned long switches = strtoul(argv[1], NULL, 0), every = strtoul(argv[3], NULL, 0), checked = 0, all = 0, i;
	int n = atoi(argv[2]);
	pthread_t t[64];

	(void)argc;
	pthread_barrier_init(&stopped, NULL, n);
	for (i = 0; i < (unsigned long)n; i++)
		pthread_create(&t[i], NULL, shooter, (void *)i);
	for (i = 0; i < switches; i++) {
		bool on = i % 2;

		switch_to(on);
		if (i % every > 1 && i + 1 < switches)
			continue;
		pass(n);
		for (int k = 0; k < n; k++) {
			unsigned long before = get(&hits[k]), after;

			wait_for(k, 6); /* two rounds at least, of six events */
			after = get(&hits[k]);
			if (on ? after - before < 12 : after != before) {
				printf("thread %d, switch %lu: %lu hits while %s\n", k, i, after - before,
				       on ? "on" : "off");
				return 1;
			}
			checked++;
		}
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < (unsigned long)n; i++) {
		pthread_join(t[i], NULL);
		all += hits[i];
	}
	printf("checked %lu of %lu\n", checked, all);
	return 0;
}
