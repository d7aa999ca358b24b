/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * The runtimes of sanitizers stand before libc's functions in programs that are built with them. Those of clang lie in
 * the program itself and begin with its .preinit_array, after the first library: what we call until then must be called
 * as they can bear it.
 */
#include <signal.h>

/* To be called before any function of libc. */
void sanitizers_begin(void);
/* sigaction(), which would do nothing, and complain, in a runtime that has not begun. */
int sanitizers_sigaction(int sig, const struct sigaction *action, struct sigaction *ret_before);

/* Tells ThreadSanitizer, which does not watch us, of an order: after acquire(), what came before release() has been. */
void sanitizers_release(const void *of);
void sanitizers_acquire(const void *of);
