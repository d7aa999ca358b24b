/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * What is already there: a task iterator takes in the processes that were picked. Level 1's rings: an iterator can be
 * preempted by what writes to level 0.
 */
#include "collect/kernel/processes.bpf.h"

/*
 * Takes in task as *s describes it, with the call in which it sleeps. That is given to the storage as it is made: from
 * then on its thread alone writes there. If it has run meanwhile, the call may have ended unseen, and is taken back.
 */
static __always_inline struct thread *take_in_sleeping(struct task_struct *task, struct thread *s, struct cpu *c)
{
	unsigned long switches = task->nvcsw;
	struct thread *in;

	s->joined = JOINED_SEEN;
	on_describe(task, s, c);
	in = take_in(task, s);
	if (in && task->flags & PF_EXITING) /* its exit may have passed unseen just now */
		count_end(in);
	if (s->start && (task->nvcsw != switches || !sleeps(task))) {
		if (in)
			__sync_val_compare_and_swap(&in->start, s->start, 0);
		s->start = 0;
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
	struct image_key key = {};
	u32 image;

	if (!bpf_iter_task_vma_new || task->pid != task->tgid || t->image)
		return;
	image = __sync_fetch_and_add(&next_image_for_now, 1);
	t->image = image;
	t->image_shared = IMAGE_CAME;
	bpf_iter_task_vma_new(&it, task, 0);
	while ((vma = bpf_iter_task_vma_next(&it)))
		if (vma->vm_flags & VM_EXEC)
			key.start = mix(mix(mix(mix(key.start, vma->vm_start), vma->vm_end), vma->vm_pgoff),
					address_of(sc, vma->vm_file));
	bpf_iter_task_vma_destroy(&it);
	if (key.start) /* else the address space is locked by another thread */
		__sync_val_compare_and_swap(&t->image, image, image_by(&key, true));
}

/* In the midst of what it was taken in for it may have gone: by execve, or into another cgroup. */
static __always_inline bool still_in(struct task_struct *task, u32 tgid)
{
	return match_all || bpf_map_lookup_elem(&picks, &tgid) || (match_cgroup && in_cgroup(task));
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
	tgid = tgid_for_spoor(task);
	pick = bpf_map_lookup_elem(&picks, &tgid);
	if (is_ours(task) && !(pick && *pick & SPOOR_PICK_WAIT_EXEC)) /* the command is our child, too */
		return 0;
	if (!pick && !match_all && !(match_cgroup && in_cgroup(task)))
		return 0;
	if (bpf_task_storage_get(&threads, task, 0, 0))
		return 0;
	if (!ring_takes_more(1)) {
		crowded++;
		retake = 1;
		return 0;
	}
	s = &c->spare;
	__builtin_memset(s, 0, SPOOR_THREAD_HEAD);
	be_in_by(s, pick);
	s->wait_exec = pick ? !!(*pick & SPOOR_PICK_WAIT_EXEC) : 0;
	t = take_in_sleeping(task, s, c);
	if (t && !still_in(task, tgid)) {
		leave(task, t);
		return 0;
	}
	if (t) {
		__sync_fetch_and_add(&attached_threads, 1);
		if (!t->wait_exec)
			find_image(task, t, &c->scratch[1]);
	}
	on_attach(task, t, s);
	return 0;
}
