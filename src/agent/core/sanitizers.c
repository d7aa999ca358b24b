/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent/core/sanitizers.h"

/* ThreadSanitizer's, once or more; absent elsewhere. */
extern void __tsan_init(void) __attribute__((weak));
extern void __tsan_release(void *of) __attribute__((weak));
extern void __tsan_acquire(void *of) __attribute__((weak));
/* Of those that begin by themselves when one of their functions is called. */
extern void __asan_init(void) __attribute__((weak));
extern void __msan_init(void) __attribute__((weak));
/* glibc's own name for sigaction(), which no runtime stands before. */
extern int __sigaction(int sig, const struct sigaction *action, struct sigaction *before) __attribute__((weak));

void sanitizers_begin(void)
{
	if (__tsan_init)
		__tsan_init();
}

int sanitizers_sigaction(int sig, const struct sigaction *action, struct sigaction *ret_before)
{
	if (!__sigaction || __tsan_init || __asan_init || __msan_init)
		return sigaction(sig, action, ret_before);
	return __sigaction(sig, action, ret_before);
}

void sanitizers_release(const void *of)
{
	if (__tsan_release)
		__tsan_release((void *)of);
}

void sanitizers_acquire(const void *of)
{
	if (__tsan_acquire)
		__tsan_acquire((void *)of);
}
