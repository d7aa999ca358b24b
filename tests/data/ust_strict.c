/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Every form of tracepoints and markers, in C and C++, for programs that let their compilers warn of anything. */
#include <spoor/marker.h>
#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(strict, all, TP_PROTO(int n, const char *s, float f), TP_ARGS(n, s, f),
		 TP_FIELDS(spoor_int(int, n, n), spoor_hex(long, h, n), spoor_string(s, s), spoor_float(float, f, f),
			   spoor_pointer(p, s), spoor_array(char, a, s, 3), spoor_sequence(char, q, s, n),
			   spoor_text(t, s, n), spoor_enum(int, e, n, spoor_label("a", 1), spoor_range("b", 2, 3))))
SPOOR_TRACEPOINT_LEVEL(strict, none, SPOOR_LEVEL_ERR, TP_PROTO(void), TP_ARGS(), TP_FIELDS())

struct pair {
	int x, y;
};
DECLARE_TRACE(strict_old, TP_PROTO(const char *s, struct pair pair, double d, unsigned char u), TP_ARGS(s, pair, d, u));
DEFINE_TRACE(strict_old);
DECLARE_TRACE(strict_qualified,
	      TP_PROTO(char *__restrict r, const char *__restrict c, int *__restrict i, volatile char *v, const int n,
		       float f),
	      TP_ARGS(r, c, i, v, n, f));
DEFINE_TRACE(strict_qualified);
#ifndef __cplusplus /* where volatile parameters are deprecated */
DECLARE_TRACE(strict_volatile, TP_PROTO(volatile int n), TP_ARGS(n));
DEFINE_TRACE(strict_volatile);
#endif
DECLARE_TRACE(strict_arrays, TP_PROTO(const int some[3], const char text[4]), TP_ARGS(some, text));
DEFINE_TRACE(strict_arrays);
DECLARE_TRACE(strict_long, TP_PROTO(long double l, const long double c), TP_ARGS(l, c));
DEFINE_TRACE(strict_long);
DECLARE_TRACE_NOARGS(strict_noargs);
DEFINE_TRACE(strict_noargs);

static void probe(void *data, int n, const char *s, float f)
{
	(void)data;
	(void)n;
	(void)s;
	(void)f;
}

static void old_probe(void *data, const char *s, struct pair pair, double d, unsigned char u)
{
	(void)data;
	(void)s;
	(void)pair;
	(void)d;
	(void)u;
}

static void mark_probe(void *data, void *call_data, const char *format, va_list *args)
{
	(void)data;
	(void)call_data;
	(void)format;
	(void)args;
}

static int probes(void)
{
	int data = 0;
	struct pair pair = { 1, 2 };
	int ret = register_trace_strict_all(probe, &data) | register_trace_strict_old(old_probe, &data) |
		  marker_probe_register("strict_mark", "t", mark_probe, &data);

	trace_strict_all(1, "text", 2.5F);
	trace_strict_old("text", pair, 2.5, 200);
	ret |= unregister_trace_strict_all(probe, &data) | unregister_trace_strict_old(old_probe, &data) |
	       marker_probe_unregister("strict_mark", mark_probe, &data);
	tracepoint_synchronize_unregister();
	marker_synchronize_unregister();
	return ret;
}

/* Of external linkage, as C has them in headers. */
inline int sites_within(int n);
inline int sites_within(int n)
{
	spoor_trace(strict, all, n, "in", 1.5F);
	spoor_trace(strict, none);
	trace_mark(strict_mark, "n %d", n);
	trace_mark(strict_mark_bare, "t");
	spoor_log("n %d", n);
	return n;
}
#ifndef __cplusplus
extern inline int sites_within(int n);
#endif

int main(int argc, char **argv)
{
	static char text[] = "text", other[] = "other";
	static int number, some[3];
	struct pair pair = { 1, 2 };

	(void)argv;
	if (sites_within(argc))
		spoor_log("bare");
	else
		spoor_trace(strict, none);
	spoor_log_level(3, "bare");
	trace_strict_all(argc, text, 2.5F);
	trace_strict_none();
	trace_strict_arrays(some, text);
	trace_strict_noargs();
	trace_strict_old(text, pair, 2.5, 200);
	trace_strict_qualified(text, "const", &number, other, -7, 1.5F);
#ifndef __cplusplus
	trace_strict_volatile(-11);
#endif
	return argc > 1 ? probes() : 0;
}
