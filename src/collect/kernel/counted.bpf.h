/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* Counting's part in who comes in, execs, ends (the hooks of processes.bpf.h). */
#include "collect/kernel/counting.bpf.h"

static __always_inline void on_fork(struct task_struct *task, struct thread *t, struct task_struct *parent,
				    struct thread *p)
{
	own_thread(task, t);
}

static __always_inline void on_exec_begin(struct task_struct *task, struct thread *t, struct linux_binprm *bprm)
{
}

static __always_inline void on_exec_in(struct task_struct *task, struct thread *t, struct scratch *sc, u64 filename)
{
	own_thread(task, t);
	if (filtered && !calls[SPOOR_NR_EXECVE].mode)
		return;
	t->id = SPOOR_NR_EXECVE;
	t->start = bpf_ktime_get_ns();
}

static __always_inline void on_exec_out(struct task_struct *task, struct thread *t, int old_pid)
{
	if (t->start)
		count_call(t, bpf_ktime_get_ns() - t->start, 0);
	fold_thread(task, t, 1);
}

static __always_inline void on_exec(struct task_struct *task, struct thread *t, int old_pid, struct scratch *sc)
{
	if (by_site)
		emit_exec_mappings(task, sc);
}

static __always_inline void on_exit(struct task_struct *task, struct thread *t)
{
	fold_thread(task, t, task->signal->live.counter == 0);
}

static __always_inline void on_move_in(struct task_struct *task, struct thread *t)
{
	own_thread(task, t);
}

static __always_inline void on_move_out(struct task_struct *task, struct thread *t)
{
	fold_thread(task, t, 1);
}

/* The call in which task sleeps: its time counts from now on. */
static __always_inline void note_before(struct task_struct *task, struct thread *t)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	unsigned long switches = task->nvcsw;
	long nr = regs->orig_ax;
	u32 id;

	if (nr < 0 || !(task->__state & 0xff) || t->wait_exec)
		return;
	id = call_id(task, nr);
	if (filtered && !calls[id].mode)
		return;
	t->before_id = id;
	if (by_site && calls[id].mode > 1 + SPOOR_MODE_NONE && id < SPOOR_SYSCALL_I386)
		t->before_stack = emit_remote(task, t, regs, calls[id].mode - 1);
	t->off = bpf_ktime_get_ns();
	t->before = t->off;
	if (task->nvcsw != switches || !(task->__state & 0xff)) {
		t->before = 0; /* it woke up meanwhile: nothing of this is certain */
		t->off = 0;
	}
}

static __always_inline void on_attach(struct task_struct *task, struct thread *t, struct cpu *c)
{
	if (t->ended) {
		t->round = ROUND_ENDED;
		return;
	}
	own_thread(task, t);
	note_before(task, t);
}

static __always_inline void on_attach_moved(struct task_struct *task, struct thread *t, struct cpu *c)
{
	note_before(task, t);
}
