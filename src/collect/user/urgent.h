/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * SIGURG, by which programs are called that have no thread that listens: to whom it gets in a process. What /proc says
 * of that holds for a moment.
 */
#include <stdbool.h>
#include <stdint.h>

#define SPOOR_URGENT_IS_TAKEN "a thread of it waits for all signals, SIGURG too (sigwait(), signalfd())"

#define SPOOR_URGENT_IS_BLOCKED "it blocks SIGURG"
#define SPOOR_URGENT_IS_RESET "SIGURG was taken from it"

enum spoor_urgent_taker {
	SPOOR_URGENT_HANDLED,
	SPOOR_URGENT_BLOCKED, /* by all threads */
	SPOOR_URGENT_TAKEN,   /* one waits for it, or it is read (signalfd()): by the program, who does not know it */
};
/* The kernel prefers the first thread, and then takes any. */
enum spoor_urgent_taker spoor_urgent_find_taker(uint32_t pid);
bool spoor_urgent_is_handled(uint32_t pid); /* does the process have a handler? */
int spoor_urgent_send(uint32_t pid);        /* 0 or -errno */
