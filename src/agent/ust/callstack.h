/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* The call stack of an event, walked in the thread that writes it. */
#include "agent/core/output.h"

#define CALLSTACK_FRAMES 64

struct callstack {
	uint16_t head[4]; /* status, way, 0, n: as they stand in the event */
	uint64_t frames[CALLSTACK_FRAMES];
};

/* Of a function of ours. */
#define CALLER_()                                                                                             \
	((struct caller){ (uintptr_t)__builtin_return_address(0), (uintptr_t)__builtin_frame_address(0) + 16, \
			  *(uintptr_t *)__builtin_frame_address(0) })
/* In a function that the walk begins in. */
#define WITH_FRAME_POINTER_() __asm__ volatile("" : : "r"(__builtin_frame_address(0)))

/*
 * The stack of an event of that slot, in whose arena the objects of its addresses are defined. It begins at the site:
 * what called us is the site's helper, which is left out if the walk comes further. Async-signal-safe.
 */
void callstack_take(const struct slot *s, const struct caller *caller, struct callstack *ret);
