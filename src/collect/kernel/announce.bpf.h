/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* What collectors that take stacks tell user space of mappings and of threads that sleep. */
#include "collect/kernel/mappings.bpf.h"
#include "collect/kernel/take_stack.bpf.h"

/* What execve mapped: the program, its interpreter (where it begins to run), the vDSO. */
static __always_inline void emit_exec_mappings(struct task_struct *task, struct scratch *sc)
{
	struct mm_struct *mm = task->mm;
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	u64 program = mm->start_code, start = regs->ip;

	emit_mapping(program, sc);
	if (start < program || start >= mm->end_code)
		emit_mapping(start, sc);
	emit_mapping(address_of(sc, mm->context.vdso), sc);
}

/* The registers of a sleeping thread. User space reads its stack: it does not move while the thread sleeps. */
static __always_inline u32 emit_remote(struct task_struct *task, struct thread *t, struct pt_regs *regs, u32 mode)
{
	struct spoor_ctl_raw *raw;
	struct reservation r;
	u32 size = SPOOR_EVENT_ROUND(sizeof(*raw)), id;

	raw = raw_begin(&r, 1, size, task, regs, mode);
	if (!raw)
		return 0;
	id = raw->stack;
	raw->remote = 1;
	emit_commit(&r, size);
	return id;
}
