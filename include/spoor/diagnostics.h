/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#pragma GCC system_header
/* What compilers are to say of what our macros make in a program's code, and what not. */

/* What C compilers of old only warn of: an argument, or what a field is made of, of the wrong type. */
#if defined(__cplusplus) || defined(__TINYC__)
#define SPOOR_STRICT_BEGIN_
#define SPOOR_STRICT_END_
#else
#define SPOOR_STRICT_BEGIN_                                                      \
	_Pragma("GCC diagnostic push")                                           \
	_Pragma("GCC diagnostic error \"-Wint-conversion\"")                     \
	_Pragma("GCC diagnostic error \"-Wincompatible-pointer-types\"")         \
	_Pragma("GCC diagnostic error \"-Wimplicit-function-declaration\"")
#define SPOOR_STRICT_END_ _Pragma("GCC diagnostic pop")
#endif
#define SPOOR_STRICT_(call) SPOOR_STRICT_BEGIN_ call; SPOOR_STRICT_END_

/* Around functions of ours: some programs keep to a rule of C89. */
#ifdef __cplusplus
#define SPOOR_STYLE_BEGIN_
#define SPOOR_STYLE_END_
#else
#define SPOOR_STYLE_BEGIN_ \
	_Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wdeclaration-after-statement\"")
#define SPOOR_STYLE_END_ _Pragma("GCC diagnostic pop")
#endif

/* Around sites: in inline functions, too, they have variables and functions that are each object's own. */
#if !defined(__cplusplus) && defined(__clang__)
#define SPOOR_OWN_BEGIN_                                                          \
	_Pragma("clang diagnostic push")                                          \
	_Pragma("clang diagnostic ignored \"-Wstatic-in-inline\"")                \
	_Pragma("clang diagnostic ignored \"-Wstatic-local-in-inline\"")
#define SPOOR_OWN_END_ _Pragma("clang diagnostic pop")
#else
#define SPOOR_OWN_BEGIN_
#define SPOOR_OWN_END_
#endif
