/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <sys/uio.h>

#include "agent/core/objects.h"
#include "agent/core/process.h"
#include "agent/ust/callstack.h"
#include "trace/record.h"

#define STACK_WINDOW 8192 /* bytes of the stack that are looked at */

/*
 * By frame pointers, where the code keeps them; the walk goes through a copy of the stack, so that whatever rbp holds
 * is only looked up in that. One system call, which cannot fault.
 */
static void walk(const struct caller *caller, struct callstack *ret)
{
	uint64_t copy[STACK_WINDOW / 8];
	struct iovec to = { copy, sizeof(copy) }, from = { (void *)(caller->sp & ~(uintptr_t)7), sizeof(copy) };
	long got = sys6(SYS_process_vm_readv, process->pid, (long)&to, 1, (long)&from, 1, 0);
	uintptr_t begin = (uintptr_t)from.iov_base, size = sys_failed(got) ? 0 : (uintptr_t)got;
	uintptr_t frame = caller->bp;
	unsigned n = 0;

	ret->head[0] = SPOOR_WALK_TRUNCATED;
	while (n < CALLSTACK_FRAMES && frame - begin < size && size - (frame - begin) >= 16 && frame % 8 == 0) {
		uint64_t next = copy[(frame - begin) / 8], pc = copy[(frame - begin) / 8 + 1];

		if (!pc || pc >> 47)
			break;
		ret->frames[n++] = pc;
		if (!next)
			ret->head[0] = SPOOR_WALK_COMPLETE;
		if (next <= frame)
			break;
		frame = next;
	}
	if (!n)
		ret->frames[n++] = caller->pc;
	ret->head[1] = SPOOR_WAY_FRAME_POINTERS;
	ret->head[2] = 0;
	ret->head[3] = (uint16_t)n;
}

static void define_objects(const struct slot *s, struct callstack *stack)
{
	const struct code_object *last = NULL;
	unsigned i;

	for (i = 0; i < stack->head[3]; i++) {
		uintptr_t pc = stack->frames[i] - 1;
		struct code_object *o;

		if (last && pc - last->start < last->end - last->start)
			continue;
		o = code_object_of(pc, false);
		if (o && code_object_define(o, s))
			last = o;
		else
			stack->frames[i] |= SPOOR_ADDRESS_BARE;
	}
}

void callstack_take(const struct slot *s, const struct caller *caller, struct callstack *ret)
{
	walk(caller, ret);
	define_objects(s, ret);
}
