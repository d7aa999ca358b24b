/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included more than once. */
#pragma GCC system_header
/* Second pass: what of an event has no fixed size, looked at once, when its size is asked for. */
#define SPOOR_LTTNG_INTEGER_(type, item, src, base, flags)
#define SPOOR_LTTNG_FLOAT_(type, item, src)
#define SPOOR_LTTNG_STRING_(item, src) struct spoor_lttng_piece_ piece_##item;
#define SPOOR_LTTNG_ARRAY_(type, item, src, count, base, flags)
#define SPOOR_LTTNG_SEQUENCE_(type, item, src, ltype, n, base, flags) struct spoor_lttng_piece_ piece_##item;
#define SPOOR_LTTNG_ENUM_(provider, name, type, item, src)
#define SPOOR_LTTNG_UNUSED_(src)
#define SPOOR_LTTNG_LABELS_(provider, name, values)
#define SPOOR_LTTNG_CLASS_(provider, name, args, fields) \
	struct spoor_lttng_pieces_##provider##___##name { \
		char spoor_none_; \
		fields \
	};
#define SPOOR_LTTNG_INSTANCE_(template_provider, template_name, provider, name, args)
#define SPOOR_LTTNG_LEVEL_(provider, name, level)
