/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Every kind of field of LTTng-UST 2.13's grammar. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER types

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./types_tp.h"

#if !defined(TYPES_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TYPES_TP_H

#include <lttng/tracepoint.h>
#include <stdbool.h>
#include <stdint.h>

#ifndef TYPES_TP_ONCE
#define TYPES_TP_ONCE
struct types_point; /* what it is only the provider knows */
#endif

LTTNG_UST_TRACEPOINT_ENUM(types, color,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_value("red", 0)
		lttng_ust_field_enum_auto("orange")
		lttng_ust_field_enum_range("green 50 %s", 4, 6)
		lttng_ust_field_enum_auto("blue")
		lttng_ust_field_enum_value("unset", -1)
	)
)

LTTNG_UST_TRACEPOINT_ENUM(types, size,
	LTTNG_UST_TP_ENUM_VALUES(
		lttng_ust_field_enum_auto("small")
		lttng_ust_field_enum_auto("large")
		lttng_ust_field_enum_value("huge", 255)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(types, integers,
	LTTNG_UST_TP_ARGS(int8_t, a, uint8_t, b, int16_t, c, uint16_t, d, int, e, unsigned int, f, long, g,
			  unsigned long, h, void *, p, bool, t),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(int8_t, a, a)
		lttng_ust_field_integer(uint8_t, b, b)
		lttng_ust_field_integer(int16_t, c, c)
		lttng_ust_field_integer_hex(uint16_t, d, d)
		lttng_ust_field_integer(int, e, e)
		lttng_ust_field_integer_hex(int, e_hex, e)
		lttng_ust_field_integer_hex(unsigned int, f, f)
		lttng_ust_field_integer(long, g, g)
		lttng_ust_field_integer_hex(unsigned long, h, h)
		lttng_ust_field_integer_hex(const void *, p, p)
		lttng_ust_field_integer(uint64_t, p_decimal, (uint64_t)(uintptr_t)p)
		lttng_ust_field_integer(bool, t, t)
		lttng_ust_field_integer(char, narrowed, e & 0x3f)
		lttng_ust_field_integer_network(uint16_t, port, __builtin_bswap16(d))
		lttng_ust_field_integer_network_hex(uint32_t, address, __builtin_bswap32(f))
		lttng_ust_field_integer_network(int32_t, negative, (int32_t)__builtin_bswap32((uint32_t)e))
		lttng_ust_field_unused(g)
	)
)
LTTNG_UST_TRACEPOINT_LOGLEVEL(types, integers, LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)
LTTNG_UST_TRACEPOINT_MODEL_EMF_URI(types, integers, "http://example.com/types/integers?q=1")

LTTNG_UST_TRACEPOINT_EVENT(types, others,
	LTTNG_UST_TP_ARGS(float, f, double, d, const char *, s, int, n),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_float(float, f, f)
		lttng_ust_field_float(double, d, d)
		lttng_ust_field_float(double, half, d / 2)
		lttng_ust_field_string(s, s)
		lttng_ust_field_string(either, n > 0 ? s : NULL)
		lttng_ust_field_enum(types, color, int, color, n)
		lttng_ust_field_enum(types, size, uint8_t, size, (uint8_t)n)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(types, arrays,
	LTTNG_UST_TP_ARGS(const int *, i, const char *, text, const uint16_t *, net, const struct types_point *, point),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_array(int, i, i, 3)
		lttng_ust_field_array_hex(int, hex, i, 2 + 1)
		lttng_ust_field_array_network(uint16_t, net, net, 2)
		lttng_ust_field_array_network_hex(uint16_t, net_hex, net, 2)
		lttng_ust_field_array_text(char, text, text, 5)
		lttng_ust_field_array(uint8_t, bytes, text, 2)
		lttng_ust_field_integer(int, x, point->x)
		lttng_ust_field_integer(int, sum, types_sum(point))
	)
)

LTTNG_UST_TRACEPOINT_EVENT(types, sequences,
	LTTNG_UST_TP_ARGS(const int *, i, size_t, n, const char *, text, const uint16_t *, net),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_sequence(int, i, i, size_t, n)
		lttng_ust_field_sequence_hex(int, hex, i, uint8_t, n)
		lttng_ust_field_sequence_network(uint16_t, net, net, unsigned short, n)
		lttng_ust_field_sequence_network_hex(uint16_t, net_hex, net, unsigned int, n)
		lttng_ust_field_sequence_text(char, text, text, unsigned long, n)
		lttng_ust_field_sequence(long, none, NULL, uint32_t, 0)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(types, unwritten,
	LTTNG_UST_TP_ARGS(int, a, const char *, s),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer_nowrite(int, a, a)
		lttng_ust_field_float_nowrite(double, f, a)
		lttng_ust_field_string_nowrite(s, s)
		lttng_ust_field_enum_nowrite(types, color, int, color, a)
		lttng_ust_field_array_nowrite(char, b, s, 1)
		lttng_ust_field_array_nowrite_hex(char, bh, s, 1)
		lttng_ust_field_array_network_nowrite(char, bn, s, 1)
		lttng_ust_field_array_network_nowrite_hex(char, bnh, s, 1)
		lttng_ust_field_array_text_nowrite(char, c, s, 1)
		lttng_ust_field_sequence_nowrite(char, d, s, int, a)
		lttng_ust_field_sequence_nowrite_hex(char, dh, s, int, a)
		lttng_ust_field_sequence_network_nowrite(char, dn, s, int, a)
		lttng_ust_field_sequence_network_nowrite_hex(char, dnh, s, int, a)
		lttng_ust_field_sequence_text_nowrite(char, e, s, int, a)
		lttng_ust_field_unused(a)
		lttng_ust_field_unused_nowrite(s)
		lttng_ust_field_integer(int, written, a)
	)
)

/* Before its class, as libfabric has them. */
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(types, pair, types, first, LTTNG_UST_TP_ARGS(int, a, long, b))
LTTNG_UST_TRACEPOINT_EVENT_CLASS(types, pair,
	LTTNG_UST_TP_ARGS(int, a, long, b),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(int, a, a)
		lttng_ust_field_integer(long, b, b)
	)
)
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(types, pair, types, second, LTTNG_UST_TP_ARGS(int, a, long, b))
LTTNG_UST_TRACEPOINT_LOGLEVEL(types, second, LTTNG_UST_TRACEPOINT_LOGLEVEL_EMERG)

/* Its string is shortened after its size was asked for. */
LTTNG_UST_TRACEPOINT_EVENT(types, shortened,
	LTTNG_UST_TP_ARGS(char *, s, int, at),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(int, at, types_shorten(s, at))
		lttng_ust_field_string(s, s)
		lttng_ust_field_integer(int, behind, at)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(types, nothing, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())
LTTNG_UST_TRACEPOINT_EVENT(types, nothing_void, LTTNG_UST_TP_ARGS(void), LTTNG_UST_TP_FIELDS())
LTTNG_UST_TRACEPOINT_EVENT_CLASS(types, no_fields, LTTNG_UST_TP_ARGS(void), )
#define TYPES_NONE LTTNG_UST_TP_ARGS(void) /* all of it a macro, as FRRouting has it */
LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(types, no_fields, types, nothing_at_all, TYPES_NONE)

#endif /* TYPES_TP_H */

#include <lttng/tracepoint-event.h>
