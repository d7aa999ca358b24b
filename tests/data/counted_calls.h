/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Ways of `counted` that are about the calls: which ones, how often, how they fail, how long they take. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static void call(int n)
{
	for (int i = 0; i < n; i++)
		syscall(SYS_getppid);
}

static long int80(long nr)
{
	long ret;

	asm volatile("int $0x80" : "=a"(ret) : "a"(nr) : "memory", "r8", "r9", "r10", "r11");
	return ret;
}

static void by_int80(int n, int p)
{
	for (int i = 0; i < n; i++)
		int80(64);
	call(p);
}

static void unknown(int n, int p)
{
	for (int i = 0; i < n; i++)
		syscall(999);
	call(p);
}

/* These end, stop or change the caller whatever their arguments are, or wait, leave something, or are made anyway. */
static const int not_among_many[] = {
	SYS_exit,
	SYS_exit_group,
	SYS_fork,
	SYS_vfork,
	SYS_clone,
	SYS_pause,
	SYS_rt_sigreturn,
	SYS_rt_sigsuspend,
	SYS_vhangup,
	SYS_sync,
	SYS_munlockall,
	SYS_setsid,
	SYS_kill,
	SYS_tkill,
	SYS_tgkill,
	SYS_brk,
	SYS_close,
	SYS_rt_sigtimedwait,
	SYS_wait4,
	SYS_select,
	SYS_pselect6,
	SYS_ppoll,
	SYS_poll,
	SYS_futex,
	SYS_alarm,
	SYS_umask,
	SYS_read,
	SYS_write,
	SYS_restart_syscall,
	SYS_munmap,
	SYS_mmap,
	SYS_personality,
	SYS_msgget,
};

static int is_among_many(int nr)
{
	for (size_t i = 0; i < sizeof(not_among_many) / sizeof(*not_among_many); i++)
		if (not_among_many[i] == nr)
			return 0;
	return 1;
}

/* Numbers that do nothing without proper arguments. */
static void many(int n, int times)
{
	for (int nr = 0; nr < 335 && n; nr++) {
		if (!is_among_many(nr))
			continue;
		for (int i = 0; i < times; i++)
			syscall(nr, -1L, -1L, -1L, -1L, -1L, -1L);
		n--;
	}
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void alternate(int ms, int others)
{
	long until;

	many(others, 1);
	until = now_ms() + ms;
	do {
		for (int i = 0; i < 1000; i++) {
			syscall(SYS_getppid);
			syscall(SYS_getuid);
		}
	} while (now_ms() < until);
}

static void fail(int n, int p)
{
	for (int i = 0; i < n; i++)
		syscall(SYS_openat, AT_FDCWD, "/nowhere/at/all", O_RDONLY);
	for (int i = 0; i < p; i++)
		syscall(SYS_openat, 999, "relative", O_RDONLY);
	for (int i = 0; i < 2; i++)
		syscall(SYS_openat, AT_FDCWD, (char *)8, O_RDONLY);
	for (int i = 0; i < n; i++)
		syscall(SYS_openat, AT_FDCWD, "/", O_WRONLY);
}

static long long ns_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void read_zeros(int n, int mib)
{
	static char *buffer;
	static int fd = -1;
	size_t size = (size_t)mib << 20;

	if (!buffer) {
		buffer = malloc(size);
		memset(buffer, 1, size);
		fd = open("/dev/zero", O_RDONLY);
	}
	for (int i = 0; i < n; i++)
		if (readv(fd, &(struct iovec){ buffer, size }, 1) != (ssize_t)size)
			exit(1);
}

static void sleep_often(int n, int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	for (int i = 0; i < n; i++)
		nanosleep(&ts, NULL);
}

/* By the scheduler's own account of this thread. */
static void measure(void (*f)(int, int), int n, int p)
{
	long long began, ran;

	f(0, p);
	ran = ns_of(CLOCK_THREAD_CPUTIME_ID);
	began = ns_of(CLOCK_MONOTONIC);
	f(n, p);
	began = ns_of(CLOCK_MONOTONIC) - began;
	ran = ns_of(CLOCK_THREAD_CPUTIME_ID) - ran;
	printf("%lld %lld\n", began, ran);
}

static void busy(int n, int mib)
{
	measure(read_zeros, n, mib);
}

static void asleep(int n, int ms)
{
	measure(sleep_often, n, ms);
}
