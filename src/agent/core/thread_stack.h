/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * Which addresses of a thread's stack may be read without asking: nothing that a walk comes to by wrong rows or by a
 * damaged stack may make the program fault.
 *
 *	low                sp of the event                       high
 *	 +-----------------+--------------------------------------+---------------------------+
 *	 | was looked at   |  frames                              | the thread's own data, or |
 *	 | before          |                                      | the program's arguments   |
 *	 +-----------------+--------------------------------------+---------------------------+
 *
 * high: glibc puts a thread's descriptor (fs:0) above its stack; the first thread's stack begins below what
 * AT_RANDOM points to. That all between is readable the kernel is asked once, and again when the stack has grown: what
 * lies between a frame and its thread's descriptor stays as long as the thread. But what looks so may be another stack
 * (a signal stack, makecontext) that other memory lies above, which comes and goes: its frames stay, what only might be
 * one may not. Stacks that are not below a descriptor are read by a system call that cannot fault.
 */
#include "agent/core/sys.h"

#define STACK_WINDOW 1024 /* bytes read at once where it is not certain that they are there */

struct thread_stack {
	/* Of one thread: all 0 for another. */
	uintptr_t low, high; /* 0: not known */
	uintptr_t refused;   /* no own stack is here: its first 64 KiB. 0: nowhere yet */
	bool lasts;          /* all of it, whatever the program does: the first thread's */
	uintptr_t at;        /* of what the window holds */
	size_t n;
	uint64_t window[STACK_WINDOW / 8];
};

/* Before a walk from sp on. Async-signal-safe. */
void thread_stack_begin(struct thread_stack *s, uintptr_t sp);

/* 8 bytes, outside of low .. high; 0, or -EFAULT. */
int thread_stack_read(struct thread_stack *s, uintptr_t at, uint64_t *ret);
