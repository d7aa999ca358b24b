/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* Counting's part in who comes in, execs, ends (the hooks of processes.bpf.h). */
#include "collect/kernel/counting.bpf.h"
#include "collect/kernel/last_ran.bpf.h"

static __always_inline void on_fork(struct task_struct *task, struct thread *t, struct task_struct *parent,
				    struct thread *p)
{
	own_thread(task, t);
}

static __always_inline void on_exec_begin(struct task_struct *task, struct thread *t, struct linux_binprm *bprm)
{
}

static __always_inline void on_exec_in(struct task_struct *task, struct thread *t, struct linux_binprm *bprm)
{
	u32 id = exec_call(bprm);

	own_thread(task, t);
	if (filtered && !calls[id].mode)
		return;
	t->id = id;
	t->start = bpf_ktime_get_ns();
}

static __always_inline void on_exec_out(struct task_struct *task, struct thread *t, int old_pid)
{
	if (t->start)
		count_call(t, bpf_ktime_get_ns() - t->start, 0);
	fold_thread(task, t, FOLD_LAST | FOLD_LEFT);
}

static __always_inline void on_exec(struct task_struct *task, struct thread *t, int old_pid, struct scratch *sc)
{
	if (old_pid != task->pid)
		begin_anew(t);
	if (by_site)
		emit_exec_mappings(task, sc);
}

static __always_inline void on_exit(struct task_struct *task, struct thread *t)
{
	bool last = task->signal->live.counter == 0 && first_to_say_ended(task, t);

	fold_thread(task, t, last ? FOLD_LAST : 0);
}

static __always_inline void on_move_in(struct task_struct *task, struct thread *t)
{
	own_thread(task, t);
}

/* A process moves with all its threads: its leader stands for it. */
static __always_inline void on_move_out(struct task_struct *task, struct thread *t)
{
	fold_thread(task, t, FOLD_LEFT | (task->pid == task->tgid ? FOLD_LAST : 0));
}

/* The call in which task sleeps: it began no later than task last ran, and has been off the CPU since then. */
static __always_inline void on_describe(struct task_struct *task, struct thread *s, struct cpu *c)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	long nr = regs->orig_ax;
	u32 id, mode;

	own_thread(task, s);
	if (nr < 0 || !sleeps(task) || s->wait_exec)
		return;
	id = call_id(task, nr);
	if (filtered && !calls[id].mode)
		return;
	s->id = id;
	mode = calls[id].mode;
	if (by_site && mode > 1 + SPOOR_MODE_NONE) {
		s->stack = emit_remote(task, s, regs, mode - 1);
		s->raw = 1;
	}
	s->off = last_ran(task, bpf_ktime_get_ns());
	s->start = s->off;
}

static __always_inline void on_attach(struct task_struct *task, struct thread *t, struct thread *s)
{
	if (!t) {
		disown_thread(s);
	} else if (t->ended && __sync_lock_test_and_set(&t->round, ROUND_ENDED) != ROUND_ENDED) {
		disown_thread(s); /* its exit will not be seen, or finds that this was said */
	}
}
