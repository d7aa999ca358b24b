/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sites that are the last that a function does. */
#include <stdarg.h>

#define LTTNG_UST_TRACEPOINT_DEFINE
#include "places_tp.h"
#include <lttng/tracef.h>
#include <lttng/tracelog.h>

#define PLACE __attribute__((noinline)) void

PLACE place_many(int i)
{
	lttng_ust_tracepoint(places, many, i, 2, 3, 4, 5, 6, 7);
}

PLACE place_few(int i)
{
	lttng_ust_tracepoint(places, few, i);
}

PLACE place_do(int i)
{
	lttng_ust_do_tracepoint(places, few, i);
}

PLACE place_tracef(int i)
{
	lttng_ust_tracef("%d", i);
}

PLACE place_tracelog(int i)
{
	lttng_ust_tracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING, "%d", i);
}

static PLACE place_vtracelog(int n, ...)
{
	va_list args;

	va_start(args, n);
	lttng_ust_vtracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR, "%d", args);
}

int main(void)
{
	for (int i = 0; i < 3; i++) {
		place_many(i);
		place_few(i);
		place_do(i);
		place_tracef(i);
		place_tracelog(i);
		place_vtracelog(1, i);
	}
	return 0;
}
