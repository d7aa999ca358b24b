/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* What collectors that take stacks share beyond the walk itself. */
#include "collect/kernel/syscalls.bpf.h"

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
	u32 size = (sizeof(*raw) + 7) & ~7u, id;

	emit_reserve(&r, 1, size);
	if (!r.to)
		return 0;
	raw = (void *)r.to;
	id = __sync_fetch_and_add(&next_stack, 1);
	fill_raw(raw, task, regs, id, mode);
	emit_header(raw, SPOOR_CTL_RAW, 0, size, task->pid, bpf_ktime_get_ns());
	raw->layout = 0; /* /proc tells: the thread sleeps */
	raw->remote = 1;
	raw->len = 0;
	emit_commit(&r, size);
	return id;
}
