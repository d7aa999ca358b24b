/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the three floor programs share: who is in, decided as Spoor decides it (task storage; absence means out), so
 * that a difference between a floor and Spoor is never a difference in finding the target.
 *
 * Each program defines `struct state`, what it keeps for a thread, before it includes this file.
 */
#ifndef FLOOR_BPF_H
#define FLOOR_BPF_H

/* The few kernel fields that are needed; CO-RE finds their offsets. */
struct task_struct {
	int pid;
	int tgid;
	struct task_struct *real_parent;
} __attribute__((preserve_access_index));

struct bpf_iter_meta;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct state);
} states SEC(".maps");

/* The process to watch with its children; 0: nobody, every thread is a bystander. */
const volatile int target_tgid = 0;

/* Read by floor.c when everything is over. */
__u64 events = 0;
__u64 lost = 0;

static __always_inline struct state *state_of(struct task_struct *task)
{
	return bpf_task_storage_get(&states, task, NULL, 0);
}

/* Threads that already run when the program is attached. */
SEC("iter/task")
int seed(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (!task || !target_tgid)
		return 0;
	if (task->tgid != target_tgid && task->real_parent->tgid != target_tgid)
		return 0;
	bpf_task_storage_get(&states, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

/* And those that they start. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(follow, struct task_struct *parent, struct task_struct *child)
{
	if (state_of(parent))
		bpf_task_storage_get(&states, child, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

#endif
