/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The two events of bench/ust.c. */
#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(bench, two, TP_PROTO(int a, long b), TP_ARGS(a, b),
		 TP_FIELDS(spoor_int(int, a, a), spoor_int(long, b, b)))
SPOOR_TRACEPOINT(bench, text, TP_PROTO(int a, const char *s), TP_ARGS(a, s),
		 TP_FIELDS(spoor_int(int, a, a), spoor_string(s, s)))
#define TRACE_TWO(a, b) spoor_trace(bench, two, a, b)
#define TRACE_TEXT(a, s) spoor_trace(bench, text, a, s)
#define TRACE_STACK(a, b, frames) spoor_trace(bench, two, a, b)
