/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#include <signal.h>

#include "agent/core/sys.h"

/* Where an event begins. Whoever looks for a level asks the kernel once, however many events it stands over. */
struct stack_here {
	uintptr_t sp;
	bool asked;
	stack_t alternate; /* SS_DISABLE: there is none, or nobody can say */
};
#define STACK_HERE(sp_) ((struct stack_here){ .sp = (sp_) })

/*
 * An event was begun with the stack pointer at `busy` and not finished; now another one begins here. True: whoever
 * began it left it without finishing (siglongjmp, pthread_exit, an exception out of a signal handler). False: a signal
 * handler stands over it.
 */
bool stack_was_left(struct stack_here *here, uintptr_t busy);
