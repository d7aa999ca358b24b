/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What sites cost while they are off: 1,000 of them, one after another, with work between. Prints ns a site, the same
 * code without anything at the sites taken off: ust_sites nop5|site, or with BENCH_LTTNG lttng. LAPS over all of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef BENCH_LTTNG
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "ust_lttng.h"
#else
#include "ust.h"
#endif

#define NOTHING()
#define NOP5() __asm__ volatile(".byte 0x0f, 0x1f, 0x44, 0x00, 0x00")
#define SITE() TRACE_TWO((int)x, (long)x)

/* Some 2 ns: a multiplication that waits for the one before, a load, a store. */
#define WORK(what)                           \
	x = x * 2862933555777941757UL + 3;   \
	what();                              \
	table[x >> 58] += x;
#define TEN(what) \
	WORK(what) WORK(what) WORK(what) WORK(what) WORK(what) WORK(what) WORK(what) WORK(what) WORK(what) WORK(what)
#define HUNDRED(what) \
	TEN(what) TEN(what) TEN(what) TEN(what) TEN(what) TEN(what) TEN(what) TEN(what) TEN(what) TEN(what)
#define THOUSAND(what)                                                                                      \
	HUNDRED(what) HUNDRED(what) HUNDRED(what) HUNDRED(what) HUNDRED(what) HUNDRED(what) HUNDRED(what)   \
	HUNDRED(what) HUNDRED(what) HUNDRED(what)

static volatile unsigned long table[64];

#define LAPS_OVER(name, what)                                                \
	static __attribute__((noinline)) unsigned long name(long laps)       \
	{                                                                    \
		unsigned long x = 1;                                         \
								\
		while (laps-- > 0) {                                         \
			THOUSAND(what)                                       \
		}                                                            \
		return x;                                                    \
	}
LAPS_OVER(bare, NOTHING)
LAPS_OVER(nop5, NOP5)
LAPS_OVER(site, SITE)

static double ns(unsigned long run(long laps), long laps)
{
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	run(laps);
	clock_gettime(CLOCK_MONOTONIC, &b);
	return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / (double)laps / 1000;
}

/* The least of several: what disturbs only ever adds. */
static double least(unsigned long run(long laps), long laps)
{
	double best = 1e9;

	for (int i = 0; i < 15; i++) {
		double t = ns(run, laps);

		best = t < best ? t : best;
	}
	return best;
}

int main(int argc, char **argv)
{
	long laps = argc > 1 ? atol(argv[1]) : 2000;
	double empty = least(bare, laps), nop = least(nop5, laps), off = least(site, laps);

	printf("bare %.3f nop5 +%.3f site +%.3f ns\n", empty, nop - empty, off - empty);
	return 0;
}
