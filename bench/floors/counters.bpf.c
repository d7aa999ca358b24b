// SPDX-License-Identifier: GPL-2.0-only
/*
 * Floor 2, counting: calls, errors and time of each system call of each thread, and nothing that leaves the kernel.
 * Two clock readings a call are part of it: there is no latency without them.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define MAX_NR 512

struct counter {
	__u64 calls;
	__u64 errors;
	__u64 total_ns;
};

struct state {
	__u64 start_ns;
	__u64 nr;
	__u64 calls;
	struct counter by_nr[MAX_NR];
};

#include "floor.bpf.h"

SEC("tp_btf/sys_enter")
int BPF_PROG(enter, struct pt_regs *regs, long nr)
{
	struct state *state = state_of(bpf_get_current_task_btf());

	if (!state)
		return 0;
	state->nr = nr;
	state->start_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(leave, struct pt_regs *regs, long ret)
{
	struct state *state = state_of(bpf_get_current_task_btf());
	struct counter *counter;

	if (!state || !state->start_ns)
		return 0;
	counter = &state->by_nr[state->nr & (MAX_NR - 1)];
	counter->calls++;
	counter->errors += ret < 0;
	counter->total_ns += bpf_ktime_get_ns() - state->start_ns;
	state->calls++;
	return 0;
}

/* A thread takes its counters with it, so they are added up as it goes ... */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(gone, struct task_struct *task)
{
	struct state *state = state_of(task);

	if (!state)
		return 0;
	__sync_fetch_and_add(&events, state->calls);
	/* The zombie is still in the task list: do not count it once more. */
	state->calls = 0;
	return 0;
}

/* ... and those that still run, when the end is asked for. */
SEC("iter/task")
int sum_up(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct state *state;

	if (!task)
		return 0;
	state = state_of(task);
	if (state)
		__sync_fetch_and_add(&events, state->calls);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
