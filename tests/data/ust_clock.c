/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ust_clock COUNT [PAUSE_US [PACE_NS]]: each event carries CLOCK_MONOTONIC as it was just before it, and as it was just after the
 * event before it. So each stamp has a place between two readings, whatever interrupts the program meanwhile. PACE_NS:
 * so far apart are they at least, by the hundred.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "spoor/tracepoint.h"

SPOOR_TRACEPOINT(zoo, clock, TP_PROTO(uint64_t before, uint64_t last_after), TP_ARGS(before, last_after),
		 TP_FIELDS(spoor_int(uint64_t, before, before), spoor_int(uint64_t, last_after, last_after)))

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 1000, pause_us = argc > 2 ? atol(argv[2]) : 0;
	uint64_t pace = argc > 3 ? atol(argv[3]) : 0, begin = now(), after = 0;

	puts("ready");
	fflush(stdout);
	for (long i = 0; i <= count; i++) {
		uint64_t before = now();

		spoor_trace(zoo, clock, before, after);
		after = now();
		if (pause_us)
			usleep(pause_us);
		while (i % 100 == 99 && now() - begin < i * pace)
			;
	}
	return 0;
}
