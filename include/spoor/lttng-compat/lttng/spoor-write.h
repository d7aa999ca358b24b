/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Included more than once. */
#pragma GCC system_header
/*
 * Third pass: a class is a function that goes through the fields twice, by constants that the compiler knows: for the
 * size (looking at strings and sequences), and writing. Each expression is evaluated once.
 */
#define SPOOR_LTTNG_SCALAR_(type, src) \
	if (spoor_write_) { \
		type spoor_v_ = (src); \
		__builtin_memcpy(spoor_to_ + spoor_at_, (const void *)&spoor_v_, sizeof(spoor_v_)); \
	} \
	spoor_at_ += sizeof(type);

#define SPOOR_LTTNG_INTEGER_(type, item, src, base, flags) SPOOR_LTTNG_SCALAR_(type, src)
#define SPOOR_LTTNG_ENUM_(provider, name, type, item, src) SPOOR_LTTNG_SCALAR_(type, src)
#define SPOOR_LTTNG_FLOAT_(type, item, src) \
	if (sizeof(type) > 8) { \
		SPOOR_LTTNG_SCALAR_(double, (double)(src)) \
	} else { \
		SPOOR_LTTNG_SCALAR_(type, src) \
	}
#define SPOOR_LTTNG_STRING_(item, src) \
	if (!spoor_write_) { \
		const void *const spoor_from_ = (src); \
		spoor_pieces_->piece_##item.from = spoor_from_ ? spoor_from_ : "(null)"; \
		spoor_pieces_->piece_##item.n = \
			spoor_string_length_((const char *)spoor_pieces_->piece_##item.from); \
	} else { \
		spoor_put_string_(spoor_to_ + spoor_at_, (const char *)spoor_pieces_->piece_##item.from, \
				  spoor_pieces_->piece_##item.n); \
	} \
	spoor_at_ += spoor_pieces_->piece_##item.n + 1;
#define SPOOR_LTTNG_PUT_(type, flags, to, from, n) \
	if ((flags) & 2 && sizeof(type) == 1) \
		spoor_lttng_put_text_(to, from, n); \
	else \
		spoor_lttng_put_(to, from, n);
#define SPOOR_LTTNG_ARRAY_(type, item, src, count, base, flags) \
	if (spoor_write_) { \
		const void *const spoor_from_ = (src); \
		SPOOR_LTTNG_PUT_(type, flags, spoor_to_ + spoor_at_, spoor_from_, \
				 sizeof(type) * SPOOR_LTTNG_COUNT_(type, count)) \
	} \
	spoor_at_ += sizeof(type) * SPOOR_LTTNG_COUNT_(type, count);
#define SPOOR_LTTNG_SEQUENCE_(type, item, src, ltype, count, base, flags) \
	if (!spoor_write_) { \
		spoor_pieces_->piece_##item.from = (src); \
		spoor_pieces_->piece_##item.n = \
			spoor_lttng_count_(spoor_pieces_->piece_##item.from, (uint64_t)(count), \
					   SPOOR_STRING_MAX_ / sizeof(type)); \
	} else { \
		const uint16_t spoor_n_ = (uint16_t)spoor_pieces_->piece_##item.n; \
		__builtin_memcpy(spoor_to_ + spoor_at_, &spoor_n_, 2); \
		SPOOR_LTTNG_PUT_(type, flags, spoor_to_ + spoor_at_ + 2, spoor_pieces_->piece_##item.from, \
				 sizeof(type) * spoor_n_) \
	} \
	spoor_at_ += 2 + sizeof(type) * spoor_pieces_->piece_##item.n;
#define SPOOR_LTTNG_UNUSED_(src) \
	if (0) \
		(void)(src);

/* In C++ an instance whose arguments cannot be its class's compiles, as with LTTng-UST, which then refuses it:
 * libcamera has two. Its events are of a size that no buffer has room for, so they are lost, and counted. */
#ifdef __cplusplus
#define SPOOR_LTTNG_REFUSE_(symbol) \
	static __attribute__((noinline, unused)) size_t spoor_lttng_walk_##symbol( \
		long, char *, struct spoor_lttng_pieces_##symbol *, ...) \
	{ \
		return (size_t)1 << 30; \
	}
#else
#define SPOOR_LTTNG_REFUSE_(symbol)
#endif

#define SPOOR_LTTNG_LABELS_(provider, name, values)
#define SPOOR_LTTNG_CLASS_(provider, name, args, fields) \
	SPOOR_INLINE_ size_t spoor_lttng_walk_##provider##___##name( \
		const int spoor_write_, char *spoor_to_, \
		struct spoor_lttng_pieces_##provider##___##name *spoor_pieces_ SPOOR_LTTNG_MORE_PROTO_(args)) \
	{ \
		size_t spoor_at_ = 0; \
		(void)spoor_write_; \
		(void)spoor_to_; \
		(void)spoor_pieces_; \
		fields \
		return spoor_at_; \
	} \
	SPOOR_LTTNG_REFUSE_(provider##___##name)
#define SPOOR_LTTNG_INSTANCE_(template_provider, template_name, provider, name, args)
#define SPOOR_LTTNG_LEVEL_(provider, name, level)
