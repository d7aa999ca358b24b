// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the collectors need of the kernel, each in the smallest program that has it. `spoor check` loads and attaches
 * them one by one (src/collect/session/check.c); nothing else uses them.
 */
#include "collect/kernel/kernel_types.bpf.h"

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} storage SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} shared SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} per_cpu SEC(".maps");

SEC("tp_btf/sys_enter")
int check_sys_enter(void *ctx)
{
	return 0;
}

SEC("tp_btf/sys_exit")
int check_sys_exit(void *ctx)
{
	return 0;
}

SEC("tp_btf/sched_process_fork")
int check_fork(void *ctx)
{
	return 0;
}

SEC("tp_btf/sched_process_exec")
int check_exec(void *ctx)
{
	return 0;
}

SEC("tp_btf/sched_process_exit")
int check_exit(void *ctx)
{
	return 0;
}

SEC("tp_btf/sched_switch")
int check_switch(void *ctx)
{
	return 0;
}

SEC("tp_btf/cgroup_attach_task")
int check_cgroup(void *ctx)
{
	return 0;
}

SEC("tp_btf/sys_enter")
int check_storage(void *ctx)
{
	bpf_task_storage_get(&storage, bpf_get_current_task_btf(), NULL, 0);
	return 0;
}

SEC("tp_btf/sys_enter")
int check_buffers(void *ctx)
{
	u32 zero = 0;
	u64 *value = bpf_map_lookup_elem(&shared, &zero), *mine = bpf_map_lookup_elem(&per_cpu, &zero);

	if (value && mine && *value == 1)
		bpf_ringbuf_output(&ring, mine, sizeof(*mine), BPF_RB_NO_WAKEUP);
	return 0;
}

static long one_vma(struct task_struct *task, struct vm_area_struct *vma, void *data)
{
	return 0;
}

static long one_frame(u32 i, void *data)
{
	u64 word = 0;

	bpf_probe_read_user(&word, sizeof(word), *(void **)data);
	return 1;
}

/* A walk: bounded loop, the mapping of an address, memory of the process. */
SEC("tp_btf/sys_enter")
int BPF_PROG(check_walk, struct pt_regs *regs, long nr)
{
	void *sp = (void *)regs->sp;

	bpf_find_vma(bpf_get_current_task_btf(), (u64)sp, one_vma, &sp, 0);
	bpf_loop(2, one_frame, &sp, 0);
	return 0;
}

SEC("iter/task")
int check_iter_task(struct bpf_iter__task *ctx)
{
	return 0;
}

SEC("iter/task_vma")
int check_iter_vma(void *ctx)
{
	return 0;
}
