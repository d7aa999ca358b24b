/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Threads run through sites while their provider, argv[1], is loaded and unloaded. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE
#include "types_tp.h"

#define TIMES 211

static volatile int stop;

static void *fire(void *unused)
{
	long n;

	for (n = 0; !stop; n++) {
		lttng_ust_tracepoint(types, first, (int)n, n);
		lttng_ust_tracepoint(types, others, 1, 2, "text", (int)n);
	}
	return unused;
}

int main(int argc, char **argv)
{
	const struct timespec while_loaded = { 0, 300000 };
	pthread_t threads[3];
	int i;

	for (i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, fire, NULL);
	for (i = 0; i < TIMES; i++) {
		void *provider = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;

		if (!provider)
			return fprintf(stderr, "%s\n", dlerror());
		nanosleep(&while_loaded, NULL);
		dlclose(provider);
	}
	stop = 1;
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return puts("done") < 0;
}
