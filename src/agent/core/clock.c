/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <cpuid.h>
#include <fcntl.h>
#include <time.h>

#include "agent/core/sys.h"
#include "agent/core/clock.h"

static enum spoor_arena_clock_kind kind;

static uint64_t read_clock(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t); /* vDSO: no errno, async-signal-safe */
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t clock_monotonic(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_realtime(void)
{
	return read_clock(CLOCK_REALTIME);
}

/* The kernel gives up the TSC as its clock source when it finds it unfit; until then an invariant one is a clock. */
static bool kernel_uses_tsc(void)
{
	char name[4] = "";
	long fd = sys3(SYS_open, "/sys/devices/system/clocksource/clocksource0/current_clocksource",
		       O_RDONLY | O_CLOEXEC, 0);
	long n;

	if (sys_failed(fd))
		return true; /* no /sys here: go by the processor alone */
	n = sys3(SYS_read, fd, name, sizeof(name));
	sys3(SYS_close, fd, 0, 0);
	/* "kvm-clock" and "hyperv..." are made of the TSC. */
	return n == 4 && (!__builtin_memcmp(name, "tsc", 3) || !__builtin_memcmp(name, "kvm", 3));
}

static enum spoor_arena_clock_kind find_kind(void)
{
	unsigned a, b, c, d = 0;

	if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1 << 8))
		return SPOOR_ARENA_MONOTONIC;
	return kernel_uses_tsc() ? SPOOR_ARENA_TSC : SPOOR_ARENA_MONOTONIC;
}

enum spoor_arena_clock_kind clock_kind(void)
{
	if (!kind)
		kind = find_kind();
	return kind;
}

uint64_t clock_stamp(void)
{
	return clock_kind() == SPOOR_ARENA_TSC ? rdtsc() : clock_monotonic();
}

void clock_use_monotonic(void)
{
	kind = SPOOR_ARENA_MONOTONIC;
}

struct spoor_arena_clock clock_pair(void)
{
	struct spoor_arena_clock best = { 0 };
	uint64_t shortest = UINT64_MAX;
	int i;

	if (clock_kind() != SPOOR_ARENA_TSC) {
		best.tsc = best.mono = clock_monotonic();
		return best;
	}
	for (i = 0; i < 3; i++) {
		uint64_t before = rdtsc(), mono = clock_monotonic(), after = rdtsc();

		if (after - before >= shortest)
			continue;
		shortest = after - before;
		best.tsc = before + shortest / 2;
		best.mono = mono;
	}
	return best;
}
