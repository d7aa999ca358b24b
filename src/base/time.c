/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/time.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"

static uint64_t now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return spoor_ns(ts);
}

uint64_t spoor_now_monotonic(void)
{
	return now(CLOCK_MONOTONIC);
}

uint64_t spoor_now_realtime(void)
{
	return now(CLOCK_REALTIME);
}

int spoor_format_epoch(uint64_t realtime, char *buf, size_t size)
{
	return snprintf(buf, size, "%" PRIu64 ".%09" PRIu64, realtime / SPOOR_NS_PER_SEC, realtime % SPOOR_NS_PER_SEC);
}

static struct tm local(uint64_t realtime)
{
	time_t seconds = realtime / SPOOR_NS_PER_SEC;
	struct tm tm = {};

	localtime_r(&seconds, &tm);
	return tm;
}

int spoor_format_clock(uint64_t realtime, char *buf, size_t size)
{
	struct tm tm = local(realtime);

	return snprintf(buf, size, "%02d:%02d:%02d.%09" PRIu64, tm.tm_hour, tm.tm_min, tm.tm_sec,
			realtime % SPOOR_NS_PER_SEC);
}

int spoor_format_date(uint64_t realtime, char *buf, size_t size)
{
	struct tm tm = local(realtime);

	return snprintf(buf, size, "%04d%02d%02d-%02d%02d%02d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
			tm.tm_hour, tm.tm_min, tm.tm_sec);
}

int spoor_format_duration(uint64_t ns, char *buf, size_t size)
{
	static const struct {
		uint64_t ns;
		const char *name;
	} units[] = { { 1000, "us" }, { 1000000, "ms" }, { SPOOR_NS_PER_SEC, "s" } };
	int unit = 0;

	if (ns < 1000)
		return snprintf(buf, size, "%" PRIu64 " ns", ns);
	if (ns >= 3600 * SPOOR_NS_PER_SEC)
		return snprintf(buf, size, "%" PRIu64 "h %02" PRIu64 "m", ns / SPOOR_NS_PER_SEC / 3600,
				ns / SPOOR_NS_PER_SEC / 60 % 60);
	if (ns >= 60 * SPOOR_NS_PER_SEC)
		return snprintf(buf, size, "%" PRIu64 "m %02" PRIu64 "s", ns / SPOOR_NS_PER_SEC / 60,
				ns / SPOOR_NS_PER_SEC % 60);
	/* 999.6 us is shown as 1.00 ms: change unit where rounding to three digits would carry. */
	while (unit < 2 && ns * 10 >= 9995 * units[unit].ns)
		unit++;
	double value = (double)ns / units[unit].ns;
	int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;

	return snprintf(buf, size, "%.*f %s", digits, value, units[unit].name);
}

uint64_t spoor_suspended(void)
{
	struct timespec mono, boot;
	int64_t d;

	clock_gettime(CLOCK_MONOTONIC, &mono);
	clock_gettime(CLOCK_BOOTTIME, &boot);
	d = (boot.tv_sec - mono.tv_sec) * (int64_t)SPOOR_NS_PER_SEC + boot.tv_nsec - mono.tv_nsec;
	return d < 1000000 ? 0 : d;
}

/* A line for each clock: its name, seconds, nanoseconds. */
bool spoor_clocks_are_the_kernels(void)
{
	_cleanup_(spoor_fclosep) FILE *f = fopen("/proc/self/timens_offsets", "re");
	long long seconds, ns;

	while (f && fscanf(f, "%*s %lld %lld", &seconds, &ns) == 2)
		if (seconds || ns)
			return false;
	return true;
}

int spoor_boot_id(uint8_t *ret)
{
	_cleanup_(spoor_fclosep) FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	char text[64] = "";
	uint8_t id[16] = {};
	int n = 0;

	if (!f || !fgets(text, sizeof(text), f))
		return -ENODATA;
	for (const char *p = text; *p && n < 32; p++) {
		int v = *p >= '0' && *p <= '9' ? *p - '0' : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10 : -1;

		if (v < 0)
			continue;
		id[n / 2] |= n % 2 ? v : v << 4;
		n++;
	}
	if (n != 32)
		return -EBADMSG;
	memcpy(ret, id, sizeof(id));
	return 0;
}
