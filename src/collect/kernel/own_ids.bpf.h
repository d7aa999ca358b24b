/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* Ids of processes as Spoor itself sees them: in a container they are others than the host's, which events have. */
#include "collect/kernel/maps.bpf.h"

/* Run by user space: who it is, and in which pid namespace. */
SEC("raw_tp")
int find_self(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pid *pid = task->thread_pid;
	struct upid in = {};

	self_tgid = task->tgid;
	own_level = BPF_CORE_READ(pid, level);
	bpf_probe_read_kernel(&in, sizeof(in), &pid->numbers[own_level & 31]);
	own_ns = (u64)in.ns;
	return 0;
}

/* The id under which user space finds a thread; 0: it is not to be seen from there. */
static __always_inline u32 id_for_spoor(struct pid *pid, u32 id)
{
	struct upid in = {};

	if (!own_level)
		return id;
	if (BPF_CORE_READ(pid, level) < own_level)
		return 0;
	bpf_probe_read_kernel(&in, sizeof(in), &pid->numbers[own_level & 31]);
	return (u64)in.ns == own_ns ? in.nr : 0;
}

static __always_inline u32 tgid_for_spoor(struct task_struct *task)
{
	return id_for_spoor(task->group_leader->thread_pid, task->tgid);
}

static __always_inline u32 tid_for_spoor(struct task_struct *task)
{
	return id_for_spoor(task->thread_pid, task->pid);
}
