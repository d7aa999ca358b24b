/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * What is already there: a task iterator takes in the processes that were picked, and reports the calls in which
 * their threads sleep; at the end another reports what is still in flight. Level 1's rings: an iterator can be
 * preempted by what writes to level 0.
 */
#include "collect/kernel/processes.bpf.h"

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

/*
 * When task last ran. Its scheduler's clock goes its own way on each CPU (time that was stolen does not count), so the
 * distance to ours was measured on each just before; a little too late where it is wrong at all.
 */
static __always_inline u64 last_ran(struct task_struct *task, u64 now)
{
	u32 key = task->thread_info.cpu;
	struct cpu *c = bpf_map_lookup_elem(&cpus, &key);
	u64 at = c && c->sched_offset ? task->se.exec_start + c->sched_offset : now;

	return at < now ? at : now;
}

/* Run on each CPU by a thread that has just come to it: its own start of running is now. */
SEC("raw_tp")
int measure_sched_clock(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu *c = this_cpu();

	if (c && task->se.exec_start)
		c->sched_offset = bpf_ktime_get_ns() - task->se.exec_start;
	return 0;
}

/*
 * The call in which task sleeps, into t, which nobody else sees yet. It began no later than the task last ran. Returns
 * whether there is one.
 */
static __always_inline bool describe_sleeping(struct task_struct *task, struct thread *t, struct cpu *c)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	struct scratch *sc = &c->scratch[1];
	struct spoor_call_config *cfg;
	long nr = regs->orig_ax;

	if (nr < 0 || !(task->__state & 0xff))
		return false;
	t->id = call_id(task, nr);
	cfg = &calls[t->id < SPOOR_SYSCALL_MAX ? t->id : SPOOR_SYSCALL_MAX];
	if (!cfg->mode || t->id >= SPOOR_SYSCALL_MAX)
		return false;
	take_registers(t, regs);
	t->call_epoch = epoch;
	t->len = take_args(t, cfg, c, sc, task, 1);
	if (cfg->n_paths | cfg->sockaddr | cfg->buf)
		take_nothing_pointed(t, cfg);
	t->stack = cfg->mode > 1 ? emit_remote(task, t, regs, cfg->mode - 1) : 0;
	t->start = last_ran(task, bpf_ktime_get_ns());
	t->pending = CALL_BEGAN_BEFORE;
	return true;
}

/*
 * Takes in task as *t describes it, with the call in which it sleeps. That is given to the storage as it is made: from
 * then on its thread alone writes there. If it has run meanwhile, the call may have ended unseen, and is taken back.
 */
static __always_inline struct thread *take_in_sleeping(struct task_struct *task, struct thread *t, struct cpu *c)
{
	unsigned long switches = task->nvcsw;
	bool sleeps = !t->wait_exec && describe_sleeping(task, t, c);
	struct thread *in = take_in(task, t);

	if (sleeps && (task->nvcsw != switches || !(task->__state & 0xff))) {
		if (in)
			__sync_val_compare_and_swap(&in->start, t->start, 0);
		t->start = 0;
	}
	return in;
}

/*
 * Processes with the same code mapped at the same places, as a server's workers have, share an image. Their storage is
 * there already: what they map from here on is noted; where that was in between, the number stays their own.
 */
static __always_inline void find_image(struct task_struct *task, struct thread *t, struct scratch *sc)
{
	struct bpf_iter_task_vma it;
	struct vm_area_struct *vma;
	u64 hash = 0;
	u32 image, *known;

	if (!bpf_iter_task_vma_new || task->pid != task->tgid || t->image)
		return;
	image = __sync_fetch_and_add(&next_image, 1);
	t->image = image;
	t->image_shared = 1;
	bpf_iter_task_vma_new(&it, task, 0);
	while ((vma = bpf_iter_task_vma_next(&it)))
		if (vma->vm_flags & VM_EXEC)
			hash = mix(mix(mix(mix(hash, vma->vm_start), vma->vm_end), vma->vm_pgoff),
				   address_of(sc, vma->vm_file));
	bpf_iter_task_vma_destroy(&it);
	if (!hash)
		return; /* the address space is locked by another thread */
	known = bpf_map_lookup_elem(&images, &hash);
	if (known)
		__sync_val_compare_and_swap(&t->image, image, *known);
	else
		bpf_map_update_elem(&images, &hash, &image, BPF_NOEXIST);
}

SEC("iter/task")
int attach_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread *t, *s;
	struct cpu *c = this_cpu();
	u32 tgid, *pick;

	if (!task || !c || (task->flags & (PF_KTHREAD | PF_EXITING)))
		return 0;
	tgid = task->tgid;
	pick = bpf_map_lookup_elem(&picks, &tgid);
	if (is_ours(task) && !(pick && *pick & SPOOR_PICK_WAIT_EXEC)) /* the command is our child, too */
		return 0;
	if (!pick && !match_all && !(match_cgroup && in_cgroup(task->cgroups->dfl_cgrp)))
		return 0;
	s = &c->spare;
	__builtin_memset(s, 0, offsetof(struct thread, data));
	t = bpf_task_storage_get(&threads, task, 0, 0);
	if (t) {
		if (!t->moved || t->start)
			return 0;
		s->follow = t->follow;
		s->def_epoch = t->def_epoch;
		bpf_task_storage_delete(&threads, task); /* it is made anew, with the call */
		__sync_fetch_and_add(&live_threads, -1);
		if (take_in_sleeping(task, s, c) && s->start)
			emit_pending_at(task, s, SPOOR_PENDING_BEFORE, false, 1);
		return 0;
	}
	s->follow = pick ? !!(*pick & SPOOR_PICK_FOLLOW) : 1;
	s->named = pick ? !!(*pick & SPOOR_PICK_NAMED) : 0;
	s->wait_exec = pick ? !!(*pick & SPOOR_PICK_WAIT_EXEC) : 0;
	t = take_in_sleeping(task, s, c);
	if (!t)
		return 0;
	if (task->flags & PF_EXITING) /* its exit may have passed unseen just now */
		count_end(t);
	__sync_fetch_and_add(&attached_threads, 1);
	if (t->wait_exec)
		return 0;
	find_image(task, t, &c->scratch[1]);
	emit_thread_at(task, t, SPOOR_THREAD_ATTACH, 1);
	s->def_epoch = t->def_epoch;
	if (s->start)
		emit_pending_at(task, s, SPOOR_PENDING_BEFORE, false, 1);
	return 0;
}

SEC("iter/task")
int end_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread *t;
	bool before;

	if (!task)
		return 0;
	t = bpf_task_storage_get(&threads, task, 0, 0);
	if (!t)
		return 0;
	before = t->pending == CALL_BEGAN_BEFORE;
	return emit_pending_at(task, t, before ? SPOOR_PENDING_BEFORE : SPOOR_PENDING_END, !before, 1);
}
