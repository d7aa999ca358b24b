/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* Since when a thread that is met asleep has been so. */
#include "collect/kernel/maps.bpf.h"

/*
 * When task last ran. Its scheduler's clock goes its own way on each CPU (time that was stolen does not count), so the
 * distance to ours was measured on each just before; a little too late where it is wrong at all.
 */
static __always_inline u64 last_ran(struct task_struct *task, u64 now)
{
	u32 key = task->thread_info.cpu;
	struct cpu *c = bpf_map_lookup_elem(&cpus, &key);
	u64 ran = task->se.exec_start; /* 0: the kernel has given it another CPU since */
	u64 at = c && c->sched_offset && ran ? ran + c->sched_offset : now;

	if (at < task->start_time)
		at = task->start_time;
	return at < now ? at : now;
}

/* Run on each CPU by a thread that has just come to it: its own start of running is now. */
SEC("raw_tp")
int measure_sched_clock(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu *c = this_cpu();

	if (c && task->se.exec_start)
		c->sched_offset = bpf_ktime_get_ns() - task->se.exec_start;
	return 0;
}
