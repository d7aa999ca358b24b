/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * Clocks and their text. Times are unsigned ns; which clock is said where. Thread-safe. The formatting functions
 * return what snprintf returns.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define SPOOR_NS_PER_SEC UINT64_C(1000000000)

static inline uint64_t spoor_ns(struct timespec t)
{
	return t.tv_sec * SPOOR_NS_PER_SEC + t.tv_nsec;
}

uint64_t spoor_now_monotonic(void);
uint64_t spoor_now_realtime(void);
/* CLOCK_BOOTTIME, which goes on in suspend, less CLOCK_MONOTONIC. */
uint64_t spoor_suspended(void);
/* Whether this process's clocks are the kernel's: in a time namespace of its own they are shifted. */
bool spoor_clocks_are_the_kernels(void);
/* The machine's boot, which CLOCK_MONOTONIC counts from. 16 bytes; untouched where the kernel does not tell: -errno. */
int spoor_boot_id(uint8_t *ret);

/* Since the epoch, as JSON and babeltrace2 have it: "1763722800.000000042". */
int spoor_format_epoch(uint64_t realtime, char *buf, size_t size);

/* Local time of day: "11:03:07.123456789". */
int spoor_format_clock(uint64_t realtime, char *buf, size_t size);

/* Local date and time, fit for a file name: "20251121-110307". */
int spoor_format_date(uint64_t realtime, char *buf, size_t size);

/* For people, three significant digits: "0 ns", "840 ns", "1.24 us", "52.1 ms", "3.07 s", "12m 05s", "3h 07m". */
int spoor_format_duration(uint64_t ns, char *buf, size_t size);
