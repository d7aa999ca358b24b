/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sites in functions of their own, of each kind: the context `ip` says in which. */
#include <spoor/marker.h>
#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(places, text, TP_PROTO(int n, const char *s), TP_ARGS(n, s),
		 TP_FIELDS(spoor_int(int, n, n), spoor_string(s, s)))
DECLARE_TRACE(places_old, TP_PROTO(int n, const char *s), TP_ARGS(n, s));
DEFINE_TRACE(places_old);

#ifdef __cplusplus
#define FUNCTION extern "C" __attribute__((noinline)) void
#else
#define FUNCTION __attribute__((noinline)) void
#endif

FUNCTION first(int n)
{
	char room[200]; /* a frame of its own */

	__asm__ volatile("" : : "r"(room) : "memory");
	spoor_trace(places, text, n, "first");
}

FUNCTION second(int n)
{
	spoor_trace(places, text, n, "second");
}

FUNCTION inlined(int n)
{
	trace_places_text(n, "inlined");
}

FUNCTION old(int n)
{
	trace_places_old(n, "old");
}

FUNCTION marked(int n)
{
	trace_mark(places_marked, "n %d s %s", n, "marked");
}

int main(void)
{
	for (int i = 0; i < 10; i++) {
		first(i);
		second(i);
		inlined(i);
		old(i);
		marked(i);
	}
	return 0;
}
