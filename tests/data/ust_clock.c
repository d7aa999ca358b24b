/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ust_clock COUNT PAUSE_US: each event carries CLOCK_MONOTONIC as it was just before it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "spoor/tracepoint.h"

SPOOR_TRACEPOINT(zoo, clock, TP_PROTO(uint64_t before), TP_ARGS(before), TP_FIELDS(spoor_int(uint64_t, before, before)))

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 1000, pause_us = argc > 2 ? atol(argv[2]) : 0;

	puts("ready");
	fflush(stdout);
	for (long i = 0; i < count; i++) {
		struct timespec ts;

		clock_gettime(CLOCK_MONOTONIC, &ts);
		spoor_trace(zoo, clock, ts.tv_sec * 1000000000ULL + ts.tv_nsec);
		if (pause_us)
			usleep(pause_us);
	}
	return 0;
}
