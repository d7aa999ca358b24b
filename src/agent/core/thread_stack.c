/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "agent/core/thread_stack.h"

#define PAGE 4096UL
#define REGION (64UL << 10)
#define DEEPEST (16UL << 20) /* so far below its thread's descriptor a stack is looked for */

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* All of [low, high) can be read: of other memory, and of guard pages, the kernel says that it cannot. */
static bool is_readable(uintptr_t low, uintptr_t high)
{
	low &= ~(PAGE - 1);
	high = (high + PAGE - 1) & ~(PAGE - 1);
	return low < high && !sys_failed(sys3(SYS_madvise, low, high - low, MADV_POPULATE_READ));
}

static uintptr_t descriptor(void)
{
	uintptr_t fs;

	__asm__("mov %%fs:0, %0" : "=r"(fs)); /* psABI: it points to itself */
	return fs;
}

static bool try(struct thread_stack *s, uintptr_t sp, uintptr_t high, bool lasts)
{
	if (sp >= high || high - sp > DEEPEST || !is_readable(sp, high))
		return false;
	s->low = sp & ~(PAGE - 1);
	s->high = high;
	s->lasts = lasts;
	return true;
}

void thread_stack_begin(struct thread_stack *s, uintptr_t sp)
{
	s->n = 0;
	if (sp - s->low < s->high - s->low)
		return;
	if ((sp & ~(REGION - 1)) == s->refused)
		return;
	if (sp < s->low && s->low - sp < DEEPEST && is_readable(sp, s->low)) { /* it has grown */
		s->low = sp & ~(PAGE - 1);
		return;
	}
	if (!try(s, sp, getauxval(AT_RANDOM), true) && !try(s, sp, descriptor(), false))
		s->refused = sp & ~(REGION - 1);
}

int thread_stack_read(struct thread_stack *s, uintptr_t at, uint64_t *ret)
{
	if (at - s->at >= s->n || s->n - (at - s->at) < 8) {
		size_t page = PAGE - (at & (PAGE - 1)), size = page < STACK_WINDOW ? page : STACK_WINDOW;
		struct iovec to = { s->window, size }, from = { (void *)at, size };
		long n = sys6(SYS_process_vm_readv, sys_pid(), (long)&to, 1, (long)&from, 1, 0);

		s->at = at;
		s->n = sys_failed(n) ? 0 : (size_t)n;
		if (s->n < 8)
			return -EFAULT;
	}
	*ret = s->window[(at - s->at) / 8];
	return 0;
}
