/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#pragma GCC system_header
/*
 * Providers of LTTng-UST 2.13, their headers and sources unchanged, on Spoor's sites. What differs is the include path
 * and the library (`pkg-config --cflags --libs spoor-lttng-ust`). docs/migrating-from-lttng-ust.md has what is
 * different and what is not there.
 *
 *	site (any source)                        provider (the source with LTTNG_UST_TRACEPOINT_CREATE_PROBES)
 *	+---------------------------+            +---------------------------------------------------------+
 *	| patched jump              |            | fields, labels, level, in an entry of spoor_sites        |
 *	|   lttng_ust_tracepoint_cb | --weak---> | spoor_lttng_emit: size, reserve, write, commit           |
 *	+---------------------------+   |        +---------------------------------------------------------+
 *	                                +------> the same of another object, found by the library (ops->elsewhere)
 *
 * The site knows of its event only name and arguments, since the fields' expressions may need what only the provider's
 * source has included. If the provider is linked into the same object it is called directly; if it is in an object that
 * is loaded sometime, the library connects both, and parts them when the provider is unloaded.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <lttng/spoor-arguments.h>
#include <lttng/ust-api-compat.h>
#include <lttng/ust-version.h>
#ifndef SPOOR_DISABLE
#include <spoor/record.h>
#endif

#if defined(__cplusplus) && __cplusplus < 201103L
#error "spoor: tracepoints need C++11 or newer"
#endif

#define LTTNG_UST_TRACEPOINT_NAME_LEN_MAX 256
#define LTTNG_UST_TP_ARGS(...) __VA_ARGS__
#define LTTNG_UST_TP_FIELDS(...) __VA_ARGS__
#define LTTNG_UST_TP_ENUM_VALUES(...) __VA_ARGS__

enum {
	LTTNG_UST_TRACEPOINT_LOGLEVEL_EMERG = 0,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_ALERT = 1,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_CRIT = 2,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_ERR = 3,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_WARNING = 4,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_NOTICE = 5,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO = 6,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_SYSTEM = 7,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROGRAM = 8,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_PROCESS = 9,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_MODULE = 10,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_UNIT = 11,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_FUNCTION = 12,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG_LINE = 13,
	LTTNG_UST_TRACEPOINT_LOGLEVEL_DEBUG = 14,
};

#ifdef __cplusplus
#define SPOOR_LTTNG_C_ extern "C"
#else
#define SPOOR_LTTNG_C_ extern
#endif

#if LTTNG_UST_COMPAT_API(0)
#include <lttng/spoor-names.h>
#if defined(TRACEPOINT_DEFINE) && !defined(LTTNG_UST_TRACEPOINT_DEFINE)
#define LTTNG_UST_TRACEPOINT_DEFINE
#endif
#if defined(TRACEPOINT_PROBE_DYNAMIC_LINKAGE) && !defined(LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE)
#define LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE
#endif
#endif

/* Some programs (ntirpc, nfs-ganesha) define one, so that old versions link. Nobody looks at it. */
struct lttng_ust_tracepoint_dlopen {
	uint32_t struct_size;
};

/* Nothing to be kept from running at the end: no library is unloaded. */
static __inline__ __attribute__((unused)) void tracepoint_disable_destructors(void)
{
}

#ifdef SPOOR_DISABLE

/* Declared for the sake of types alone. */
#define SPOOR_LTTNG_DECLARE_(provider, name, args)                                                      \
	SPOOR_LTTNG_C_ void lttng_ust_tracepoint_cb_##provider##___##name(SPOOR_LTTNG_PROTO_(args))     \
		__attribute__((weak));
#define SPOOR_LTTNG_ENABLED_(provider, name) ((void)&lttng_ust_tracepoint_cb_##provider##___##name, 0)
#define SPOOR_LTTNG_TRACEPOINT_(provider, name, ...)                                      \
	do {                                                                           \
		if (0) {                                                               \
			(void)&lttng_ust_tracepoint_cb_##provider##___##name;          \
			lttng_ust_tracepoint_cb_##provider##___##name(__VA_ARGS__);    \
		}                                                                      \
	} while (0)
#define SPOOR_LTTNG_DO_(provider, name, ...) \
	(0 ? lttng_ust_tracepoint_cb_##provider##___##name(__VA_ARGS__) : (void)0)

#else

/*
 * In a static library the provider is drawn in by this reference, as with LTTng-UST: who says DEFINE without
 * DYNAMIC_LINKAGE must link it.
 */
#if defined(LTTNG_UST_TRACEPOINT_DEFINE) && !defined(LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE)
#define SPOOR_LTTNG_NEEDS_(provider, name)                                                   \
	SPOOR_LTTNG_C_ const char spoor_lttng_provider_of_##provider[];                     \
	static const char *const spoor_lttng_needs_##provider##___##name                     \
		__attribute__((used)) = spoor_lttng_provider_of_##provider;
#else
#define SPOOR_LTTNG_NEEDS_(provider, name)
#endif

/* A description without fields; they are with the definition of the same names and arguments. */
#define SPOOR_LTTNG_TEXT_(provider, name, args) #provider "\0" #name "\0" SPOOR_LTTNG_WORDS_(args)
#define SPOOR_LTTNG_TEXT_SIZE_(text) ((sizeof(text) + 7) & ~(size_t)7)
#define SPOOR_LTTNG_DESC_(variable, level, text)                                                      \
	static const struct {                                                                        \
		struct spoor_desc d;                                                                 \
		char text_[SPOOR_LTTNG_TEXT_SIZE_(text)];                                            \
	} variable __attribute__((unused, aligned(8))) = {                                           \
		{ sizeof(struct spoor_desc) + SPOOR_LTTNG_TEXT_SIZE_(text), SPOOR_LTTNG_TEXT_SIZE_(text), 0, \
		  SPOOR_DESC_ELSEWHERE, level, 0, 0 },                                               \
		text                                                                                 \
	};

#define SPOOR_LTTNG_DECLARE_(provider, name, args)                                                                   \
	SPOOR_LTTNG_NEEDS_(provider, name)                                                                          \
	SPOOR_LTTNG_DECLARE2_(provider##___##name, SPOOR_LTTNG_TEXT_(provider, name, SPOOR_LTTNG_P_(args)),         \
			      SPOOR_LTTNG_P_(args))
#define SPOOR_LTTNG_DECLARE2_(symbol, text, args)                                                                    \
	static struct spoor_tracepoint spoor_lttng_tp_##symbol __attribute__((unused));                             \
	SPOOR_LTTNG_DESC_(spoor_lttng_desc_##symbol, 0, text)                                                       \
	SPOOR_LTTNG_C_ void spoor_lttng_emit_##symbol(const void *spoor_site_ SPOOR_LTTNG_MORE_PROTO_(args))        \
		__attribute__((weak, visibility("hidden")));                                                        \
	static __attribute__((noinline, unused)) SPOOR_UNWATCHED_                                                   \
	void lttng_ust_tracepoint_cb_##symbol(SPOOR_LTTNG_PROTO_(args))                                             \
	{                                                                                                           \
		const void *const spoor_site_ = __builtin_return_address(0);                                        \
		void (*spoor_emit_)(void);                                                                          \
	\
		if (spoor_lttng_emit_##symbol) {                                                                    \
			spoor_lttng_emit_##symbol(spoor_site_ SPOOR_LTTNG_MORE_NAMES_(args));                       \
			return;                                                                                     \
		}                                                                                                   \
		spoor_emit_ = spoor_lttng_tp_##symbol.ops->elsewhere(&spoor_lttng_tp_##symbol);                     \
		if (spoor_emit_)                                                                                    \
			((void (*)(const void *SPOOR_LTTNG_MORE_PROTO_(args)))spoor_emit_)(                         \
				spoor_site_ SPOOR_LTTNG_MORE_NAMES_(args));                                         \
		spoor_lttng_tp_##symbol.ops->probes_end();                                                          \
	}

#ifdef __cplusplus
/* A lambda makes an expression of a local class. */
#define SPOOR_LTTNG_ENABLED_(provider, name)                                                     \
	([]() __attribute__((always_inline, no_instrument_function)) -> bool {                          \
		SPOOR_SITE_CLASS_(spoor_lttng_tp_##provider##___##name,                                 \
				  spoor_lttng_desc_##provider##___##name);                               \
		return spoor_site_here_::is_on_();                                                       \
	}())
#define SPOOR_LTTNG_TRACEPOINT_(provider, name, ...)                                              \
	do {                                                                                   \
		if (SPOOR_LTTNG_ENABLED_(provider, name))                              \
			SPOOR_CALL_(lttng_ust_tracepoint_cb_##provider##___##name(__VA_ARGS__)); \
	} while (0)
#else
#define SPOOR_LTTNG_ENABLED_(provider, name)                                                     \
	__extension__({                                                                                  \
		__label__ spoor_on_, spoor_out_;                                                         \
		int spoor_is_on_;                                                                        \
		SPOOR_SITE_HERE_(spoor_lttng_tp_##provider##___##name,                                 \
				 spoor_lttng_desc_##provider##___##name, spoor_on_);                    \
		spoor_is_on_ = 0;                                                                        \
		goto spoor_out_;                                                                         \
	spoor_on_:                                                                                       \
		spoor_is_on_ = SPOOR_SITE_ON_(spoor_lttng_tp_##provider##___##name);                      \
	spoor_out_:;                                                                                     \
		spoor_is_on_;                                                                            \
	})
#define SPOOR_LTTNG_TRACEPOINT_(provider, name, ...)                                                        \
	do {                                                                                             \
		__label__ spoor_on_, spoor_off_;                                                         \
		SPOOR_SITE_HERE_(spoor_lttng_tp_##provider##___##name,                                 \
				 spoor_lttng_desc_##provider##___##name, spoor_on_);                    \
		goto spoor_off_;                                                                         \
	spoor_on_:                                                                                       \
		if (SPOOR_SITE_ON_(spoor_lttng_tp_##provider##___##name))                                \
			SPOOR_CALL_(lttng_ust_tracepoint_cb_##provider##___##name(__VA_ARGS__));         \
	spoor_off_:;                                                                                     \
	} while (0)
#endif

/* A site of its own, since the one that was asked before may be in another source. */
#define SPOOR_LTTNG_DO_(provider, name, ...)                                                       \
	(SPOOR_LTTNG_ENABLED_(provider, name) ?                                                    \
		 __extension__({ SPOOR_CALL_(lttng_ust_tracepoint_cb_##provider##___##name(__VA_ARGS__)); }) : \
		 (void)0)

#endif /* !SPOOR_DISABLE */

/* By second macros, for provider and name may be macros, too. */
#define lttng_ust_tracepoint_enabled(provider, name) SPOOR_LTTNG_ENABLED_(provider, name)
#define lttng_ust_tracepoint(provider, name, ...) SPOOR_LTTNG_TRACEPOINT_(provider, name, ##__VA_ARGS__)
#define lttng_ust_do_tracepoint(provider, name, ...) SPOOR_LTTNG_DO_(provider, name, ##__VA_ARGS__)

#include <lttng/spoor-sites.h>
