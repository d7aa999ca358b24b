/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#pragma GCC system_header
/* lttng_ust_tracef("format", ...): the event lttng_ust_tracef:event with the text as field msg. */
#include <lttng/spoor-text.h>

#ifdef SPOOR_DISABLE
static __inline__ __attribute__((unused, format(printf, 1, 2))) void spoor_lttng_tracef_(const char *format, ...)
{
	(void)format;
}
static __inline__ __attribute__((unused, format(printf, 1, 0))) void spoor_lttng_vtracef_(const char *format,
											  va_list args)
{
	(void)format;
	(void)args;
}
#define SPOOR_LTTNG_TRACEF_ON_() 0
#else

static struct spoor_tracepoint spoor_lttng_tp_lttng_ust_tracef___event __attribute__((unused));
static const struct {
	struct spoor_desc d;
	char names[24];
	struct spoor_desc_field f;
	char name[8];
} spoor_lttng_desc_lttng_ust_tracef___event __attribute__((unused, aligned(8))) = {
	{ sizeof(struct spoor_desc) + 24 + sizeof(struct spoor_desc_field) + 8, 24, 1, SPOOR_DESC_TRACEPOINT,
	  LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG, 0, 0 },
	"lttng_ust_tracef\0event",
	{ sizeof(struct spoor_desc_field) + 8, 1, 2, 1, 10, 3, 0, 0, 0, 0 },
	"msg",
};

static __attribute__((noinline, unused, format(printf, 1, 0), no_instrument_function))
void spoor_lttng_vtracef_(const char *format, va_list args)
{
	spoor_lttng_text_(&spoor_lttng_tp_lttng_ust_tracef___event, __builtin_return_address(0), NULL, format, args);
}

static __attribute__((noinline, unused, format(printf, 1, 2), no_instrument_function))
void spoor_lttng_tracef_(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	spoor_lttng_text_(&spoor_lttng_tp_lttng_ust_tracef___event, __builtin_return_address(0), NULL, format, args);
	va_end(args);
}
#define SPOOR_LTTNG_TRACEF_ON_() lttng_ust_tracepoint_enabled(lttng_ust_tracef, event)
#endif

#define lttng_ust_tracef(format, ...)                                   \
	do {                                                            \
		if (SPOOR_LTTNG_TRACEF_ON_())                           \
			SPOOR_CALL_(spoor_lttng_tracef_(format, ##__VA_ARGS__)); \
	} while (0)
#define lttng_ust_vtracef(format, args)                         \
	do {                                                    \
		if (SPOOR_LTTNG_TRACEF_ON_())                   \
			SPOOR_CALL_(spoor_lttng_vtracef_(format, args)); \
	} while (0)

#if LTTNG_UST_COMPAT_API(0)
#define tracef lttng_ust_tracef
#define vtracef lttng_ust_vtracef
#endif
