/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * C++ (Itanium ABI) and Rust (legacy and v0) names, without the parameter list: "ns::Class<int>::method".
 * A report is read by function; overloads are told apart by file and line.
 */
#include <stddef.h>

/*
 * Returns the readable form (caller frees), or NULL if the name is not a mangled one, is longer than we look at, or
 * its readable form exceeds a limit (a few hundred hostile bytes can demangle to gigabytes). Thread-safe.
 */
char *spoor_demangle(const char *name);
