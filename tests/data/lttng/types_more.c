/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Another source with sites of the same provider. */
#include "guard.h"
#include "types_tp.h"

void elsewhere(int n);

static void scoped(int n)
{
	GUARD(outer);

	lttng_ust_tracepoint(types, first, n, 1);
	switch (n) {
	case 1: {
		GUARD(inner);
		lttng_ust_tracepoint(types, first, n, 2);
		break;
	}
	default:
		if (lttng_ust_tracepoint_enabled(types, second)) {
			GUARD(inner);
			lttng_ust_do_tracepoint(types, second, n, 3);
		}
		goto out;
	}
	lttng_ust_tracepoint(types, first, n, 4);
out:
	lttng_ust_tracepoint(types, first, n, 5);
}

void elsewhere(int n)
{
	lttng_ust_tracepoint(types, first, n, 2L * n);
	scoped(0);
	scoped(1);
}
