/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An object that is loaded and unloaded with its sites on. */
#include <spoor/marker.h>
#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(plugin, work, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

void work(int n);

static __attribute__((constructor)) void comes(void)
{
	spoor_trace(plugin, work, -1);
}

static __attribute__((destructor)) void goes(void)
{
	spoor_trace(plugin, work, -2);
}

void work(int n)
{
	spoor_trace(plugin, work, n);
	trace_mark(plugin_mark, "n %d", n);
}
