/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * Calls that began when they were not to be recorded (paused, not chosen, outside of the cgroup), of threads that are
 * in and were met asleep in them when they came to be. An iterator describes them, and may not write to what the thread
 * keeps of itself: it may wake at any moment. What it finds here holds as long as it is in that turn.
 */
#include "collect/kernel/threads.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} met_calls SEC(".maps");

u64 n_met = 0; /* since user space set it to 0 */

static __always_inline struct thread *met_call(struct task_struct *task, const struct thread *t)
{
	struct thread *m = bpf_task_storage_get(&met_calls, task, 0, 0);

	return m && m->turn == t->turn ? m : NULL;
}

/* What describes the call in which task is; asked by another one, which takes nothing over. */
static __always_inline struct thread *in_flight(struct task_struct *task, struct thread *t)
{
	struct thread *m = t->start || !t->met ? NULL : met_call(task, t);

	return m ? m : t;
}

/* By the thread itself: if it is in that call still, it keeps that as if it had been seen to begin. */
static __noinline int take_over_met(struct task_struct *task, struct thread *t)
{
	struct thread *m;

	if (!task || !t)
		return 0;
	m = met_call(task, t);
	if (m) {
		bpf_probe_read_kernel(&t->call_epoch,
				      offsetof(struct thread, renamed) - offsetof(struct thread, call_epoch),
				      &m->call_epoch);
		bpf_probe_read_kernel(t->args, sizeof(t->args) + sizeof(t->data), m->args);
		barrier();
		t->start = m->start;
	}
	t->met = 0;
	bpf_task_storage_delete(&met_calls, task);
	return 0;
}
