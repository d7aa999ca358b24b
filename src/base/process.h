/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Processes as /proc has them. Thread-safe. */
#include <stdbool.h>
#include <stdint.h>

/* When it was started (clock ticks since boot); 0: it does not run. */
uint64_t spoor_process_start(uint32_t pid);
/* Does the process of that number run that was started then (clock ticks since boot), and no later one? */
bool spoor_process_runs(uint32_t pid, uint64_t start_time);
