/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What sites cost while they are off: 1,000 of them, one after another, with work between: ust_sites [LAPS]. Prints ns
 * of the work, and what a nop5 and a site add to it. Compiled twice: with Spoor's sites, and with LTTng-UST's
 * (BENCH_LTTNG).
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#ifdef BENCH_LTTNG
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "ust_lttng.h"
#else
#include "ust.h"
#endif

#define TURNS 25
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

/* The least of several, in turns: what disturbs only ever adds. */
static void least(double best[3], long laps)
{
	static unsigned long (*const runs[])(long laps) = { bare, nop5, site };

	for (int turn = 0; turn < TURNS; turn++)
		for (int i = 0; i < 3; i++) {
			double t = ns(runs[i], laps);

			best[i] = !turn || t < best[i] ? t : best[i];
		}
}

int main(int argc, char **argv)
{
	long laps = argc > 1 ? atol(argv[1]) : 1000;
	double best[3];

	least(best, laps);
	printf("bare %.4f nop5 %.4f site %.4f ns\n", best[0], best[1] - best[0], best[2] - best[0]);
	return 0;
}
