// SPDX-License-Identifier: GPL-2.0-only
/*
 * Floor 1, the bystander: what a thread pays that nobody watches. A system call enters and leaves through two
 * programs which look for the thread in task storage and do nothing more.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct state {
	__u64 calls;
};

#include "floor.bpf.h"

static __always_inline int look(void)
{
	struct state *state = state_of(bpf_get_current_task_btf());

	if (state)
		state->calls++;
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(enter, struct pt_regs *regs, long nr)
{
	return look();
}

SEC("tp_btf/sys_exit")
int BPF_PROG(leave, struct pt_regs *regs, long ret)
{
	return look();
}

char LICENSE[] SEC("license") = "GPL";
