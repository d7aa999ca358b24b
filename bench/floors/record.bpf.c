// SPDX-License-Identifier: GPL-2.0-only
/*
 * Floor 3, recording: one record of 64 bytes a system call in a BPF ring buffer, no wakeup, no stack, nothing decoded.
 * What floor.c does with the records is the least that keeps the ring from filling: it forgets them.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct record {
	__u64 start_ns;
	__u64 duration_ns;
	__u64 ret;
	__u64 args[3];
	__u32 nr;
	__u32 pid;
	__u32 tid;
	__u32 cpu;
};

_Static_assert(sizeof(struct record) == 64, "the record this floor is named for has 64 bytes");

struct state {
	__u64 start_ns;
	__u64 nr;
	__u64 args[3];
};

#include "floor.bpf.h"

/* The first three arguments of a system call on x86-64. */
struct pt_regs {
	unsigned long dx;
	unsigned long si;
	unsigned long di;
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 << 20);
} records SEC(".maps");

SEC("tp_btf/sys_enter")
int BPF_PROG(enter, struct pt_regs *regs, long nr)
{
	struct state *state = state_of(bpf_get_current_task_btf());

	if (!state)
		return 0;
	state->nr = nr;
	state->args[0] = regs->di;
	state->args[1] = regs->si;
	state->args[2] = regs->dx;
	state->start_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(leave, struct pt_regs *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct state *state = state_of(task);
	struct record *record;

	if (!state || !state->start_ns)
		return 0;
	record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	record->start_ns = state->start_ns;
	record->duration_ns = bpf_ktime_get_ns() - state->start_ns;
	record->ret = ret;
	record->args[0] = state->args[0];
	record->args[1] = state->args[1];
	record->args[2] = state->args[2];
	record->nr = state->nr;
	record->pid = task->tgid;
	record->tid = task->pid;
	record->cpu = bpf_get_smp_processor_id();
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
