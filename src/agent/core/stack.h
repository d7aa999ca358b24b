/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#include "agent/core/sys.h"

/*
 * An event was begun with the stack pointer at `busy` and not finished; now another one begins at `sp`. True: whoever
 * began it left without finishing (siglongjmp, pthread_exit, an exception out of a signal handler). False: a signal
 * handler stands over it.
 */
bool stack_was_left(uintptr_t busy, uintptr_t sp);
