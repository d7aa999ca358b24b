/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#pragma GCC system_header
/*
 * lttng_ust_tracelog(LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR, "format", ...): the event of that level of the provider
 * lttng_ust_tracelog, with fields line, file, func and msg.
 */
#include <lttng/spoor-text.h>

#ifdef SPOOR_DISABLE
#define SPOOR_LTTNG_LOG_(level)                                                                                  \
	SPOOR_LTTNG_C_ void spoor_lttng_log_##level(const char *file, int line, const char *function,           \
						    const char *format, ...)                                    \
		__attribute__((weak, format(printf, 4, 5)));                                                    \
	SPOOR_LTTNG_C_ void spoor_lttng_vlog_##level(const char *file, int line, const char *function,          \
						     const char *format, va_list args)                          \
		__attribute__((weak, format(printf, 4, 0)));
#define SPOOR_LTTNG_LOG_ON_(level) 0
#else

#define SPOOR_LTTNG_LOG_FIELD_(name, type, shape, bytes, flags) \
	{ { sizeof(struct spoor_desc_field) + 8, type, shape, bytes, 10, flags, 0, 0, 0, 0 }, name }
#define SPOOR_LTTNG_LOG_(level)                                                                                      \
	static struct spoor_tracepoint spoor_lttng_tp_lttng_ust_tracelog___##level __attribute__((unused));         \
	static const struct {                                                                                       \
		struct spoor_desc d;                                                                                \
		char names[64];                                                                                     \
		struct {                                                                                            \
			struct spoor_desc_field d;                                                                  \
			char name[8];                                                                               \
		} fields[4];                                                                                        \
	} spoor_lttng_desc_lttng_ust_tracelog___##level __attribute__((unused, aligned(8))) = {                     \
		{ sizeof(struct spoor_desc) + 64 + 4 * (sizeof(struct spoor_desc_field) + 8), 64, 4,                \
		  SPOOR_DESC_TRACEPOINT, level, 0, 0 },                                                             \
		"lttng_ust_tracelog\0" #level,                                                                      \
		{ SPOOR_LTTNG_LOG_FIELD_("line", 1, 0, 4, 1), SPOOR_LTTNG_LOG_FIELD_("file", 4, 0, 1, 0),           \
		  SPOOR_LTTNG_LOG_FIELD_("func", 4, 0, 1, 0), SPOOR_LTTNG_LOG_FIELD_("msg", 1, 2, 1, 3) },          \
	};                                                                                                          \
	static __attribute__((noinline, unused, format(printf, 4, 0), no_instrument_function))                      \
	void spoor_lttng_vlog_##level(                                                                              \
		const char *file, int line, const char *function, const char *format, va_list args)                 \
	{                                                                                                           \
		const struct spoor_lttng_place_ place = { file, function, line };                                   \
	\
		spoor_lttng_text_(&spoor_lttng_tp_lttng_ust_tracelog___##level, __builtin_return_address(0), &place, \
				  format, args);                                                                    \
	}                                                                                                           \
	static __attribute__((noinline, unused, format(printf, 4, 5), no_instrument_function))                      \
	void spoor_lttng_log_##level(                                                                               \
		const char *file, int line, const char *function, const char *format, ...)                          \
	{                                                                                                           \
		const struct spoor_lttng_place_ place = { file, function, line };                                   \
		va_list args;                                                                                       \
	\
		va_start(args, format);                                                                             \
		spoor_lttng_text_(&spoor_lttng_tp_lttng_ust_tracelog___##level, __builtin_return_address(0), &place, \
				  format, args);                                                                    \
		va_end(args);                                                                                       \
	}
#define SPOOR_LTTNG_LOG_ON_(level) lttng_ust_tracepoint_enabled(lttng_ust_tracelog, level)
#endif

SPOOR_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_EMERG)
SPOOR_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_ALERT)
SPOOR_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_CRIT)
SPOOR_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR)
SPOOR_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING)
SPOOR_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE)
SPOOR_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)
SPOOR_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_SYSTEM)
SPOOR_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROGRAM)
SPOOR_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROCESS)
SPOOR_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_MODULE)
SPOOR_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_UNIT)
SPOOR_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_FUNCTION)
SPOOR_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_LINE)
SPOOR_LTTNG_LOG_(LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG)

/* By a second macro, since TRACE_ERR is one, too. */
#define lttng_ust_tracelog(level, format, ...) SPOOR_LTTNG_TRACELOG_(level, format, ##__VA_ARGS__)
#define SPOOR_LTTNG_TRACELOG_(level, format, ...)                                                               \
	do {                                                                                                    \
		if (SPOOR_LTTNG_LOG_ON_(level))                                                                 \
			SPOOR_CALL_(spoor_lttng_log_##level(__FILE__, __LINE__, __func__, format, ##__VA_ARGS__)); \
	} while (0)
#define lttng_ust_vtracelog(level, format, args) SPOOR_LTTNG_VTRACELOG_(level, format, args)
#define SPOOR_LTTNG_VTRACELOG_(level, format, args)                                                     \
	do {                                                                                            \
		if (SPOOR_LTTNG_LOG_ON_(level))                                                         \
			SPOOR_CALL_(spoor_lttng_vlog_##level(__FILE__, __LINE__, __func__, format, args)); \
	} while (0)

#if LTTNG_UST_COMPAT_API(0)
#define tracelog lttng_ust_tracelog
#define vtracelog lttng_ust_vtracelog
#endif
