// SPDX-License-Identifier: GPL-2.0-or-later
/* sleepers N: N threads that sleep; says "ready" once they do. Shows what a watched thread costs in memory. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_barrier_t started;

static void *sleeper(void *arg)
{
	pthread_barrier_wait(&started);
	for (;;)
		pause();
	return arg;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;
	pthread_attr_t attr;
	pthread_t thread;

	pthread_barrier_init(&started, NULL, n + 1);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 32768);
	for (int i = 0; i < n; i++)
		if (pthread_create(&thread, &attr, sleeper, NULL)) {
			perror("sleepers: a thread");
			return 1;
		}
	pthread_barrier_wait(&started);
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
