/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included more than once. */
#pragma GCC system_header
/* Fourth pass: recording, of all events when all classes are known, since a header may have them in any order. */
#define SPOOR_LTTNG_LABELS_(provider, name, values)
#define SPOOR_LTTNG_CLASS_(provider, name, args, fields)
#define SPOOR_LTTNG_INSTANCE_(template_provider, template_name, provider, name, args) \
	SPOOR_LTTNG_RECORD_(template_provider##___##template_name, provider##___##name, SPOOR_LTTNG_P_(args))
/* The event is recorded by a function of this source, which sites of other objects are given; the one that sites of
 * the same object call goes straight on to it. */
#define SPOOR_LTTNG_RECORD_(class, symbol, args) \
	static __attribute__((noinline)) SPOOR_UNWATCHED_ \
	void spoor_lttng_record_##symbol(const void *spoor_site_ SPOOR_LTTNG_MORE_PROTO_(args)) \
	{ \
		struct spoor_tracepoint *const spoor_tp_ = &spoor_lttng_tp_##symbol; \
		struct spoor_lttng_pieces_##class spoor_pieces_; \
		const size_t spoor_size_ = SPOOR_RECORD_SIZE_( \
			spoor_lttng_walk_##class(0, NULL, &spoor_pieces_ SPOOR_LTTNG_MORE_NAMES_(args))); \
		const struct spoor_handle spoor_h_ = spoor_tp_->reserve(spoor_tp_, spoor_size_, spoor_site_); \
		if (__builtin_expect(!spoor_h_.at, 0)) \
			return; \
		spoor_lttng_walk_##class(1, spoor_h_.at + SPOOR_RECORD_HEAD_, \
					 &spoor_pieces_ SPOOR_LTTNG_MORE_NAMES_(args)); \
		spoor_commit_(spoor_tp_, spoor_h_, spoor_size_); \
	} \
	SPOOR_LTTNG_C_ SPOOR_UNWATCHED_ \
	void spoor_lttng_emit_##symbol(const void *spoor_site_ SPOOR_LTTNG_MORE_PROTO_(args)); \
	void spoor_lttng_emit_##symbol(const void *spoor_site_ SPOOR_LTTNG_MORE_PROTO_(args)) \
	{ \
		spoor_lttng_record_##symbol(spoor_site_ SPOOR_LTTNG_MORE_NAMES_(args)); \
	}
#define SPOOR_LTTNG_LEVEL_(provider, name, level)
