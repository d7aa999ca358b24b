/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#pragma GCC system_header
/*
 * The first form of tracepoints in user space (Blunck, Desnoyers, Fournier: Userspace Application Tracing with Markers
 * and Tracepoints, 2009), which is the kernel's:
 *
 *	DECLARE_TRACE(subsys_eventname, TP_PROTO(int firstarg, struct task_struct *p), TP_ARGS(firstarg, p));
 *	DEFINE_TRACE(subsys_eventname);
 *	...
 *	trace_subsys_eventname(arg, task);
 *
 * There is no list of fields: the arguments are recorded under the names of TP_ARGS, by their C types. char * is a
 * string, other pointers are addresses, integers, enums, float and double are what they are. All else is an array of
 * bytes: structures and complex numbers, with what lies in their padding, which may be anything; numbers of other
 * formats; and a long double, of the 10 bytes that are its value. There are 32 at most. The event is called
 * trace:subsys_eventname.
 *
 * Included by spoor/tracepoint.h. SPOOR_AT_, SPOOR_AI_, SPOOR_AV_, SPOOR_AS_, SPOOR_AW_ are to arguments what
 * SPOOR_T_ and so on are to fields.
 */

/* Of the 16 bytes of an x87's number 6 are nothing: whatever lay there before. */
#define SPOOR_LONG_DOUBLE_SIZE_ (__LDBL_MANT_DIG__ == 64 ? 10 : sizeof(long double))

#ifdef __cplusplus
extern "C++" { /* also where a program includes its C headers in extern "C" */
#include <type_traits>

template <class T> struct spoor_unrestricted_ {
	typedef T type;
};
template <class T> struct spoor_unrestricted_<T *__restrict> {
	typedef T *type;
};
template <class T> struct spoor_argument_ {
	typedef typename std::remove_cv<typename std::remove_reference<T>::type>::type unqualified;
	typedef typename spoor_unrestricted_<unqualified>::type type;
	static constexpr bool string = std::is_same<type, char *>::value || std::is_same<type, const char *>::value;
	static constexpr bool integer = std::is_integral<type>::value || std::is_enum<type>::value;
	static constexpr bool real = std::is_same<type, float>::value || std::is_same<type, double>::value;
	static constexpr bool number = integer || real;
	static constexpr decltype(sizeof(0)) size =
		std::is_same<type, long double>::value ? SPOOR_LONG_DOUBLE_SIZE_ : sizeof(type);
	static constexpr bool blob = !(number || std::is_pointer<type>::value) || size > 8;
	static constexpr int kind = string				    ? 4 :
				    std::is_pointer<type>::value	    ? 3 :
				    real				    ? 2 :
									      1;
	template <class U, bool number> struct sign {
		static constexpr bool value = false;
	};
	template <class U> struct sign<U, true> {
		static constexpr bool value = spoor_sign_<U>::value;
	};
	static constexpr bool is_signed = sign<type, number && !blob>::value;
};
}
#define SPOOR_ARG_BYTES_(x) spoor_bytes_(reinterpret_cast<uintptr_t>(&(x)))
#define SPOOR_ARG_SIZE_(x) spoor_argument_<decltype(x)>::size
#define SPOOR_ARG_TYPE_(x) spoor_argument_<decltype(x)>::kind
#define SPOOR_ARG_BLOB_(x) spoor_argument_<decltype(x)>::blob
#define SPOOR_ARG_SIGNED_(x) spoor_argument_<decltype(x)>::is_signed
#else
#define SPOOR_ARG_BYTES_(x) spoor_bytes_((uintptr_t)&(x))
/* A parameter that is declared as an array is a pointer, of whose size clang would warn. */
#define SPOOR_ARG_SIZE_(x) \
	(__extension__ _Generic((x), long double: SPOOR_LONG_DOUBLE_SIZE_, default: sizeof(*&(x))))
/* __extension__: before C11, too. A float is not given to what takes any arguments: it would become a double there. */
#define SPOOR_ARG_CLASS_(x) __builtin_classify_type(__extension__ _Generic((x), float: 0.0, default: (x)))
#define SPOOR_ARG_TYPE_(x)                                                            \
	(__extension__ _Generic((x), char *: 4, const char *: 4, float: 2, double: 2, \
				default: SPOOR_ARG_CLASS_(x) == 5 ? 3 : 1))
/* Of gcc's type classes 1 to 4 are integers, characters, enums and booleans, 5 pointers. */
#define SPOOR_ARG_BLOB_(x)                                                                        \
	(SPOOR_ARG_SIZE_(x) > 8 ||                                                                \
	 (__extension__ _Generic((x), float: 0, double: 0,                                        \
				 default: SPOOR_ARG_CLASS_(x) < 1 || SPOOR_ARG_CLASS_(x) > 5)))
#define SPOOR_ARG_SIGNED_(x)                                                                        \
	(__extension__ _Generic((x), signed char: 1, char: (char)-1 < 0, short: 1, int: 1, long: 1, \
		 long long: 1, float: 1, double: 1, default: 0))
#endif

/* Where an argument is, whatever its qualifiers. */
SPOOR_INLINE_ const char *spoor_bytes_(uintptr_t at)
{
	return (const char *)at;
}

#define SPOOR_AT_(i, x)                                   \
	struct {                                          \
		struct spoor_desc_field d;                \
		char n[SPOOR_PAD_(sizeof(#x))];           \
	} f_##x;
#define SPOOR_AI_(i, x)                                                                               \
	{ { (uint32_t)(sizeof(struct spoor_desc_field) + SPOOR_PAD_(sizeof(#x))), SPOOR_ARG_TYPE_(x), \
	    SPOOR_ARG_BLOB_(x) ? 1 : 0,                                                               \
	    SPOOR_ARG_BLOB_(x) || SPOOR_ARG_TYPE_(x) == 4 ? 1 : SPOOR_ARG_SIZE_(x),                   \
	    SPOOR_ARG_TYPE_(x) == 3 || SPOOR_ARG_BLOB_(x) ? 16 : 10, SPOOR_ARG_SIGNED_(x), 0,         \
	    SPOOR_ARG_BLOB_(x) ? SPOOR_ARG_SIZE_(x) : 0, 0, 0 },                                      \
	  #x },
#define SPOOR_AV_(i, x)                                                                                \
	const char *const spoor_v_##x =                                                                \
		SPOOR_ARG_TYPE_(x) == 4 ? spoor_string_at_(SPOOR_ARG_BYTES_(x)) : SPOOR_ARG_BYTES_(x); \
	const size_t spoor_c_##x =                                                                     \
		SPOOR_ARG_TYPE_(x) == 4 ? spoor_string_length_(spoor_v_##x) + 1 : SPOOR_ARG_SIZE_(x);
#define SPOOR_AS_(i, x) +spoor_c_##x
#define SPOOR_AW_(i, x)                                                     \
	if (SPOOR_ARG_TYPE_(x) == 4)                                        \
		spoor_put_string_(spoor_at_, spoor_v_##x, spoor_c_##x - 1); \
	else                                                                \
		spoor_copy_(spoor_at_, spoor_v_##x, SPOOR_ARG_SIZE_(x));    \
	spoor_at_ += spoor_c_##x;

/* In a function, where the arguments have types. */
#define SPOOR_ARGS_DESC_(name, args)                                                                         \
	struct spoor_desc_type_ {                                                                           \
		struct spoor_desc d;                                                                        \
		char names[SPOOR_PAD_(sizeof("trace\0" #name))];                                            \
		SPOOR_NUMBERED_(SPOOR_AT_, args)                                                            \
	} __attribute__((aligned(8)));                                                                      \
	SPOOR_CONSTANT_ struct spoor_desc_type_ spoor_desc_ = {                                             \
		{ sizeof(struct spoor_desc_type_), SPOOR_PAD_(sizeof("trace\0" #name)), SPOOR_COUNT_(args), \
		  SPOOR_DESC_TRACEPOINT, SPOOR_LEVEL_INFO, 0, 0 },                                          \
		"trace\0" #name, SPOOR_NUMBERED_(SPOOR_AI_, args)                                           \
	}

/*
 * Calls a function that has parameters for the sake of their types alone, and reads none. The compiler is kept from
 * seeing which function that is, and from asking for its type.
 */
#ifdef __clang__
#define SPOOR_ANY_TYPE_ __attribute__((no_sanitize("function"), no_instrument_function, unused))
#else
#define SPOOR_ANY_TYPE_ __attribute__((no_instrument_function, unused))
#endif
static __inline__ SPOOR_ANY_TYPE_ const struct spoor_desc *spoor_ask_desc_(void (*describe)(void))
{
	__asm__("" : "+r"(describe));
	return ((const struct spoor_desc *(*)(void))describe)();
}

/* The semicolon behind them ends a declaration: for one behind a function -Wpedantic would warn the program. */
#define DECLARE_TRACE(name, proto, args)                                  \
	SPOOR_DECLARE_(name, #proto, SPOOR_P_(proto), SPOOR_P_(args))     \
	struct spoor_declared_##name
#define DECLARE_TRACE_NOARGS(name)        \
	SPOOR_DECLARE_(name, "", , )      \
	struct spoor_declared_##name
#define DEFINE_TRACE(name) struct spoor_defined_##name

#define SPOOR_DECLARE_(name, said, proto, args)                                                                      \
	SPOOR_DECLARED_("trace__" #name, "trace:" #name " " said)                                                    \
	static struct spoor_tracepoint spoor_tp_trace__##name __attribute__((unused));                               \
	SPOOR_STYLE_BEGIN_                                                                                           \
	static __attribute__((noinline, unused)) SPOOR_UNWATCHED_ void spoor_emit_trace__##name(SPOOR_PROTO_(proto)) \
	{                                                                                                            \
		struct spoor_tracepoint *spoor_tp_ = &spoor_tp_trace__##name;                                        \
		SPOOR_CALL_PROBES_(SPOOR_P_(proto), SPOOR_P_(args))                                                  \
		SPOOR_NUMBERED_(SPOOR_AV_, args)                                                                     \
		SPOOR_RECORD_(0 SPOOR_NUMBERED_(SPOOR_AS_, args), SPOOR_NUMBERED_(SPOOR_AW_, args))                  \
	}                                                                                                            \
	SPOOR_STYLE_END_                                                                                             \
	SPOOR_INLINE_ void trace_##name(SPOOR_PROTO_(proto))                                                         \
	{                                                                                                            \
		SPOOR_ARGS_DESC_(name, SPOOR_P_(args));                                                              \
		SPOOR_SITE_(spoor_tp_trace__##name, spoor_desc_, __FILE__, on);                                      \
		return;                                                                                              \
	on:                                                                                                          \
		if (SPOOR_SITE_ON_(spoor_tp_trace__##name))                                                          \
			SPOOR_CALL_(spoor_emit_trace__##name(args));                                                 \
	}                                                                                                            \
	static __attribute__((noinline, no_instrument_function, unused))                                             \
	const struct spoor_desc *spoor_describe_##name(SPOOR_PROTO_(proto))                                          \
	{                                                                                                            \
		SPOOR_ARGS_DESC_(name, SPOOR_P_(args));                                                              \
		SPOOR_NUMBERED_(SPOOR_IGNORED_, args)                                                                \
		return &spoor_desc_.d;                                                                               \
	}                                                                                                            \
	SPOOR_PROBES_(spoor_ask_desc_((void (*)(void))spoor_describe_##name), name, SPOOR_P_(proto), SPOOR_P_(args))
