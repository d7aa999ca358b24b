/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guard.h"
#include "old_tp.h"
#include "types_tp.h"
#include <lttng/tracef.h>
#include <lttng/tracelog.h>

#define TRACE(name, ...) tracepoint(old_style, name, __VA_ARGS__)

static void scoped(int n)
{
	GUARD(outer);

	tracef("scoped %d", n);
	switch (n) {
	case 1: {
		GUARD(inner);
		lttng_ust_tracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR, "in %d", n);
		tracef("in %d", n);
		break;
	}
	default:
		TRACE(call, NULL, "default", (uint64_t)n);
	}
	tracef("after %d", n);
}

int main(void)
{
	char large[3000];
	int n;

	tracepoint(old_style, began);
	for (n = 0; n < 12; n++)
		TRACE(call, &n == NULL ? NULL : (const void *)0x10, "name", (uint64_t)n);
	if (tracepoint_enabled(old_style, ten))
		do_tracepoint(old_style, ten, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
	tracepoint(types, first, 1, 2);
	tracef("number %d of %s", 3, "three");
	memset(large, 'x', sizeof(large));
	for (n = 500; n < 520; n++)
		tracef("%.*s", n, large);
	tracef("%.*s", (int)sizeof(large), large);
	lttng_ust_tracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING, "warned of %s", "this");
	lttng_ust_tracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_LINE, "%2.1f %c", 0.5, 'c');
	scoped(0);
	scoped(1);
	tracepoint(old_style, ended);
	return 0;
}
