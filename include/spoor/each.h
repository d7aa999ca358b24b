/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#pragma GCC system_header
/*
 * Lists of macro arguments: counting them, doing something with each. No more than 32; what has up to 65 is told so,
 * and of more than these the compiler says something else.
 */

/* SPOOR_EACH_(PREFIX, x, y, ...): PREFIXx PREFIXy ... */
#define SPOOR_NTH_(_0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18, _19, _20, \
	_21, _22, _23, _24, _25, _26, _27, _28, _29, _30, _31, _32, _33, _34, _35, _36, _37, _38, _39, _40, _41, \
	_42, _43, _44, _45, _46, _47, _48, _49, _50, _51, _52, _53, _54, _55, _56, _57, _58, _59, _60, _61, _62, \
	_63, _64, n, ...) n
#define SPOOR_COUNT1_(...) \
	SPOOR_NTH_(__VA_ARGS__, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, \
	MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, \
	MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, \
	MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, \
	MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, MORE_THAN_32, 32, 31, 30, 29, 28, 27, \
	26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0)
#define SPOOR_COMMAS_(...) \
	SPOOR_NTH_(__VA_ARGS__, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, \
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, \
	0, 0, 0)
/* 1 for no arguments, else 0: only nothing between them makes the macro meet its parentheses. */
#define SPOOR_COMMA_(...) ,
#define SPOOR_NOTHING_(...) SPOOR_COMMAS_(SPOOR_COMMA_ __VA_ARGS__())
#define SPOOR_EMPTY_(...) SPOOR_JOIN_(SPOOR_EMPTY_, SPOOR_COMMAS_(__VA_ARGS__))(__VA_ARGS__)
#define SPOOR_EMPTY_1(...) 0
#define SPOOR_EMPTY_0(...) SPOOR_NOTHING_(__VA_ARGS__)
#define SPOOR_COUNT_(...) SPOOR_JOIN_(SPOOR_COUNT_EMPTY_, SPOOR_EMPTY_(__VA_ARGS__))(__VA_ARGS__)
#define SPOOR_COUNT_EMPTY_1(...) 0
#define SPOOR_COUNT_EMPTY_0(...) SPOOR_COUNT1_(__VA_ARGS__)
#define SPOOR_FIRST_(x, ...) x
#define SPOOR_REST_(...) SPOOR_JOIN_(SPOOR_REST_, SPOOR_COMMAS_(__VA_ARGS__))(__VA_ARGS__)
#define SPOOR_REST_0(x)
#define SPOOR_REST_1(x, ...) __VA_ARGS__
#define SPOOR_JOIN2_(a, b) a##b
#define SPOOR_JOIN_(a, b) SPOOR_JOIN2_(a, b)
#define SPOOR_EACH_(P, ...) SPOOR_JOIN_(SPOOR_EACH_, SPOOR_COUNT_(__VA_ARGS__))(P, __VA_ARGS__)
#define SPOOR_MORE_THAN_32_ _Pragma("GCC error \"spoor: more than 32 fields, arguments of DECLARE_TRACE or labels\"")
#define SPOOR_EACH_MORE_THAN_32(...) SPOOR_MORE_THAN_32_
#define SPOOR_EACH_0(P, ...)
#define SPOOR_EACH_1(P, x) P##x
#define SPOOR_EACH_2(P, x, ...) P##x SPOOR_EACH_1(P, __VA_ARGS__)
#define SPOOR_EACH_3(P, x, ...) P##x SPOOR_EACH_2(P, __VA_ARGS__)
#define SPOOR_EACH_4(P, x, ...) P##x SPOOR_EACH_3(P, __VA_ARGS__)
#define SPOOR_EACH_5(P, x, ...) P##x SPOOR_EACH_4(P, __VA_ARGS__)
#define SPOOR_EACH_6(P, x, ...) P##x SPOOR_EACH_5(P, __VA_ARGS__)
#define SPOOR_EACH_7(P, x, ...) P##x SPOOR_EACH_6(P, __VA_ARGS__)
#define SPOOR_EACH_8(P, x, ...) P##x SPOOR_EACH_7(P, __VA_ARGS__)
#define SPOOR_EACH_9(P, x, ...) P##x SPOOR_EACH_8(P, __VA_ARGS__)
#define SPOOR_EACH_10(P, x, ...) P##x SPOOR_EACH_9(P, __VA_ARGS__)
#define SPOOR_EACH_11(P, x, ...) P##x SPOOR_EACH_10(P, __VA_ARGS__)
#define SPOOR_EACH_12(P, x, ...) P##x SPOOR_EACH_11(P, __VA_ARGS__)
#define SPOOR_EACH_13(P, x, ...) P##x SPOOR_EACH_12(P, __VA_ARGS__)
#define SPOOR_EACH_14(P, x, ...) P##x SPOOR_EACH_13(P, __VA_ARGS__)
#define SPOOR_EACH_15(P, x, ...) P##x SPOOR_EACH_14(P, __VA_ARGS__)
#define SPOOR_EACH_16(P, x, ...) P##x SPOOR_EACH_15(P, __VA_ARGS__)
#define SPOOR_EACH_17(P, x, ...) P##x SPOOR_EACH_16(P, __VA_ARGS__)
#define SPOOR_EACH_18(P, x, ...) P##x SPOOR_EACH_17(P, __VA_ARGS__)
#define SPOOR_EACH_19(P, x, ...) P##x SPOOR_EACH_18(P, __VA_ARGS__)
#define SPOOR_EACH_20(P, x, ...) P##x SPOOR_EACH_19(P, __VA_ARGS__)
#define SPOOR_EACH_21(P, x, ...) P##x SPOOR_EACH_20(P, __VA_ARGS__)
#define SPOOR_EACH_22(P, x, ...) P##x SPOOR_EACH_21(P, __VA_ARGS__)
#define SPOOR_EACH_23(P, x, ...) P##x SPOOR_EACH_22(P, __VA_ARGS__)
#define SPOOR_EACH_24(P, x, ...) P##x SPOOR_EACH_23(P, __VA_ARGS__)
#define SPOOR_EACH_25(P, x, ...) P##x SPOOR_EACH_24(P, __VA_ARGS__)
#define SPOOR_EACH_26(P, x, ...) P##x SPOOR_EACH_25(P, __VA_ARGS__)
#define SPOOR_EACH_27(P, x, ...) P##x SPOOR_EACH_26(P, __VA_ARGS__)
#define SPOOR_EACH_28(P, x, ...) P##x SPOOR_EACH_27(P, __VA_ARGS__)
#define SPOOR_EACH_29(P, x, ...) P##x SPOOR_EACH_28(P, __VA_ARGS__)
#define SPOOR_EACH_30(P, x, ...) P##x SPOOR_EACH_29(P, __VA_ARGS__)
#define SPOOR_EACH_31(P, x, ...) P##x SPOOR_EACH_30(P, __VA_ARGS__)
#define SPOOR_EACH_32(P, x, ...) P##x SPOOR_EACH_31(P, __VA_ARGS__)

#define SPOOR_NUMBERED_(P, ...) SPOOR_JOIN_(SPOOR_NUMBERED_, SPOOR_COUNT_(__VA_ARGS__))(P, __VA_ARGS__)
#define SPOOR_NUMBERED_MORE_THAN_32(...) SPOOR_MORE_THAN_32_
#define SPOOR_NUMBERED_0(P, ...)
#define SPOOR_NUMBERED_1(P, x) P(1, x)
#define SPOOR_NUMBERED_2(P, x, ...) P(2, x) SPOOR_NUMBERED_1(P, __VA_ARGS__)
#define SPOOR_NUMBERED_3(P, x, ...) P(3, x) SPOOR_NUMBERED_2(P, __VA_ARGS__)
#define SPOOR_NUMBERED_4(P, x, ...) P(4, x) SPOOR_NUMBERED_3(P, __VA_ARGS__)
#define SPOOR_NUMBERED_5(P, x, ...) P(5, x) SPOOR_NUMBERED_4(P, __VA_ARGS__)
#define SPOOR_NUMBERED_6(P, x, ...) P(6, x) SPOOR_NUMBERED_5(P, __VA_ARGS__)
#define SPOOR_NUMBERED_7(P, x, ...) P(7, x) SPOOR_NUMBERED_6(P, __VA_ARGS__)
#define SPOOR_NUMBERED_8(P, x, ...) P(8, x) SPOOR_NUMBERED_7(P, __VA_ARGS__)
#define SPOOR_NUMBERED_9(P, x, ...) P(9, x) SPOOR_NUMBERED_8(P, __VA_ARGS__)
#define SPOOR_NUMBERED_10(P, x, ...) P(10, x) SPOOR_NUMBERED_9(P, __VA_ARGS__)
#define SPOOR_NUMBERED_11(P, x, ...) P(11, x) SPOOR_NUMBERED_10(P, __VA_ARGS__)
#define SPOOR_NUMBERED_12(P, x, ...) P(12, x) SPOOR_NUMBERED_11(P, __VA_ARGS__)
#define SPOOR_NUMBERED_13(P, x, ...) P(13, x) SPOOR_NUMBERED_12(P, __VA_ARGS__)
#define SPOOR_NUMBERED_14(P, x, ...) P(14, x) SPOOR_NUMBERED_13(P, __VA_ARGS__)
#define SPOOR_NUMBERED_15(P, x, ...) P(15, x) SPOOR_NUMBERED_14(P, __VA_ARGS__)
#define SPOOR_NUMBERED_16(P, x, ...) P(16, x) SPOOR_NUMBERED_15(P, __VA_ARGS__)
#define SPOOR_NUMBERED_17(P, x, ...) P(17, x) SPOOR_NUMBERED_16(P, __VA_ARGS__)
#define SPOOR_NUMBERED_18(P, x, ...) P(18, x) SPOOR_NUMBERED_17(P, __VA_ARGS__)
#define SPOOR_NUMBERED_19(P, x, ...) P(19, x) SPOOR_NUMBERED_18(P, __VA_ARGS__)
#define SPOOR_NUMBERED_20(P, x, ...) P(20, x) SPOOR_NUMBERED_19(P, __VA_ARGS__)
#define SPOOR_NUMBERED_21(P, x, ...) P(21, x) SPOOR_NUMBERED_20(P, __VA_ARGS__)
#define SPOOR_NUMBERED_22(P, x, ...) P(22, x) SPOOR_NUMBERED_21(P, __VA_ARGS__)
#define SPOOR_NUMBERED_23(P, x, ...) P(23, x) SPOOR_NUMBERED_22(P, __VA_ARGS__)
#define SPOOR_NUMBERED_24(P, x, ...) P(24, x) SPOOR_NUMBERED_23(P, __VA_ARGS__)
#define SPOOR_NUMBERED_25(P, x, ...) P(25, x) SPOOR_NUMBERED_24(P, __VA_ARGS__)
#define SPOOR_NUMBERED_26(P, x, ...) P(26, x) SPOOR_NUMBERED_25(P, __VA_ARGS__)
#define SPOOR_NUMBERED_27(P, x, ...) P(27, x) SPOOR_NUMBERED_26(P, __VA_ARGS__)
#define SPOOR_NUMBERED_28(P, x, ...) P(28, x) SPOOR_NUMBERED_27(P, __VA_ARGS__)
#define SPOOR_NUMBERED_29(P, x, ...) P(29, x) SPOOR_NUMBERED_28(P, __VA_ARGS__)
#define SPOOR_NUMBERED_30(P, x, ...) P(30, x) SPOOR_NUMBERED_29(P, __VA_ARGS__)
#define SPOOR_NUMBERED_31(P, x, ...) P(31, x) SPOOR_NUMBERED_30(P, __VA_ARGS__)
#define SPOOR_NUMBERED_32(P, x, ...) P(32, x) SPOOR_NUMBERED_31(P, __VA_ARGS__)
