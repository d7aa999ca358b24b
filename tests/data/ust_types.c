/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Every type of field, every form of event, in C and C++: what is in the trace is in t320_ust_events.py. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <spoor/marker.h>
#include <spoor/tracepoint.h>
/* The paper's own includes. */
#include <ust/marker.h>
#include <ust/tracepoint.h>

enum color { RED, GREEN = 5, BLUE = -1 };
struct task_struct {
	int x;
};

SPOOR_TRACEPOINT(types, integers,
		 TP_PROTO(int8_t a, uint8_t b, int16_t c, uint16_t d, int32_t e, uint32_t f, int64_t g, uint64_t h, char i,
			  bool j, long long k),
		 TP_ARGS(a, b, c, d, e, f, g, h, i, j, k),
		 TP_FIELDS(spoor_int(int8_t, a, a), spoor_int(uint8_t, b, b), spoor_int(int16_t, c, c),
			   spoor_hex(uint16_t, d, d), spoor_oct(int32_t, e, e), spoor_bin(uint32_t, f, f),
			   spoor_int(int64_t, g, g), spoor_hex(uint64_t, h, h), spoor_int(char, i, i),
			   spoor_int(bool, j, j), spoor_int(long long, k, k)))
SPOOR_TRACEPOINT_LEVEL(types, others, SPOOR_LEVEL_DEBUG,
		       TP_PROTO(float f, double d, void *p, const char *s, const short *array, int n, enum color c),
		       TP_ARGS(f, d, p, s, array, n, c),
		       TP_FIELDS(spoor_float(float, f, f), spoor_float(double, d, d), spoor_pointer(p, p),
				 spoor_string(s, s), spoor_array(short, array, array, 3),
				 spoor_sequence_hex(short, sequence, array, n), spoor_text(text, s, 2),
				 spoor_enum(enum color, c, c, spoor_label("red", RED), spoor_range("green", 4, 6),
					    spoor_label("blue", BLUE))))
SPOOR_TRACEPOINT(types, none, TP_PROTO(), TP_ARGS(), TP_FIELDS())
/* As the kernel writes it. */
SPOOR_TRACEPOINT(types, nothing, TP_PROTO(void), TP_ARGS(), TP_FIELDS())

DECLARE_TRACE(subsys_eventname,
	      TP_PROTO(int firstarg, struct task_struct *p),
	      TP_ARGS(firstarg, p));
DEFINE_TRACE(subsys_eventname);
DECLARE_TRACE(subsys_void, TP_PROTO(void), TP_ARGS());
DEFINE_TRACE(subsys_void);

static inline void inlined(int n)
{
	spoor_trace(types, none);
	trace_mark(inlined, "n %d", n);
}

static void probe(void *data, int firstarg, struct task_struct *p)
{
	printf("probe %s %d %d\n", (const char *)data, firstarg, p->x);
}

static void probe_of_nothing(void *data)
{
	printf("nothing %s\n", (const char *)data);
}

static void marker_probe(void *data, void *call_data, const char *format, va_list *args)
{
	(void)call_data;
	printf("marker %s ", (const char *)data);
	vprintf(format, *args);
	printf("\n");
}

int main(int argc, char **argv)
{
	static const short numbers[] = { -1, 2, 3, 4 };
	struct task_struct task = { 7 };
	char one[] = "one", two[] = "two";
	int i;

	(void)argv;
	spoor_trace(types, integers, -1, 255, -2, 65535, -3, 7, INT64_MIN, UINT64_MAX, 'x', true, -4);
	spoor_trace(types, others, 1.5f, -0.1, (void *)4096, "string", numbers, 4, GREEN);
	spoor_trace(types, others, 0, 0, NULL, NULL, numbers, 0, BLUE);
	for (i = 0; i < 8; i++)
		inlined(i);
	trace_types_none();
	trace_subsys_eventname(argc, &task);
	trace_mark(subsystem_event, "myint %d mystring %s", 42, "forty-two");
	trace_mark(hinted, "size #1u%zu port #n2u%u ratio = %.2f who %.*s c %c x %lx plain%d %%", sizeof(int), 80u, 0.5, 2,
		   "abcdef", 'x', 255L, 3);
	trace_mark(widened, "u #8u%u x #n8x%x hh #4u%hhu d #8d%hd", 4000000000u, 0xdeadbeefu, (unsigned char)200, (short)-3);
	trace_mark(numbered, "a %1$d", 1);
	spoor_log("%d%% of %s", 99, "all");

	printf("%d\n", register_trace_subsys_eventname(probe, one));
	printf("%d\n", register_trace_subsys_eventname(probe, one));
	printf("%d\n", register_trace_subsys_eventname(probe, two));
	printf("%d\n", marker_probe_register("subsystem_event", "myint %d mystring %s", marker_probe, one));
	trace_subsys_eventname(1, &task);
	trace_mark(subsystem_event, "myint %d mystring %s", 43, "probed");
	trace_mark(subsystem_event, "other %d", 44);
	printf("%d\n", unregister_trace_subsys_eventname(probe, one));
	tracepoint_synchronize_unregister();
	trace_subsys_eventname(2, &task);
	printf("%d\n", unregister_trace_subsys_eventname(probe, one));
	printf("%d\n", marker_probe_unregister("subsystem_event", marker_probe, one));
	marker_synchronize_unregister();
	trace_mark(subsystem_event, "myint %d mystring %s", 45, "not probed");
	trace_types_nothing();
	printf("%d\n", register_trace_subsys_void(probe_of_nothing, one));
	trace_subsys_void();
	return 0;
}
