/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sites of every kind of event; counts how often an argument was evaluated. With an argument: loads that provider. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>

#define LTTNG_UST_TRACEPOINT_DEFINE
#ifdef DYNAMIC
#define LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE
#endif
#include "types_tp.h"
#include "types_point.h"

static int evaluated;

static int counted(int n)
{
	evaluated++;
	return n;
}

static inline void inlined(int n)
{
	lttng_ust_tracepoint(types, first, n, n);
}

void elsewhere(int n); /* types_more.c */

static void shortened(void)
{
	const int lengths[] = { 1, 3, 6, 13, 16, 39 };
	char s[40];
	unsigned i;

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		memset(s, 'x', (size_t)lengths[i]);
		s[lengths[i]] = '\0';
		lttng_ust_tracepoint(types, shortened, s, lengths[i] / 3);
	}
}

static void all(void)
{
	const int i[] = { -1, 2, INT_MIN };
	const uint16_t net[] = { 0x100, 0xffff, 0x1234 };
	const struct types_point point = { 3, 4 };
	char large[70000];
	int n;

	lttng_ust_tracepoint(types, integers, -1, 255, -2, 0xfffe, -3, 0xdeadbeef, LONG_MIN, ULONG_MAX, (void *)0x1000,
			     true);
	lttng_ust_tracepoint(types, others, 1.5f, -0.1, "a string", 5);
	lttng_ust_tracepoint(types, others, 0, 1e300, NULL, -1);
	for (n = -2; n < 9; n++)
		lttng_ust_tracepoint(types, others, 0, 0, ".", n);
	lttng_ust_tracepoint(types, others, 0, 0, "\"quoted\" \\ \n \t \x01 \xc3\xbc", 255);
	lttng_ust_tracepoint(types, arrays, i, "array", net, &point);
	lttng_ust_tracepoint(types, arrays, i, "ab", net, &point);
	lttng_ust_tracepoint(types, sequences, i, 3, "seq", net);
	lttng_ust_tracepoint(types, sequences, i, 0, "seq", net);
	lttng_ust_tracepoint(types, sequences, i, 2, "seq", net);
	lttng_ust_tracepoint(types, unwritten, 1, "s");
	lttng_ust_tracepoint(types, first, 1, 2);
	lttng_ust_tracepoint(LTTNG_UST_TRACEPOINT_PROVIDER, second, 3, 4);
	lttng_ust_tracepoint(types, nothing);
	lttng_ust_tracepoint(types, nothing_void);
	lttng_ust_tracepoint(types, nothing_at_all);
	for (n = 0; n < 5; n++)
		inlined(n);
	elsewhere(7);
	if (lttng_ust_tracepoint_enabled(types, second)) {
		lttng_ust_do_tracepoint(types, second, counted(5), 6);
		lttng_ust_do_tracepoint(types, nothing);
	}
	lttng_ust_tracepoint(types, first, counted(8), 9);
	shortened();
	memset(large, 'x', sizeof(large));
	large[20000] = '\0';
	lttng_ust_tracepoint(types, others, 0, 0, large, 0);
}

int main(int argc, char **argv)
{
	void *provider = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;

	if (argc > 1 && !provider)
		return fprintf(stderr, "%s\n", dlerror());
	all();
	printf("evaluated %d\n", evaluated);
	if (provider && argc > 2) {
		dlclose(provider);
		all();
		printf("evaluated %d\n", evaluated);
		provider = dlopen(argv[1], RTLD_NOW);
		all();
		printf("evaluated %d\n", evaluated);
	}
	return 0;
}
