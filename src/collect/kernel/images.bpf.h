/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * Images: numbers under which it is cached what lies at an address of a process (rows.bpf.h) and what walks found
 * (memo.bpf.h). Processes that have the same image agree: at each address they have the same code, or one of them has
 * none. Who forks shares his; new code makes another image of it, and the same code at the same place the same one: a
 * server's workers load the same modules, each for itself. What code is unmapped has its rows forgotten by another
 * image as well, the same for all: they agree with less as they did with more.
 */
#include "collect/kernel/threads.bpf.h"

/* A number that no process has yet. Its place for notes is that of 512 numbers before no longer. */
static __always_inline u32 fresh_image(void)
{
	u32 image = __sync_fetch_and_add(&next_image, 1), key = image & (CODE_SLOTS - 1);
	struct code_ranges *code = bpf_map_lookup_elem(&code_ranges, &key);

	if (code)
		code->head = (u64)image << 32;
	return image;
}

/* From here on, a change of this mapping makes the image stale. Where a later one has its place, any change does. */
__noinline int code_note(u32 image, u64 start, u64 end)
{
	u32 key = image & (CODE_SLOTS - 1), n, i;
	struct code_ranges *code = bpf_map_lookup_elem(&code_ranges, &key);

	if (!code || code->head >> 32 != image)
		return 0;
	n = code->head;
	if (n > CODE_RANGES)
		return 0;
	for (i = 0; i < CODE_RANGES; i++) {
		if (i >= n)
			break;
		/* One branch: the verifier would follow both of two, from each round. */
		if (!((code->ranges[i].start ^ start) | (code->ranges[i].end ^ end)))
			return 0;
	}
	i = __sync_fetch_and_add(&code->head, 1);
	if (i < CODE_RANGES) {
		code->ranges[i].start = start;
		code->ranges[i].end = end;
	}
	return 0;
}

/* May rows of [addr, addr+len) be cached for this image? */
__noinline int code_cached(u32 image, u64 addr, u64 len)
{
	u32 key = image & (CODE_SLOTS - 1), n, i;
	struct code_ranges *code = bpf_map_lookup_elem(&code_ranges, &key);

	if (!code || code->head >> 32 != image)
		return 1;
	n = code->head;
	if (n > CODE_RANGES)
		return 1;
	for (i = 0; i < CODE_RANGES; i++) {
		if (i >= n)
			return 0;
		if (addr < code->ranges[i].end && addr + len > code->ranges[i].start)
			return 1;
	}
	return 0;
}

/* The image of an address space that other processes run in, too: any of them may have changed it. */
static __noinline int follow_shared_image(struct task_struct *task, struct thread *leader)
{
	u64 mm = (u64)BPF_CORE_READ(task, mm);
	u32 *known = bpf_map_lookup_elem(&shared_images, &mm);

	if (!leader || (known && *known == leader->image))
		return 0;
	leader->layout = 0;
	leader->image = known ? *known : fresh_image();
	if (!known)
		bpf_map_update_elem(&shared_images, &mm, &leader->image, BPF_ANY);
	return 0;
}

static __always_inline u32 image_of(struct task_struct *task, struct thread *t)
{
	struct thread *l = leader_of(task, t);

	if (l->vm_shared)
		follow_shared_image(task, l);
	else if (!l->image)
		l->image = fresh_image();
	return l->image;
}

/* The same for a process that comes to have it too. */
static __always_inline u32 share_image(struct task_struct *task, struct thread *t)
{
	leader_of(task, t)->image_shared = 1;
	return image_of(task, t);
}

/* Nothing that was cached of the process holds from here on. */
static __always_inline void new_image(struct task_struct *task, struct thread *leader)
{
	u64 mm;

	leader->image = fresh_image();
	leader->image_shared = 0;
	leader->layout = 0;
	if (leader->vm_shared) {
		mm = (u64)BPF_CORE_READ(task, mm);
		bpf_map_update_elem(&shared_images, &mm, &leader->image, BPF_ANY);
	}
}

/* The image that is made so: of those who ask, the first one makes it. */
__noinline u32 image_by(struct image_key *key)
{
	u32 *known, image;

	if (!key)
		return 0;
	known = bpf_map_lookup_elem(&images, key);
	if (known)
		return *known;
	image = fresh_image();
	if (bpf_map_update_elem(&images, key, &image, BPF_NOEXIST))
		known = bpf_map_lookup_elem(&images, key); /* another CPU was first */
	return known ? *known : image;
}

/* This mapping of the object has come, or, with SPOOR_OBJECT_NONE, code has gone and none has come. */
static __always_inline void next_image_of(struct task_struct *task, struct thread *leader, u32 object,
					  const struct vma_answer *a)
{
	struct image_key key = { .from = leader->image, .object = object };

	if (!leader->image_shared || leader->vm_shared || !key.from) {
		new_image(task, leader);
		return;
	}
	if (object != SPOOR_OBJECT_NONE) {
		key.start = a->start;
		key.end = a->end;
		key.offset = a->offset;
	}
	leader->layout = 0;
	if (__sync_val_compare_and_swap(&leader->image, key.from, image_by(&key)) != key.from)
		new_image(task, leader); /* another thread has changed something, too */
}

/* parent bore a process that runs in the same address space. What one of them maps, the other has mapped. */
static __noinline int share_vm(struct task_struct *parent, struct thread *p)
{
	struct thread *l;
	u64 mm;

	if (!parent || !p)
		return 0;
	l = leader_of(parent, p);
	if (!l->vm_shared) {
		mm = (u64)BPF_CORE_READ(parent, mm);
		bpf_map_update_elem(&shared_images, &mm, &l->image, BPF_ANY);
		l->vm_shared = 1;
	}
	return 0;
}

/* A process that ran in its parent's address space, as vfork's do, has its own now. */
static __noinline int unshare_vm(struct task_struct *task)
{
	struct task_struct *parent = task->real_parent->group_leader;
	struct thread *p = bpf_task_storage_get(&threads, parent, 0, 0);

	if (p && p->vm_shared && BPF_CORE_READ(parent, mm, mm_users.counter) == parent->signal->nr_threads) {
		follow_shared_image(parent, p);
		p->vm_shared = 0;
	}
	return 0;
}
