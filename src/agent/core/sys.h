/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* System calls as the agent needs them: async-signal-safe, errno left alone, 0 or more or -errno. */
#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define barrier() __asm__ volatile("" ::: "memory")
#define HIDDEN __attribute__((visibility("hidden")))
#define EXPORT __attribute__((visibility("default")))

static inline long sys6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}
#define sys3(nr, a, b, c) sys6(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define sys0(nr) sys3(nr, 0, 0, 0)

static inline bool sys_failed(long r)
{
	return (unsigned long)r > -4096UL;
}

static inline uint32_t sys_tid(void)
{
	return (uint32_t)sys0(SYS_gettid);
}

static inline uint32_t sys_pid(void)
{
	return (uint32_t)sys0(SYS_getpid);
}

/* While *at is `seen`, at most ns; those of other processes may wake us. False: it took that long. */
static inline bool futex_wait(uint32_t *at, uint32_t seen, uint64_t ns)
{
	struct timespec t = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	return sys6(SYS_futex, (long)at, FUTEX_WAIT, seen, (long)&t, 0, 0) != -ETIMEDOUT;
}

static inline void futex_wake(uint32_t *at, int n)
{
	sys3(SYS_futex, at, FUTEX_WAKE, n);
}

static inline uintptr_t stack_pointer(void)
{
	uintptr_t sp;

	__asm__ volatile("mov %%rsp, %0" : "=r"(sp));
	return sp;
}

static inline uint64_t rdtsc(void)
{
	uint32_t lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
}

static inline void cpu_relax(void)
{
	__asm__ volatile("pause");
}
