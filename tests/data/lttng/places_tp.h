/* SPDX-License-Identifier: GPL-2.0-or-later */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER places

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "places_tp.h"

#if !defined(PLACES_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PLACES_TP_H

#include <lttng/tracepoint.h>

/* More arguments than there are registers for, and names that a header might use itself. */
LTTNG_UST_TRACEPOINT_EVENT(places, many,
	LTTNG_UST_TP_ARGS(int, site, int, size, int, tp, int, at, int, args, int, e, int, f),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(int, site, site)
		lttng_ust_field_integer(int, sum, size + tp + at + args + e + f)
	)
)
LTTNG_UST_TRACEPOINT_EVENT(places, few, LTTNG_UST_TP_ARGS(int, site),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, site, site)))

#endif

#include <lttng/tracepoint-event.h>
