/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent/core/stack.h"

/*
 * On one stack a handler stands below what it interrupted. On an alternate stack it may stand anywhere, but the kernel
 * tells whether we are on it.
 */
bool stack_was_left(struct stack_here *here, uintptr_t busy)
{
	const stack_t *a = &here->alternate;
	bool was_there, is_there;

	if (!here->asked && sys_failed(sys3(SYS_sigaltstack, NULL, &here->alternate, 0)))
		here->alternate = (stack_t){ .ss_flags = SS_DISABLE };
	here->asked = true;
	is_there = a->ss_flags & SS_ONSTACK;
	was_there = !(a->ss_flags & SS_DISABLE) && busy - (uintptr_t)a->ss_sp < a->ss_size;
	if (was_there != is_there)
		return was_there;
	return busy <= here->sp;
}
