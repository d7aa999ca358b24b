/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#pragma GCC system_header
/*
 * The fields of a tracepoint, TP_FIELDS(...), at most 32, each one of:
 *
 *   spoor_int(type, name, value)               any integer type, also bool, in decimal
 *   spoor_hex, spoor_oct, spoor_bin            the same, to be shown otherwise (readers show signed octal and all
 *                                              binary ones in decimal)
 *   spoor_float(type, name, value)             float or double
 *   spoor_pointer(name, value)                 an address; what it points to is not read
 *   spoor_string(name, value)                  up to its NUL, at most 32,767 bytes; NULL: "(null)"
 *                                              (shortened while it is recorded: filled up with '#')
 *   spoor_array(type, name, from, count)       count integers (a constant, 1 to 65,535); spoor_array_hex;
 *                                              zeroes from NULL
 *   spoor_sequence(type, name, from, count)    count integers, at most 32,767 bytes; spoor_sequence_hex;
 *                                              none from NULL, or if count is negative
 *   spoor_text(name, from, count)              count characters, no NUL is looked for
 *   spoor_enum(type, name, value, labels...)   labels: spoor_label("name", value), spoor_range("name", low, high), at
 *                                              most 32; values and bounds as a cast to the type makes them
 *
 * A name, as those of tracepoints, must not be a macro's: `errno` is one, and with gcc's -std=gnu17 `linux` and `unix`.
 *
 * Each is expanded several times, by putting a prefix before it: SPOOR_T_ its part of the description's type, SPOOR_I_
 * that one's initializer, SPOOR_V_ variables that hold its value, SPOOR_S_ its size, SPOOR_W_ its writing, SPOOR_Q_ its
 * type and name in words.
 */
#include "each.h"
#include "site.h"

#define SPOOR_WORDS_(...) #__VA_ARGS__
#define SPOOR_WORDS_OF_(...) SPOOR_WORDS_(__VA_ARGS__)

/* A type in words, in C, where bool is a macro and by now _Bool, the same as in C++. */
#ifdef __cplusplus
#define SPOOR_TYPE_WORDS_(type) " spoor_type_" #type
#else
#define SPOOR_TYPE_WORDS_(type) " " SPOOR_WORDS_OF_(spoor_type_##type)
#define spoor_type__Bool spoor_type_bool
#endif

#define SPOOR_PAD_(n) (((n) + 7) & ~(size_t)7)

/* The description */
#define SPOOR_FT_(name)                                   \
	struct {                                          \
		struct spoor_desc_field d;                \
		char n[SPOOR_PAD_(sizeof(#name))];        \
	} f_##name;
#define SPOOR_FI_(type, shape, bytes, base, flags, count, name)                                          \
	{ { (uint32_t)(sizeof(struct spoor_desc_field) + SPOOR_PAD_(sizeof(#name))), type, shape, bytes, base, \
	    flags, 0, count, 0, 0 },                                                                     \
	  #name },
#ifdef __cplusplus
extern "C++" { /* also where a program includes its C headers in extern "C" */
template <class T, bool is_enum = __is_enum(T)> struct spoor_sign_ {
	static constexpr bool value = (T)-1 < (T)1;
};
/* To be constant, -1 is to be a value of the type. */
template <class T> struct spoor_sign_<T, true> : spoor_sign_<__underlying_type(T)> {};
template <class T> struct spoor_sign_<T *, false> {
	static constexpr bool value = false;
};
}
#define SPOOR_SIGNED_(type) (spoor_sign_<type>::value ? 1 : 0)
#else
#define SPOOR_SIGNED_(type) ((type)-1 < (type)1 ? 1 : 0)
#endif

/* What is neither would be read as what it is not: an array of a negative size does not compile. */
#define SPOOR_REAL_(type) (__builtin_classify_type((type)0) == 8)
/* As large as the others, and no number of theirs. */
#if defined(__DEC64_MANT_DIG__) && !defined(__cplusplus)
#define SPOOR_DECIMAL_(type) \
	(__builtin_types_compatible_p(type, _Decimal32) || __builtin_types_compatible_p(type, _Decimal64))
#else
#define SPOOR_DECIMAL_(type) 0
#endif
#define SPOOR_UNLESS_(wrong) sizeof(char[(wrong) ? -1 : 1])
#define SPOOR_WIDTH_(type) (sizeof(type) * SPOOR_UNLESS_(SPOOR_REAL_(type) || sizeof(type) > 8))
#define SPOOR_REAL_WIDTH_(type)                                                \
	(sizeof(type) * SPOOR_UNLESS_(!SPOOR_REAL_(type) || SPOOR_DECIMAL_(type) || \
				      (sizeof(type) != 4 && sizeof(type) != 8)))
#define SPOOR_ARRAY_COUNT_(count) ((count) * SPOOR_UNLESS_((count) < 1 || (count) > 65535))

/* Integers */
#define SPOOR_T_spoor_int(type, name, value) SPOOR_FT_(name)
#define SPOOR_I_spoor_int(type, name, value) SPOOR_FI_(1, 0, SPOOR_WIDTH_(type), 10, SPOOR_SIGNED_(type), 0, name)
#define SPOOR_V_spoor_int(type, name, value) const type spoor_v_##name = value;
#define SPOOR_S_spoor_int(type, name, value) +sizeof(type)
#define SPOOR_W_spoor_int(type, name, value)                        \
	__builtin_memcpy(spoor_at_, &spoor_v_##name, sizeof(type)); \
	spoor_at_ += sizeof(type);
#define SPOOR_Q_spoor_int(type, name, value) SPOOR_TYPE_WORDS_(type) " " #name ","

#define SPOOR_T_spoor_hex SPOOR_T_spoor_int
#define SPOOR_I_spoor_hex(type, name, value) SPOOR_FI_(1, 0, SPOOR_WIDTH_(type), 16, SPOOR_SIGNED_(type), 0, name)
#define SPOOR_V_spoor_hex SPOOR_V_spoor_int
#define SPOOR_S_spoor_hex SPOOR_S_spoor_int
#define SPOOR_W_spoor_hex SPOOR_W_spoor_int
#define SPOOR_Q_spoor_hex(type, name, value) " hex " SPOOR_TYPE_WORDS_(type) " " #name ","

#define SPOOR_T_spoor_oct SPOOR_T_spoor_int
#define SPOOR_I_spoor_oct(type, name, value) SPOOR_FI_(1, 0, SPOOR_WIDTH_(type), 8, SPOOR_SIGNED_(type), 0, name)
#define SPOOR_V_spoor_oct SPOOR_V_spoor_int
#define SPOOR_S_spoor_oct SPOOR_S_spoor_int
#define SPOOR_W_spoor_oct SPOOR_W_spoor_int
#define SPOOR_Q_spoor_oct(type, name, value) " oct " SPOOR_TYPE_WORDS_(type) " " #name ","

#define SPOOR_T_spoor_bin SPOOR_T_spoor_int
#define SPOOR_I_spoor_bin(type, name, value) SPOOR_FI_(1, 0, SPOOR_WIDTH_(type), 2, SPOOR_SIGNED_(type), 0, name)
#define SPOOR_V_spoor_bin SPOOR_V_spoor_int
#define SPOOR_S_spoor_bin SPOOR_S_spoor_int
#define SPOOR_W_spoor_bin SPOOR_W_spoor_int
#define SPOOR_Q_spoor_bin(type, name, value) " bin " SPOOR_TYPE_WORDS_(type) " " #name ","

/* Floating point, addresses */
#define SPOOR_T_spoor_float SPOOR_T_spoor_int
#define SPOOR_I_spoor_float(type, name, value) SPOOR_FI_(2, 0, SPOOR_REAL_WIDTH_(type), 10, 1, 0, name)
#define SPOOR_V_spoor_float SPOOR_V_spoor_int
#define SPOOR_S_spoor_float SPOOR_S_spoor_int
#define SPOOR_W_spoor_float SPOOR_W_spoor_int
#define SPOOR_Q_spoor_float(type, name, value) " float " SPOOR_TYPE_WORDS_(type) " " #name ","

#define SPOOR_T_spoor_pointer(name, value) SPOOR_FT_(name)
#define SPOOR_I_spoor_pointer(name, value) SPOOR_FI_(3, 0, sizeof(void *), 16, 0, 0, name)
#define SPOOR_V_spoor_pointer(name, value) const void *const spoor_v_##name = value;
#define SPOOR_S_spoor_pointer(name, value) +sizeof(void *)
#define SPOOR_W_spoor_pointer(name, value) SPOOR_W_spoor_int(void *, name, value)
#define SPOOR_Q_spoor_pointer(name, value) " pointer " #name ","

/* Strings */
#define SPOOR_T_spoor_string(name, value) SPOOR_FT_(name)
#define SPOOR_I_spoor_string(name, value) SPOOR_FI_(4, 0, 1, 10, 0, 0, name)
#define SPOOR_V_spoor_string(name, value)                                              \
	const char *const spoor_p_##name = value;                                      \
	const char *const spoor_v_##name = spoor_p_##name ? spoor_p_##name : "(null)"; \
	const size_t spoor_c_##name = spoor_string_length_(spoor_v_##name);
#define SPOOR_S_spoor_string(name, value) +spoor_c_##name + 1
#define SPOOR_W_spoor_string(name, value) spoor_at_ = spoor_put_string_(spoor_at_, spoor_v_##name, spoor_c_##name);
#define SPOOR_Q_spoor_string(name, value) " string " #name ","

/* Several integers */
#define SPOOR_T_spoor_array(type, name, from, count) SPOOR_FT_(name)
#define SPOOR_I_spoor_array(type, name, from, count) \
	SPOOR_FI_(1, 1, SPOOR_WIDTH_(type), 10, SPOOR_SIGNED_(type), SPOOR_ARRAY_COUNT_(count), name)
#define SPOOR_V_spoor_array(type, name, from, count) const type *const spoor_v_##name = from;
#define SPOOR_S_spoor_array(type, name, from, count) +sizeof(type) * (count)
#define SPOOR_W_spoor_array(type, name, from, count)                                          \
	if (spoor_v_##name)                                                                   \
		spoor_copy_(spoor_at_, (const char *)spoor_v_##name, sizeof(type) * (count)); \
	else                                                                                  \
		__builtin_memset(spoor_at_, 0, sizeof(type) * (count));                       \
	spoor_at_ += sizeof(type) * (count);
#define SPOOR_Q_spoor_array(type, name, from, count) SPOOR_TYPE_WORDS_(type) " " #name "[" #count "],"

#define SPOOR_T_spoor_array_hex SPOOR_T_spoor_array
#define SPOOR_I_spoor_array_hex(type, name, from, count) \
	SPOOR_FI_(1, 1, SPOOR_WIDTH_(type), 16, SPOOR_SIGNED_(type), SPOOR_ARRAY_COUNT_(count), name)
#define SPOOR_V_spoor_array_hex SPOOR_V_spoor_array
#define SPOOR_S_spoor_array_hex SPOOR_S_spoor_array
#define SPOOR_W_spoor_array_hex SPOOR_W_spoor_array
#define SPOOR_Q_spoor_array_hex(type, name, from, count) " hex " SPOOR_TYPE_WORDS_(type) " " #name "[" #count "],"

#define SPOOR_T_spoor_sequence(type, name, from, count) SPOOR_FT_(name)
#define SPOOR_I_spoor_sequence(type, name, from, count) \
	SPOOR_FI_(1, 2, SPOOR_WIDTH_(type), 10, SPOOR_SIGNED_(type), 0, name)
#define SPOOR_V_spoor_sequence(type, name, from, count) \
	const type *const spoor_v_##name = from;        \
	const uint16_t spoor_c_##name =                 \
		spoor_v_##name ? spoor_count_((uint64_t)(count), SPOOR_STRING_MAX_ / sizeof(type)) : (uint16_t)0;
#define SPOOR_S_spoor_sequence(type, name, from, count) +2 + sizeof(type) * spoor_c_##name
#define SPOOR_W_spoor_sequence(type, name, from, count) \
	spoor_at_ = spoor_put_sequence_(spoor_at_, spoor_v_##name, spoor_c_##name, sizeof(type) * spoor_c_##name);
#define SPOOR_Q_spoor_sequence(type, name, from, count) SPOOR_TYPE_WORDS_(type) " " #name "[],"

#define SPOOR_T_spoor_sequence_hex SPOOR_T_spoor_sequence
#define SPOOR_I_spoor_sequence_hex(type, name, from, count) \
	SPOOR_FI_(1, 2, SPOOR_WIDTH_(type), 16, SPOOR_SIGNED_(type), 0, name)
#define SPOOR_V_spoor_sequence_hex SPOOR_V_spoor_sequence
#define SPOOR_S_spoor_sequence_hex SPOOR_S_spoor_sequence
#define SPOOR_W_spoor_sequence_hex SPOOR_W_spoor_sequence
#define SPOOR_Q_spoor_sequence_hex(type, name, from, count) " hex " SPOOR_TYPE_WORDS_(type) " " #name "[],"

#define SPOOR_T_spoor_text(name, from, count) SPOOR_FT_(name)
#define SPOOR_I_spoor_text(name, from, count) SPOOR_FI_(1, 2, 1, 10, 2, 0, name)
#define SPOOR_V_spoor_text(name, from, count) SPOOR_V_spoor_sequence(char, name, from, count)
#define SPOOR_S_spoor_text(name, from, count) SPOOR_S_spoor_sequence(char, name, from, count)
#define SPOOR_W_spoor_text(name, from, count) SPOOR_W_spoor_sequence(char, name, from, count)
#define SPOOR_Q_spoor_text(name, from, count) " text " #name ","

/* Integers whose values have names */
#define SPOOR_LABEL_PAD_(n) (SPOOR_PAD_(18 + (n)) - 18)
#define SPOOR_LT_(i, x) SPOOR_LT_##x l##i;
#define SPOOR_LT_spoor_label(s, value) SPOOR_LT_spoor_range(s, value, value)
#define SPOOR_LT_spoor_range(s, low, high)                   \
	struct {                                             \
		int64_t from, to;                            \
		uint16_t size;                               \
		char n[SPOOR_LABEL_PAD_(sizeof(s))];         \
	}
#define SPOOR_LI_(i, x) SPOOR_LI_##x,
#define SPOOR_LI_spoor_label(s, value) SPOOR_LI_spoor_range(s, value, value)
#define SPOOR_LI_spoor_range(s, low, high) { (int64_t)(low), (int64_t)(high), (uint16_t)SPOOR_PAD_(18 + sizeof(s)), s }
#define SPOOR_LS_(i, x) SPOOR_LS_##x
#define SPOOR_LS_spoor_label(s, value) +SPOOR_PAD_(18 + sizeof(s))
#define SPOOR_LS_spoor_range(s, low, high) +SPOOR_PAD_(18 + sizeof(s))
#define SPOOR_LQ_(i, x) SPOOR_LQ_##x
#define SPOOR_LQ_spoor_label(s, value) " " #value
#define SPOOR_LQ_spoor_range(s, low, high) " " #low "-" #high

#define SPOOR_T_spoor_enum(type, name, value, ...)                 \
	struct {                                                   \
		struct spoor_desc_field d;                         \
		char n[SPOOR_PAD_(sizeof(#name))];                 \
		SPOOR_NUMBERED_(SPOOR_LT_, __VA_ARGS__)            \
	} f_##name;
#define SPOOR_I_spoor_enum(type, name, value, ...)                                                                \
	{ { (uint32_t)(sizeof(struct spoor_desc_field) + SPOOR_PAD_(sizeof(#name))                                \
		    SPOOR_NUMBERED_(SPOOR_LS_, __VA_ARGS__)),                                                     \
	    5, 0, SPOOR_WIDTH_(type), 10, SPOOR_SIGNED_(type), 0, 0, SPOOR_COUNT_(__VA_ARGS__), 0 },                \
	  #name, SPOOR_NUMBERED_(SPOOR_LI_, __VA_ARGS__) },
#define SPOOR_V_spoor_enum(type, name, value, ...) const type spoor_v_##name = value;
#define SPOOR_S_spoor_enum(type, name, value, ...) +sizeof(type)
#define SPOOR_W_spoor_enum(type, name, value, ...) SPOOR_W_spoor_int(type, name, value)
#define SPOOR_Q_spoor_enum(type, name, value, ...) \
	" enum " SPOOR_TYPE_WORDS_(type) " " #name SPOOR_NUMBERED_(SPOOR_LQ_, __VA_ARGS__) ","
