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

/* The call in which task sleeps. It began no later than the task last ran. */
static __always_inline void note_sleeping(struct task_struct *task, struct thread *t, struct cpu *c)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	struct scratch *sc = &c->scratch[1];
	struct spoor_call_config *cfg;
	unsigned long switches = task->nvcsw;
	long nr = regs->orig_ax;
	u64 now = bpf_ktime_get_ns(), start = task->se.exec_start;
	u32 id;

	if (nr < 0 || !(task->__state & 0xff))
		return;
	id = call_id(task, nr);
	cfg = &calls[id];
	if (!cfg->mode || id >= SPOOR_SYSCALL_I386)
		return;
	t->args[0] = regs->di;
	t->args[1] = regs->si;
	t->args[2] = regs->dx;
	t->args[3] = regs->r10;
	t->args[4] = regs->r8;
	t->args[5] = regs->r9;
	t->id = id;
	t->flags = 0;
	t->call_epoch = epoch;
	t->len = take_args(t, cfg, c, sc, task, 1);
	if (cfg->n_paths | cfg->sockaddr | cfg->buf)
		take_nothing_pointed(t, cfg);
	t->stack = cfg->mode > 1 ? emit_remote(task, t, regs, cfg->mode - 1) : 0;
	t->start = start && start < now ? start : now;
	if (task->nvcsw != switches || !(task->__state & 0xff)) {
		t->start = 0; /* it woke up meanwhile: nothing of this is certain */
		return;
	}
	emit_pending_at(task, t, SPOOR_PENDING_BEFORE, false, 1);
	t->pending = CALL_BEGAN_BEFORE;
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
	struct thread *t;
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
	t = bpf_task_storage_get(&threads, task, 0, 0);
	if (t) {
		if (t->moved && !t->start)
			note_sleeping(task, t, c);
		t->moved = 0;
		return 0;
	}
	t = take_in(task);
	if (!t)
		return 0;
	if (task->flags & PF_EXITING) /* its exit may have passed unseen just now */
		count_end(t);
	__sync_fetch_and_add(&attached_threads, 1);
	t->follow = pick ? !!(*pick & SPOOR_PICK_FOLLOW) : 1;
	t->named = pick ? !!(*pick & SPOOR_PICK_NAMED) : 0;
	t->wait_exec = pick ? !!(*pick & SPOOR_PICK_WAIT_EXEC) : 0;
	if (t->wait_exec)
		return 0;
	find_image(task, t, &c->scratch[1]);
	emit_thread_at(task, t, SPOOR_THREAD_ATTACH, 1);
	note_sleeping(task, t, c);
	return 0;
}

SEC("iter/task")
int end_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread *t;

	if (!task)
		return 0;
	t = bpf_task_storage_get(&threads, task, 0, 0);
	if (t && t->start && t->pending == CALL_BEGAN_BEFORE)
		emit_pending_at(task, t, SPOOR_PENDING_BEFORE, false, 1);
	else if (t && t->start)
		emit_pending_at(task, t, SPOOR_PENDING_END, true, 1);
	return 0;
}
