/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#include <stdint.h>

#include "agent/core/arena.h"

/* CLOCK_MONOTONIC, ns. Async-signal-safe. */
uint64_t clock_monotonic(void);
uint64_t clock_realtime(void);
/* The TSC and CLOCK_MONOTONIC of the same moment, to within some 20 ns. Without a usable TSC both are the latter. */
struct spoor_arena_clock clock_pair(void);
/* Which stamps this machine's events carry; asked once. */
enum spoor_arena_clock_kind clock_kind(void);
/* Such a stamp. Async-signal-safe. */
uint64_t clock_stamp(void);
/* That it be CLOCK_MONOTONIC whatever the machine has; before anything is stamped. */
void clock_use_monotonic(void);
