/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ust_chain [PLUGIN...]: an event beneath main, outer, middle, inner; then one that each plugin's call() leads to, the
 * plugin being loaded for that alone; all twice if the environment has TWICE, with a wait for a line of input between.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(chain, end, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

#define APART __attribute__((noinline, noclone))
APART int inner(int n);
APART int middle(int n);
APART int outer(int n);

int inner(int n)
{
	spoor_trace(chain, end, n);
	return n + 1;
}

int middle(int n)
{
	return inner(n) + 1;
}

int outer(int n)
{
	return middle(n) + 1;
}

static int all(int argc, char **argv)
{
	int sum = outer(0);

	for (int i = 1; i < argc; i++) {
		void *plugin = dlopen(argv[i], RTLD_NOW);
		int (*call)(int (*back)(int), int) = NULL;

		if (plugin)
			*(void **)&call = dlsym(plugin, "call");
		if (!call)
			return -1;
		sum += call(outer, i);
		dlclose(plugin);
	}
	return sum;
}

int main(int argc, char **argv)
{
	int sum = all(argc, argv);

	puts("ready");
	fflush(stdout);
	if (getenv("TWICE")) {
		getchar();
		sum += all(argc, argv);
	}
	return sum < 0;
}
