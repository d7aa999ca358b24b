/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* The trace map: which threads are in, who they are, and the version of their executable layout. */
#include "collect/kernel/maps.bpf.h"
#include "collect/kernel/own_ids.bpf.h"

/* The event id of a system call; SPOOR_SYSCALL_MAX for numbers beyond the table (x32 ones too). */
static __always_inline u32 call_id(struct task_struct *task, long nr)
{
	u64 n = nr;

	if (n >= SPOOR_SYSCALL_I386)
		return SPOOR_SYSCALL_MAX;
	/* No branch, which would be followed twice to the end; Linux 6.1 knows no bound of what "or" makes. */
	n = opaque(n | (task->thread_info.status & TS_COMPAT ? SPOOR_SYSCALL_I386 : 0));
	if (n > SPOOR_SYSCALL_MAX)
		return SPOOR_SYSCALL_MAX;
	return n;
}

/*
 * That of the call that executes bprm: the kernel puts execve's number into the registers, whichever it was. A program
 * named by a descriptor is execveat's. (With AT_FDCWD, or a path from the root on, nothing tells the two apart.)
 */
static __always_inline u32 exec_call(struct linux_binprm *bprm)
{
	return bprm->fdpath ? SPOOR_NR_EXECVEAT : SPOOR_NR_EXECVE;
}

/*
 * May calls of task be answered before sys_enter: by seccomp, or by who emulates them with ptrace()? Such a call has an
 * exit only.
 */
static __always_inline bool may_be_answered(struct task_struct *task)
{
	u64 work = task->thread_info.syscall_work;

	return both_attached && (work >> bpf_core_enum_value(enum syscall_work_bit, SYSCALL_WORK_BIT_SECCOMP) & 1 ||
				 work >> bpf_core_enum_value(enum syscall_work_bit, SYSCALL_WORK_BIT_SYSCALL_EMU) & 1);
}

/* What is the process's (its image, its layout) is kept in the group leader's storage. */
static __always_inline struct thread *leader_of(struct task_struct *task, struct thread *t)
{
	struct thread *l;

	if (task->pid == task->tgid)
		return t;
	l = bpf_task_storage_get(&threads, task->group_leader, 0, 0);
	return l ? l : t;
}

/* The number of the process's present set of executable mappings, under which user space is told of it. */
static __always_inline u32 layout_of(struct task_struct *task, struct thread *t)
{
	struct thread *l = leader_of(task, t);
	u32 layout = *(volatile u32 *)&l->layout; /* another thread may set it to 0 at any time */

	if (!layout) {
		layout = __sync_fetch_and_add(&next_layout, 1);
		l->layout = layout;
	}
	return layout;
}

#define TASK_FROZEN 0x8000 /* the kernel's include/linux/sched.h */

/* Off the CPU by its own will, or frozen (by a cgroup of version 1); not preempted. */
static __always_inline bool sleeps(struct task_struct *task)
{
	return task->__state & (0xff | TASK_FROZEN);
}
