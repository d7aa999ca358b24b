/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * Images: numbers under which it is cached what lies at an address of a process (rows.bpf.h) and what walks found
 * (memo.bpf.h). Processes that have the same image agree: at each address they have the same code, or one of them has
 * none. A forked one has its parent's image. New code makes another image of it, the same one for the same code at the
 * same place: a server's workers load the same modules, each for itself. So does code that goes, the same one for any:
 * they agree in less as they did in more. (But who replaces code at an address while another of his threads forks may
 * have the child come to an image with what it has not mapped.)
 */
#include "collect/kernel/threads.bpf.h"

/* A number that no process has yet. It takes the place for notes of the one 512 numbers before. */
static __always_inline u32 fresh_image(void)
{
	u32 image = __sync_fetch_and_add(&next_image, 1), key = image & (CODE_SLOTS - 1);
	struct code_ranges *code = bpf_map_lookup_elem(&code_ranges, &key);

	if (code)
		code->head = (u64)image << 32;
	return image;
}

/* The notes of an image; NULL where a later one has its place. */
static __always_inline struct code_ranges *notes_of(u32 image)
{
	u32 key = image & (CODE_SLOTS - 1);
	struct code_ranges *code = bpf_map_lookup_elem(&code_ranges, &key);

	return code && code->head >> 32 == image ? code : NULL;
}

/* From here on, a change of this mapping makes the image stale. Where it has no notes, any change does. */
__noinline int code_note(u32 image, u64 start, u64 end)
{
	struct code_ranges *code = notes_of(image);
	u32 n, i;

	if (!code)
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
	struct code_ranges *code = notes_of(image);
	u32 n, i;

	if (!code)
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
	struct thread *l = leader_of(task, t);

	if (l->image_shared == IMAGE_OWN)
		l->image_shared = IMAGE_GIVEN;
	return image_of(task, t);
}

/* Nothing that was cached of the process holds from here on. */
static __always_inline void new_image(struct task_struct *task, struct thread *leader)
{
	u64 mm;

	*(volatile u8 *)&leader->image_shared = IMAGE_OWN; /* first: who forks now gives one of the two away */
	*(volatile u32 *)&leader->image = fresh_image();
	leader->layout = 0;
	if (leader->vm_shared) {
		mm = (u64)BPF_CORE_READ(task, mm);
		bpf_map_update_elem(&shared_images, &mm, &leader->image, BPF_ANY);
	}
}

/*
 * The image that is made so: of those who ask, the first one makes it, if he may; else 0. It is made again once it has
 * lost its place for notes: else each call that changes a mapping would make another one of it. (Static: to Linux 6.1 a
 * map's key has to lie on the stack, which a pointer given to a global function does not say.)
 */
static __noinline u32 image_by(struct image_key *key, bool may_make)
{
	u32 *known, image;

	if (!key)
		return 0;
	known = bpf_map_lookup_elem(&images, key);
	if (known) {
		image = *known;
		if (notes_of(image))
			return image;
	}
	if (!may_make)
		return 0;
	image = fresh_image();
	bpf_map_update_elem(&images, key, &image, BPF_ANY);
	return image;
}

#define IMAGES_MADE 16 /* by a process of shared ones: whose code goes on coming has no others that do the same */

/* This mapping of the object has come, or, with SPOOR_OBJECT_NONE, code may have gone and none has come. */
static __always_inline void next_image_of(struct task_struct *task, struct thread *leader, u32 object,
					  const struct vma_answer *a)
{
	struct image_key key = { .from = leader->image, .object = object };
	u32 image = 0, last = next_image;

	if (object != SPOOR_OBJECT_NONE) {
		key.start = a->start;
		key.end = a->end;
		key.offset = a->offset;
	}
	if (leader->image_shared == IMAGE_CAME && !leader->vm_shared && key.from)
		image = image_by(&key, leader->images_made < IMAGES_MADE);
	/* If not, another thread has changed something, too. */
	if (!image || __sync_val_compare_and_swap(&leader->image, key.from, image) != key.from) {
		new_image(task, leader);
		return;
	}
	leader->images_made += image >= last;
	leader->layout = 0;
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

/* A process that ran in its parent's address space, as vfork's do, has its own now, or ends: it may still hold it. */
static __noinline int unshare_vm(struct task_struct *task)
{
	struct task_struct *parent = task->real_parent->group_leader;
	struct thread *p = bpf_task_storage_get(&threads, parent, 0, 0);
	struct mm_struct *mm = BPF_CORE_READ(parent, mm);
	u32 users = parent->signal->nr_threads + (BPF_CORE_READ(task, mm) == mm);

	if (p && p->vm_shared && BPF_CORE_READ(mm, mm_users.counter) == users) {
		follow_shared_image(parent, p);
		if (p->image_shared == IMAGE_OWN)
			p->image_shared = IMAGE_GIVEN; /* a child of the one that is gone may have it */
		p->vm_shared = 0;
	}
	return 0;
}
