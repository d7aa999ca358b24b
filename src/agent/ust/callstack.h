/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* The call stack of an event, walked in the thread that writes it. */
#include "agent/core/output.h"

/* Of a function of ours. */
#define CALLER_()                                                                                             \
	((struct caller){ (uintptr_t)__builtin_return_address(0), (uintptr_t)__builtin_frame_address(0) + 16, \
			  *(uintptr_t *)__builtin_frame_address(0) })
/* In a function that the walk begins in. */
#define WITH_FRAME_POINTER_() __asm__ volatile("" : : "r"(__builtin_frame_address(0)))

struct callstack {
	uint16_t head[4]; /* status, way, 0, n: as they stand in the event */
	const uint64_t *frames;
	void *scratch;       /* that holds the frames; NULL: none */
};

/*
 * The stack of an event of that slot, in the slot's mode, the objects of its addresses defined in the slot's arena. It
 * begins at the site: what called us is the site's helper. site: where that, or what called it, returns to, which is
 * all that is taken where helpers cannot be walked.
 * Async-signal-safe; takes no lock but to define an object that is new. To be given back by callstack_done().
 */
void callstack_take(const struct slot *s, const struct caller *caller, uintptr_t site, struct callstack *ret);
void callstack_done(struct callstack *c);
