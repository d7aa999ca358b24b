/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Loads and unloads objects: ust_host ROUNDS PLUGIN... */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(host, round, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

int main(int argc, char **argv)
{
	int i, j;

	for (i = 0; i < atoi(argv[1]); i++) {
		spoor_trace(host, round, i);
		for (j = 2; j < argc; j++) {
			void *o = dlopen(argv[j], RTLD_NOW);
			void (*work)(int) = o ? (void (*)(int))dlsym(o, "work") : NULL;

			if (!work) {
				fprintf(stderr, "%s\n", dlerror());
				return 1;
			}
			work(i);
			if (dlclose(o))
				return 1;
		}
	}
	return 0;
}
