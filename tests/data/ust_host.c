/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Loads and unloads objects: ust_host ROUNDS PLUGIN...; ust_host fork PLUGIN...: a child does so, once. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(host, round, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

static int use(const char *plugin, int n)
{
	void *o = dlopen(plugin, RTLD_NOW);
	void (*work)(int) = o ? (void (*)(int))dlsym(o, "work") : NULL;

	if (!work) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	work(n);
	return dlclose(o);
}

int main(int argc, char **argv)
{
	int i, j;

	if (!strcmp(argv[1], "fork")) {
		spoor_trace(host, round, 100);
		if (fork()) {
			wait(NULL);
			spoor_trace(host, round, 101);
			return 0;
		}
		return use(argv[2], 7);
	}
	for (i = 0; i < atoi(argv[1]); i++) {
		spoor_trace(host, round, i);
		for (j = 2; j < argc; j++) {
			if (use(argv[j], i))
				return 1;
		}
	}
	return 0;
}
