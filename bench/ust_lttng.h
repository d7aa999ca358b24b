/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The same events for LTTng-UST. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./ust_lttng.h"

#if !defined(BENCH_UST_LTTNG_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_UST_LTTNG_H
#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(bench, two, LTTNG_UST_TP_ARGS(int, a, long, b),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, a, a) lttng_ust_field_integer(long, b, b)))
LTTNG_UST_TRACEPOINT_EVENT(bench, text, LTTNG_UST_TP_ARGS(int, a, const char *, s),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, a, a) lttng_ust_field_string(s, s)))
LTTNG_UST_TRACEPOINT_EVENT(bench, stack, LTTNG_UST_TP_ARGS(int, a, long, b, void **, pcs, int, n),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, a, a) lttng_ust_field_integer(long, b, b)
						       lttng_ust_field_sequence_hex(unsigned long, pcs, pcs,
										    unsigned int, n)))
#endif
#include <lttng/tracepoint-event.h>

#undef TRACE_TWO
#undef TRACE_TEXT
#undef TRACE_STACK
#define TRACE_TWO(a, b) lttng_ust_tracepoint(bench, two, a, b)
#define TRACE_TEXT(a, s) lttng_ust_tracepoint(bench, text, a, s)
#define TRACE_STACK(a, b, frames)                                    \
	do {                                                         \
		void *pcs_[MOST_FRAMES];                             \
		int n_ = backtrace(pcs_, (int)(frames));             \
		\
		lttng_ust_tracepoint(bench, stack, a, b, pcs_, n_);  \
	} while (0)
