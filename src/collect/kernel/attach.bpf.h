/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * What is already there: a task iterator takes in the processes that were picked. Level 1's rings: an iterator can be
 * preempted by what writes to level 0.
 */
#include "collect/kernel/processes.bpf.h"

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
			on_attach_moved(task, t, c);
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
	on_attach(task, t, c);
	return 0;
}
