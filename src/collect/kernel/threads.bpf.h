/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* The trace map: which threads are in, who they are, and the version of their executable layout. */
#include "collect/kernel/maps.bpf.h"

/* The event id of a system call; SPOOR_SYSCALL_MAX for numbers beyond the table (x32 ones too). */
static __always_inline u32 call_id(struct task_struct *task, long nr)
{
	u64 n = nr;

	if (n >= SPOOR_SYSCALL_I386)
		return SPOOR_SYSCALL_MAX;
	if (task->thread_info.status & TS_COMPAT)
		n += SPOOR_SYSCALL_I386;
	return n;
}

/* The image is the process's: it is kept in the group leader's storage. */
static __always_inline struct thread *leader_of(struct task_struct *task, struct thread *t)
{
	struct thread *l;

	if (task->pid == task->tgid)
		return t;
	l = bpf_task_storage_get(&threads, task->group_leader, 0, 0);
	return l ? l : t;
}

static __always_inline u32 image_of(struct task_struct *task, struct thread *t)
{
	struct thread *l = leader_of(task, t);

	if (!l->image)
		l->image = __sync_fetch_and_add(&next_image, 1);
	return l->image;
}

/* The same for a process that comes to have it too. */
static __always_inline u32 share_image(struct task_struct *task, struct thread *t)
{
	leader_of(task, t)->image_shared = 1;
	return image_of(task, t);
}

/* Nothing that was cached of the process holds from here on. */
static __always_inline void new_image(struct thread *leader)
{
	leader->image = __sync_fetch_and_add(&next_image, 1);
	leader->image_shared = 0;
	leader->layout = 0;
}

/* The number of the process's present set of executable mappings, under which user space is told of it. */
static __always_inline u32 layout_of(struct task_struct *task, struct thread *t)
{
	struct thread *l = leader_of(task, t);

	if (!l->layout)
		l->layout = __sync_fetch_and_add(&next_layout, 1);
	return l->layout;
}

/* Off the CPU by its own will; not preempted. */
static __always_inline bool sleeps(struct task_struct *task)
{
	return task->__state & 0xff;
}
