/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#pragma GCC system_header
/*
 * Markers: events by a printf format, without a declaration.
 *
 *	trace_mark(server_request, "fd %d path %s", fd, path);
 *
 * The format is a string literal; the compiler checks the arguments as printf's. Each conversion makes a field, named
 * by the word before it and typed by the conversion; a `#` hint before it says how an integer is stored: "size #2u%zu"
 * in two bytes, "port #n2u%u" two bytes in network order. %b and %w32d of C23 are understood, with whichever libc; %ls
 * is an address, %lc the number of a character. %m makes a field `errno`: the number that it has once the arguments
 * have been evaluated. Not understood: arguments by number (%1$d), %n, %C and %S, decimal floating point, conversions
 * that a program registers, more than 64 arguments; events of such a marker have no fields.
 *
 *	spoor_log("cache is %d%% full", percent);
 *
 * is a marker without a name: its event is called by its file and line, and shown with its words.
 *
 * Off, both cost what a tracepoint does, and their arguments are not evaluated.
 *
 * Probes get the arguments as a va_list:
 *
 *	static void probe(void *data, void *call_data, const char *format, va_list *args);
 *	marker_probe_register("server_request", "fd %d path %s", probe, data);
 *
 * format: only markers of just this format; NULL: of any. call_data is NULL. They return 0 or -EEXIST, -ENOENT,
 * -ENOMEM, -EPERM, -ENOSYS (no library), -EDEADLK (in a probe), and are not for signal handlers. Objects that are
 * loaded later are not spoken for: their markers may have no memory, or no way to be switched on. A probe has to
 * return, or to end its thread; more of all that in spoor/tracepoint.h.
 */
#include <stdarg.h>

#include "diagnostics.h"
#ifndef SPOOR_DISABLE
#include "record.h"
#endif

#ifndef SPOOR_WEAK_
#define SPOOR_WEAK_ __attribute__((weak)) /* absent libraries are NULL */
#endif
#ifdef __cplusplus
extern "C" {
#endif
typedef void marker_probe_func(void *data, void *call_data, const char *format, va_list *args);

/* The library's; absent they are NULL. */
int spoor_marker_register(const char *name, const char *format, marker_probe_func *probe, void *data)
	SPOOR_WEAK_;
int spoor_marker_unregister(const char *name, marker_probe_func *probe, void *data) SPOOR_WEAK_;
void spoor_probe_synchronize(void) SPOOR_WEAK_;
#ifdef __cplusplus
}
#endif

static __inline__ __attribute__((unused)) int marker_probe_register(const char *name, const char *format,
								marker_probe_func *probe, void *data)
{
	return spoor_marker_register ? spoor_marker_register(name, format, probe, data) : -38 /* -ENOSYS */;
}

static __inline__ __attribute__((unused)) int marker_probe_unregister(const char *name, marker_probe_func *probe,
								  void *data)
{
	return spoor_marker_unregister ? spoor_marker_unregister(name, probe, data) : -38;
}

/* From its return on no unregistered probe runs: an object that has one may be unloaded. In a probe it is nothing. */
static __inline__ __attribute__((unused)) void marker_synchronize_unregister(void)
{
	if (spoor_probe_synchronize)
		spoor_probe_synchronize();
}

static __inline__ __attribute__((unused, format(printf, 1, 2))) void spoor_check_format_(const char *format, ...)
{
	(void)format;
}

/* The format is among what is variable, for which -Wpedantic wants an argument. */
#define trace_mark(name, ...) SPOOR_MARKER_(1, 6, "marker", #name, __VA_ARGS__)
#define spoor_log(...) spoor_log_level(6, __VA_ARGS__)
/* level: 0 emergency .. 6 info .. 14 debug, a constant */
#define spoor_log_level(level, ...) SPOOR_MARKER_(2, level, "log", __FILE__ ":" SPOOR_LINE_(__LINE__), __VA_ARGS__)
#define SPOOR_LINE_(line) SPOOR_LINE2_(line)
#define SPOOR_LINE2_(line) #line

#ifdef SPOOR_DISABLE
#define SPOOR_MARKER_(kind, level, provider, name, ...) \
	do {                                            \
		SPOOR_OWN_BEGIN_                        \
		if (0)                                  \
			spoor_check_format_(__VA_ARGS__); \
		SPOOR_OWN_END_                          \
	} while (0)
#else

#define SPOOR_MARKER_NAMES_(provider, name, ...) SPOOR_MARKER_NAMES2_(provider, name, __VA_ARGS__, )
#define SPOOR_MARKER_NAMES2_(provider, name, format, ...) provider "\0" name "\0" format
#define SPOOR_MARKER_PAD_(names) ((sizeof(names) + 7) & ~(size_t)7)

#define SPOOR_MARKER_SITE_(kind, level, names)                                                                   \
	struct spoor_marker_desc_ {                                                                             \
		struct spoor_desc d;                                                                            \
		char names_[SPOOR_MARKER_PAD_(names)];                                                          \
	};                                                                                                      \
	SPOOR_CONSTANT_ struct spoor_marker_desc_ spoor_desc_ __attribute__((aligned(8))) = {                   \
		{ sizeof(struct spoor_marker_desc_), SPOOR_MARKER_PAD_(names), 0, kind, level, 0, 0 }, names    \
	};                                                                                                      \
	static struct spoor_tracepoint spoor_marker_

#ifdef __cplusplus
#define SPOOR_MARKER_(kind, level, provider, name, ...)                                                            \
	do {                                                                                                       \
		SPOOR_SITE_STRUCT_ spoor_site_here_ {                                                              \
			SPOOR_SITE_FUNCTION_ struct spoor_tracepoint *is_on_()                                     \
			{                                                                                          \
				SPOOR_MARKER_SITE_(kind, level, SPOOR_MARKER_NAMES_(provider, name, __VA_ARGS__)); \
				SPOOR_SITE_(spoor_marker_, spoor_desc_, __FILE__, on);                             \
				return nullptr;                                                                    \
			on:                                                                                        \
				return SPOOR_SITE_ON_(spoor_marker_) ? &spoor_marker_ : nullptr;                   \
			}                                                                                          \
		};                                                                                                 \
		struct spoor_tracepoint *const spoor_on_ = spoor_site_here_::is_on_();                             \
		if (__builtin_expect(spoor_on_ != nullptr, 0))                                                     \
			SPOOR_CALL_(SPOOR_LOAD_(spoor_on_->ops)->mark(spoor_on_, __VA_ARGS__));                    \
		if (0)                                                                                             \
			spoor_check_format_(__VA_ARGS__);                                                          \
	} while (0)
#else
#define SPOOR_MARKER_(kind, level, provider, name, ...)                                                 \
	do {                                                                                            \
		__label__ spoor_on_, spoor_off_;                                                        \
		SPOOR_OWN_BEGIN_                                                                        \
		SPOOR_MARKER_SITE_(kind, level, SPOOR_MARKER_NAMES_(provider, name, __VA_ARGS__));      \
		SPOOR_SITE_HERE_(spoor_marker_, spoor_desc_, spoor_on_);                                \
		goto spoor_off_;                                                                        \
	spoor_on_:                                                                                      \
		if (SPOOR_SITE_ON_(spoor_marker_))                                                      \
			SPOOR_CALL_(SPOOR_LOAD_(spoor_marker_.ops)->mark(&spoor_marker_, __VA_ARGS__)); \
		if (0)                                                                                  \
			spoor_check_format_(__VA_ARGS__);                                               \
	spoor_off_:;                                                                                    \
		SPOOR_OWN_END_                                                                          \
	} while (0)
#endif
#endif /* !SPOOR_DISABLE */
