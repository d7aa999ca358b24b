/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <signal.h>

#include "agent/core/stack.h"

/*
 * On one stack a handler stands below what it interrupted. On an alternate stack it may stand anywhere, but the kernel
 * tells whether we are on it.
 */
bool stack_was_left(uintptr_t busy, uintptr_t sp)
{
	bool was_there, is_there;
	stack_t alternate = {};

	if (sys_failed(sys3(SYS_sigaltstack, NULL, &alternate, 0)))
		return busy <= sp;
	is_there = alternate.ss_flags & SS_ONSTACK;
	was_there = !(alternate.ss_flags & SS_DISABLE) && busy - (uintptr_t)alternate.ss_sp < alternate.ss_size;
	if (was_there != is_there)
		return was_there;
	return busy <= sp;
}
