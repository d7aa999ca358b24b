/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Processes as /proc has them. Thread-safe. */
#include <stdbool.h>
#include <stdint.h>

/* Of a process whose first thread has ended and others go on (pthread_exit() in main()), these are as of any other. */

/* When it was started (clock ticks since boot); 0: it does not run. */
uint64_t spoor_process_start(uint32_t pid);
/* Does the process of that number run that was started then (clock ticks since boot), and no later one? */
bool spoor_process_runs(uint32_t pid, uint64_t start_time);
/* Its first thread's state, a letter as in proc(5); '\0': there is none. */
char spoor_process_state(uint32_t pid);
/* Has a signal come that a thread neither blocks nor has got round to yet? One that ends it, until it is waited for. */
bool spoor_process_is_behind(uint32_t pid);
/* Its first thread's name; "": there is none. */
void spoor_process_name(uint32_t pid, char name[16]);
/* Through which thread its memory is seen: by its own number, or, if its first thread has ended, another's. */
uint32_t spoor_process_thread(uint32_t pid);
