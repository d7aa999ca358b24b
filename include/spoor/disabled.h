/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#pragma GCC system_header
/* Tracepoints with SPOOR_DISABLE: no code, no data; a site's arguments are still checked. */

#define SPOOR_TRACEPOINT_SAID_(provider, name, level, said, proto, args, fields) \
	SPOOR_DISABLED_(provider##_##name, SPOOR_P_(proto), SPOOR_P_(args))

#define SPOOR_DISABLED_(symbol, proto, args)                                                              \
	static __inline__ __attribute__((unused)) void trace_##symbol(SPOOR_PROTO_(proto))                \
	{                                                                                                 \
		SPOOR_NUMBERED_(SPOOR_IGNORED_, args)                                                     \
	}                                                                                                 \
	SPOOR_PROBE_TYPE_(symbol, SPOOR_P_(proto), SPOOR_P_(args))                                        \
	static __inline__ __attribute__((unused)) int register_trace_##symbol(spoor_probe_of_##symbol probe, \
									  void *data)                     \
	{                                                                                                 \
		(void)probe;                                                                              \
		(void)data;                                                                               \
		return SPOOR_NO_LIBRARY_;                                                                 \
	}                                                                                                 \
	static __inline__ __attribute__((unused)) int unregister_trace_##symbol(                          \
		spoor_probe_of_##symbol probe, void *data)                                                \
	{                                                                                                 \
		(void)probe;                                                                              \
		(void)data;                                                                               \
		return SPOOR_NO_LIBRARY_;                                                                 \
	}

#define DECLARE_TRACE(name, proto, args)                          \
	SPOOR_DISABLED_(name, SPOOR_P_(proto), SPOOR_P_(args))    \
	struct spoor_declared_##name
#define DECLARE_TRACE_NOARGS(name)         \
	SPOOR_DISABLED_(name, , )          \
	struct spoor_declared_##name
#define DEFINE_TRACE(name) struct spoor_defined_##name

#define spoor_trace(provider, ...) \
	SPOOR_UNTRACED_(SPOOR_FIRST_(trace_##provider##_##__VA_ARGS__, ), SPOOR_REST_(__VA_ARGS__))
#define SPOOR_UNTRACED_(function, ...)                        \
	do {                                                  \
		SPOOR_OWN_BEGIN_                              \
		if (0) {                                      \
			(void)&function; /* declared? */      \
			SPOOR_STRICT_(function(__VA_ARGS__)); \
		}                                             \
		SPOOR_OWN_END_                                \
	} while (0)
