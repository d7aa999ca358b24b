/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included more than once. */
#pragma GCC system_header
/*
 * At the end of a provider's header. In the one source that defines LTTNG_UST_TRACEPOINT_CREATE_PROBES the header is
 * included again, once for each pass over its declarations: their fields are macros without anything between them, so
 * each pass gives these macros another meaning. Of the header nothing but the declarations may then be left, as with
 * LTTng-UST.
 *
 *	1 describe  constants and tables of fields and labels       spoor-describe.h
 *	2 pieces    a structure for what has no fixed size          spoor-pieces.h
 *	3 write     functions that go through a class's fields      spoor-write.h
 *	4 record    functions that record an event                  spoor-record.h
 *	5 6 7       levels; definitions, entries of spoor_sites     spoor-define.h
 */
#include <lttng/tracepoint.h>

#if LTTNG_UST_COMPAT_API(0) && defined(TRACEPOINT_CREATE_PROBES) && !defined(LTTNG_UST_TRACEPOINT_CREATE_PROBES)
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#endif

#ifdef LTTNG_UST_TRACEPOINT_CREATE_PROBES
#undef LTTNG_UST_TRACEPOINT_CREATE_PROBES

#if LTTNG_UST_COMPAT_API(0)
#undef TRACEPOINT_CREATE_PROBES
#if !defined(LTTNG_UST_TRACEPOINT_INCLUDE) && defined(TRACEPOINT_INCLUDE)
#define LTTNG_UST_TRACEPOINT_INCLUDE TRACEPOINT_INCLUDE
#endif
#if !defined(LTTNG_UST_TRACEPOINT_PROVIDER) && defined(TRACEPOINT_PROVIDER)
#define LTTNG_UST_TRACEPOINT_PROVIDER TRACEPOINT_PROVIDER
#define SPOOR_LTTNG_OLD_PROVIDER_
#endif
#endif
#ifndef LTTNG_UST_TRACEPOINT_INCLUDE
#error "spoor: LTTNG_UST_TRACEPOINT_INCLUDE must name the provider's header"
#endif
#ifndef LTTNG_UST_TRACEPOINT_PROVIDER
#error "spoor: LTTNG_UST_TRACEPOINT_PROVIDER must be the provider's name"
#endif

#ifndef SPOOR_DISABLE
#include <spoor/fields.h>

#include <lttng/spoor-fields.h>

#define LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ
#if LTTNG_UST_COMPAT_API(0)
#define TRACEPOINT_HEADER_MULTI_READ
#endif

#undef LTTNG_UST_TRACEPOINT_EVENT
#define LTTNG_UST_TRACEPOINT_EVENT(provider, name, args, fields) \
	SPOOR_LTTNG_CLASS_(provider, name, SPOOR_LTTNG_P_(args), SPOOR_LTTNG_P_(fields)) \
	SPOOR_LTTNG_INSTANCE_(provider, name, provider, name, SPOOR_LTTNG_P_(args))
#undef LTTNG_UST_TRACEPOINT_EVENT_CLASS
#define LTTNG_UST_TRACEPOINT_EVENT_CLASS(provider, name, args, fields) \
	SPOOR_LTTNG_CLASS_(provider, name, SPOOR_LTTNG_P_(args), SPOOR_LTTNG_P_(fields))
#undef LTTNG_UST_TRACEPOINT_EVENT_INSTANCE
#define LTTNG_UST_TRACEPOINT_EVENT_INSTANCE(template_provider, template_name, provider, name, args) \
	SPOOR_LTTNG_INSTANCE_(template_provider, template_name, provider, name, SPOOR_LTTNG_P_(args))
#undef LTTNG_UST_TRACEPOINT_ENUM
#define LTTNG_UST_TRACEPOINT_ENUM(provider, name, values) SPOOR_LTTNG_LABELS_(provider, name, SPOOR_LTTNG_P_(values))
#undef LTTNG_UST_TRACEPOINT_LOGLEVEL
#define LTTNG_UST_TRACEPOINT_LOGLEVEL(provider, name, level) SPOOR_LTTNG_LEVEL_(provider, name, level)

#include <lttng/spoor-describe.h>
#include LTTNG_UST_TRACEPOINT_INCLUDE
#include <lttng/spoor-reset.h>

#include <lttng/spoor-pieces.h>
#include LTTNG_UST_TRACEPOINT_INCLUDE
#include <lttng/spoor-reset.h>

#include <lttng/spoor-write.h>
#include LTTNG_UST_TRACEPOINT_INCLUDE
#include <lttng/spoor-reset.h>

#include <lttng/spoor-record.h>
#include LTTNG_UST_TRACEPOINT_INCLUDE
#include <lttng/spoor-reset.h>

static __attribute__((used, noinline)) void SPOOR_JOIN_(spoor_lttng_define_, LTTNG_UST_TRACEPOINT_PROVIDER)(void)
{
	/* An event of another provider than the header's does not compile. */
	enum { SPOOR_JOIN_(spoor_lttng_provider_is_, LTTNG_UST_TRACEPOINT_PROVIDER) = 1 };
#define SPOOR_LTTNG_PASS_ 5
#include <lttng/spoor-define.h>
#include LTTNG_UST_TRACEPOINT_INCLUDE
#include <lttng/spoor-reset.h>
	{
#define SPOOR_LTTNG_PASS_ 6
#include <lttng/spoor-define.h>
#include LTTNG_UST_TRACEPOINT_INCLUDE
#include <lttng/spoor-reset.h>
#define SPOOR_LTTNG_PASS_ 7
#include <lttng/spoor-define.h>
#include LTTNG_UST_TRACEPOINT_INCLUDE
#include <lttng/spoor-reset.h>
	}
}

#ifdef LTTNG_UST_TRACEPOINT_PROVIDER_HIDDEN_DEFINITION
#define SPOOR_LTTNG_SEEN_ "hidden"
#else
#define SPOOR_LTTNG_SEEN_ "default"
#endif
SPOOR_LTTNG_C_ const char SPOOR_JOIN_(spoor_lttng_provider_of_, LTTNG_UST_TRACEPOINT_PROVIDER)[]
	__attribute__((visibility(SPOOR_LTTNG_SEEN_)));
const char SPOOR_JOIN_(spoor_lttng_provider_of_, LTTNG_UST_TRACEPOINT_PROVIDER)[] = "";
#undef SPOOR_LTTNG_SEEN_

#undef lttng_ust_field_enum_value
#undef lttng_ust_field_enum_range
#undef lttng_ust_field_enum_auto
#undef LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ
#if LTTNG_UST_COMPAT_API(0)
#undef TRACEPOINT_HEADER_MULTI_READ
#endif
#include <lttng/spoor-sites.h>
#endif /* !SPOOR_DISABLE */

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#if LTTNG_UST_COMPAT_API(0)
#undef TRACEPOINT_INCLUDE
#endif
#ifdef SPOOR_LTTNG_OLD_PROVIDER_
#undef SPOOR_LTTNG_OLD_PROVIDER_
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#endif
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES

#endif /* LTTNG_UST_TRACEPOINT_CREATE_PROBES */
