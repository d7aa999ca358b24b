/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The names of LTTng-UST 2.12 and before, as programs use them: the provider by its macro, events made by macros. */
#undef TRACEPOINT_PROVIDER
#define TRACEPOINT_PROVIDER old_style

#if !defined(OLD_TP_H) || defined(TRACEPOINT_HEADER_MULTI_READ)
#define OLD_TP_H

#include <lttng/tracepoint.h>
#include <stdint.h>

TRACEPOINT_ENUM(old_style, answer, TP_ENUM_VALUES(ctf_enum_value("no", 0) ctf_enum_range("yes", 1, 9)))

TRACEPOINT_EVENT(
	TRACEPOINT_PROVIDER,
	call,
	TP_ARGS(
		const void *, object_arg,
		char const *, name_arg,
		uint64_t, id_arg
	),
	TP_FIELDS(
		ctf_integer_hex(void const *, object, object_arg)
		ctf_string(name, name_arg)
		ctf_integer(uint64_t, id, id_arg)
		ctf_enum(old_style, answer, uint32_t, answer, id_arg)
		ctf_array(uint8_t, bytes, name_arg, 4)
		ctf_sequence_text(char, text, name_arg, size_t, 2)
		ctf_float(double, half, id_arg / 2.0)
		ctf_integer_network_hex(uint16_t, port, id_arg)
		ctf_integer_nowrite(int, unwritten, 1)
		ctf_unused(id_arg)
	)
)
TRACEPOINT_LOGLEVEL(old_style, call, TRACE_INFO)

#define OLD_TEN int, a, int, b, int, c, int, d, int, e, int, f, int, g, int, h, int, i, int, j
TRACEPOINT_EVENT(old_style, ten, TP_ARGS(OLD_TEN),
	TP_FIELDS(
		ctf_integer(int, a, a) ctf_integer(int, b, b) ctf_integer(int, c, c) ctf_integer(int, d, d)
		ctf_integer(int, e, e) ctf_integer(int, f, f) ctf_integer(int, g, g) ctf_integer(int, h, h)
		ctf_integer(int, i, i) ctf_integer(int, j, j)
	)
)

#define OLD_EVENT(name) TRACEPOINT_EVENT_INSTANCE(old_style, void_class, name, TP_ARGS(void))
TRACEPOINT_EVENT_CLASS(old_style, void_class, TP_ARGS(void), TP_FIELDS())
OLD_EVENT(began)
OLD_EVENT(ended)

#endif /* OLD_TP_H */

#undef TRACEPOINT_INCLUDE
#define TRACEPOINT_INCLUDE "./old_tp.h"
#include <lttng/tracepoint-event.h>
