/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#pragma GCC system_header
/*
 * The fields of LTTng-UST's grammar by the few kinds that the passes know. Flags are those of struct spoor_desc_field:
 * 2 characters, 8 network byte order. What is not written (nowrite) is compiled and left out.
 */
#define lttng_ust_field_integer(type, item, src) SPOOR_LTTNG_INTEGER_(type, item, src, 10, 0)
#define lttng_ust_field_integer_hex(type, item, src) SPOOR_LTTNG_INTEGER_(type, item, src, 16, 0)
#define lttng_ust_field_integer_network(type, item, src) SPOOR_LTTNG_INTEGER_(type, item, src, 10, 8)
#define lttng_ust_field_integer_network_hex(type, item, src) SPOOR_LTTNG_INTEGER_(type, item, src, 16, 8)
#define lttng_ust_field_float(type, item, src) SPOOR_LTTNG_FLOAT_(type, item, src)
#define lttng_ust_field_string(item, src) SPOOR_LTTNG_STRING_(item, src)
#define lttng_ust_field_enum(provider, name, type, item, src) SPOOR_LTTNG_ENUM_(provider, name, type, item, src)
#define lttng_ust_field_unused(src) SPOOR_LTTNG_UNUSED_(src)

#define lttng_ust_field_array(type, item, src, count) SPOOR_LTTNG_ARRAY_(type, item, src, count, 10, 0)
#define lttng_ust_field_array_hex(type, item, src, count) SPOOR_LTTNG_ARRAY_(type, item, src, count, 16, 0)
#define lttng_ust_field_array_network(type, item, src, count) SPOOR_LTTNG_ARRAY_(type, item, src, count, 10, 8)
#define lttng_ust_field_array_network_hex(type, item, src, count) SPOOR_LTTNG_ARRAY_(type, item, src, count, 16, 8)
#define lttng_ust_field_array_text(type, item, src, count) SPOOR_LTTNG_ARRAY_(type, item, src, count, 10, 2)

#define lttng_ust_field_sequence(type, item, src, ltype, n) SPOOR_LTTNG_SEQUENCE_(type, item, src, ltype, n, 10, 0)
#define lttng_ust_field_sequence_hex(type, item, src, ltype, n) \
	SPOOR_LTTNG_SEQUENCE_(type, item, src, ltype, n, 16, 0)
#define lttng_ust_field_sequence_network(type, item, src, ltype, n) \
	SPOOR_LTTNG_SEQUENCE_(type, item, src, ltype, n, 10, 8)
#define lttng_ust_field_sequence_network_hex(type, item, src, ltype, n) \
	SPOOR_LTTNG_SEQUENCE_(type, item, src, ltype, n, 16, 8)
#define lttng_ust_field_sequence_text(type, item, src, ltype, n) \
	SPOOR_LTTNG_SEQUENCE_(type, item, src, ltype, n, 10, 2)

#define SPOOR_LTTNG_UNWRITTEN_(src, n) SPOOR_LTTNG_UNUSED_(src) SPOOR_LTTNG_UNUSED_(n)
#define lttng_ust_field_integer_nowrite(type, item, src) SPOOR_LTTNG_UNUSED_(src)
#define lttng_ust_field_float_nowrite(type, item, src) SPOOR_LTTNG_UNUSED_(src)
#define lttng_ust_field_string_nowrite(item, src) SPOOR_LTTNG_UNUSED_(src)
#define lttng_ust_field_unused_nowrite(src) SPOOR_LTTNG_UNUSED_(src)
#define lttng_ust_field_enum_nowrite(provider, name, type, item, src) SPOOR_LTTNG_UNUSED_(src)
#define lttng_ust_field_array_nowrite(type, item, src, count) SPOOR_LTTNG_UNUSED_(src)
#define lttng_ust_field_array_nowrite_hex(type, item, src, count) SPOOR_LTTNG_UNUSED_(src)
#define lttng_ust_field_array_network_nowrite(type, item, src, count) SPOOR_LTTNG_UNUSED_(src)
#define lttng_ust_field_array_network_nowrite_hex(type, item, src, count) SPOOR_LTTNG_UNUSED_(src)
#define lttng_ust_field_array_text_nowrite(type, item, src, count) SPOOR_LTTNG_UNUSED_(src)
#define lttng_ust_field_sequence_nowrite(type, item, src, ltype, n) SPOOR_LTTNG_UNWRITTEN_(src, n)
#define lttng_ust_field_sequence_nowrite_hex(type, item, src, ltype, n) SPOOR_LTTNG_UNWRITTEN_(src, n)
#define lttng_ust_field_sequence_network_nowrite(type, item, src, ltype, n) SPOOR_LTTNG_UNWRITTEN_(src, n)
#define lttng_ust_field_sequence_network_nowrite_hex(type, item, src, ltype, n) SPOOR_LTTNG_UNWRITTEN_(src, n)
#define lttng_ust_field_sequence_text_nowrite(type, item, src, ltype, n) SPOOR_LTTNG_UNWRITTEN_(src, n)

/* An array holds no more than an event can; a sequence of a negative length (or one that was) is empty. */
#define SPOOR_LTTNG_COUNT_(type, count) \
	((size_t)(count) <= SPOOR_STRING_MAX_ / sizeof(type) ? (size_t)(count) : SPOOR_STRING_MAX_ / sizeof(type))

struct spoor_lttng_piece_ {
	const void *from;
	size_t n;
};

SPOOR_INLINE_ size_t spoor_lttng_count_(const void *from, uint64_t n, size_t most)
{
	return from ? spoor_count_(n, most) : 0;
}

/* Characters up to a NUL, behind which nothing is read. */
SPOOR_INLINE_ void spoor_lttng_put_text_(char *to, const void *from, size_t n)
{
	const char *s = (const char *)from;
	size_t i = 0;

	for (; s && i < n && s[i]; i++)
		to[i] = s[i];
	for (; i < n; i++)
		to[i] = 0;
}

SPOOR_INLINE_ void spoor_lttng_put_(char *to, const void *from, size_t n)
{
	if (from)
		spoor_copy_(to, (const char *)from, n);
	else
		__builtin_memset(to, 0, n);
}

/* What a type is, of integers, enumerations and pointers. */
#ifdef __cplusplus
extern "C++" {
template <class T> struct spoor_lttng_type_ {
	static constexpr bool is_signed = (T)-1 < (T)1;
};
template <class T> struct spoor_lttng_type_<T *> {
	static constexpr bool is_signed = false;
};
template <> struct spoor_lttng_type_<bool> {
	static constexpr bool is_signed = false;
};
}
#define SPOOR_LTTNG_SIGNED_(type) (spoor_lttng_type_<type>::is_signed ? 1 : 0)
#else
#define SPOOR_LTTNG_SIGNED_(type) ((type)-1 < (type)1 ? 1 : 0)
#endif
