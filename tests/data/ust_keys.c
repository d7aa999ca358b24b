/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program of many libraries, each of which has a key for thread-specific data, whose first event is in a signal
 * handler. Waits for a byte before that, and says whether memory was allocated there, which may be locked.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "spoor/tracepoint.h"

SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int thread, unsigned long n), TP_ARGS(thread, n),
		 TP_FIELDS(spoor_int(int, thread, thread), spoor_int(unsigned long, n, n)))

extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_malloc(size_t size);

static volatile sig_atomic_t in_handler, allocated;

void *calloc(size_t n, size_t size)
{
	allocated |= in_handler;
	return __libc_calloc(n, size);
}

void *malloc(size_t size)
{
	allocated |= in_handler;
	return __libc_malloc(size);
}

static void on_signal(int number)
{
	(void)number;
	in_handler = 1;
	spoor_trace(zoo, tick, 0, 0);
	in_handler = 0;
}

int main(void)
{
	pthread_key_t key;

	for (int i = 0; i < 40; i++)
		if (pthread_key_create(&key, NULL))
			return 1;
	signal(SIGUSR1, on_signal);
	puts("ready");
	fflush(stdout);
	getchar();
	raise(SIGUSR1);
	puts(allocated ? "allocated" : "nothing allocated");
	return 0;
}
