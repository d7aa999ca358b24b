/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/* The mapping at an address of the current process: asked of the kernel, or found in its tree of mappings. */
#include "collect/kernel/maps.bpf.h"

#define DEV_ZERO 0x6f72657a2f766564ULL /* "dev/zero" */

/*
 * The file of a mapping, if it can be an ELF object; else the code is anonymous, 0: a device holds none, and what is
 * mapped shared and anonymous has an inner file called dev/zero.
 */
__noinline u64 code_file(u64 file)
{
	struct file *f = (void *)file;
	struct dentry *d;
	u64 name = 0;

	if (!f || (BPF_CORE_READ(f, f_inode, i_mode) & S_IFMT) != S_IFREG)
		return 0;
	d = BPF_CORE_READ(f, f_path.dentry);
	if (BPF_CORE_READ(d, d_parent) == d)
		bpf_probe_read_kernel(&name, sizeof(name), BPF_CORE_READ(d, d_name.name));
	return name == DEV_ZERO ? 0 : file;
}

/* 0: of a program of 32 bits, whose frames no row tells of, and whose vDSO is not ours; else 1: 47 bits or more. */
static __always_inline u64 is_wide(struct mm_struct *mm)
{
	return BPF_CORE_READ(mm, task_size) >> 46 & 1;
}

static __always_inline void vma_read(struct vm_area_struct *vma, struct vma_answer *ret)
{
	ret->start = BPF_CORE_READ(vma, vm_start);
	ret->end = BPF_CORE_READ(vma, vm_end);
	ret->offset = BPF_CORE_READ(vma, vm_pgoff) << 12;
	ret->file = code_file((u64)BPF_CORE_READ(vma, vm_file));
	ret->exec = !!(BPF_CORE_READ(vma, vm_flags) & VM_EXEC);
	/* No branch: the verifier would follow both, from each way through the tree. */
	ret->vdso = (u64)BPF_CORE_READ(vma, vm_mm, context.vdso) * is_wide(BPF_CORE_READ(vma, vm_mm));
	ret->found = 1;
}

static long vma_found(struct task_struct *task, struct vm_area_struct *vma, void *ret)
{
	vma_read(vma, *(struct vma_answer **)ret);
	return 0;
}

/* ---- without the lock ---- */

#define TREE_LEVELS 8
#define TREE_ENTRY_NODE(entry) ((entry) & ~255ULL)
#define TREE_ENTRY_TYPE(entry) ((entry) >> 3 & 15)

/*
 * The slot of a node that leads to addr, from 6.1 on (lib/maple_tree.c, mtree_range_walk()):
 *
 *     +--------+----------+-----+------------+--------+-----+----------+
 *     | parent | pivot[0] | ... | pivot[n-1] | slot[0]| ... | slot[n]  |   pivot[i]: the last address beneath slot[i];
 *     +--------+----------+-----+------------+--------+-----+----------+   0: slot[i] is the last
 */
__noinline u64 tree_slot(u64 entry, u64 addr)
{
	u64 node = TREE_ENTRY_NODE(entry), slots = node, pivot, next = 0;
	bool arange = TREE_ENTRY_TYPE(entry) == maple_arange_64;
	u32 n = arange ? 9 : 15, i;

	slots += arange ? bpf_core_field_offset(struct maple_arange_64, slot) :
			  bpf_core_field_offset(struct maple_range_64, slot);
	for (i = 0; i < 15; i++) {
		if (i >= n || bpf_probe_read_kernel(&pivot, sizeof(pivot), (void *)(node + 8 + 8 * i)) ||
		    pivot >= addr || (i && !pivot))
			break;
	}
	bpf_probe_read_kernel(&next, sizeof(next), (void *)(slots + 8 * i));
	return next;
}

/*
 * A thread that maps, or forks, keeps the address space locked for as long as it takes. The tree of mappings can be
 * read all the same: RCU keeps its nodes. What is being changed may read wrong, so what is found counts only if it
 * says twice the same, and that it is of this address space and covers addr. 0, or -EBUSY.
 */
__noinline int find_mapping_unlocked(u64 addr, struct vma_answer *ret)
{
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;
	struct vma_answer again = {};
	struct vm_area_struct *vma;
	u64 entry;
	u32 level;

	if (!ret || !mm || !bpf_core_field_exists(mm->mm_mt) || !bpf_core_type_exists(struct maple_arange_64))
		return -EBUSY;
	entry = (u64)BPF_CORE_READ(mm, mm_mt.ma_root);
	if ((entry & 3) != 2)
		return -EBUSY;
	for (level = 0; level < TREE_LEVELS; level++) {
		bool leaf = TREE_ENTRY_TYPE(entry) == maple_leaf_64;

		entry = tree_slot(entry, addr);
		if (!entry || leaf)
			break;
	}
	vma = (void *)entry;
	vma_read(vma, ret);
	vma_read(vma, &again);
	if (BPF_CORE_READ(vma, vm_mm) != mm || addr < ret->start || addr >= ret->end || again.start != ret->start ||
	    again.end != ret->end || again.offset != ret->offset || again.file != ret->file || again.exec != ret->exec)
		return -EBUSY;
	return 0;
}

/* The mapping of the current process at addr. -EBUSY: its address space is being changed by another thread. */
static __always_inline int find_mapping(u64 addr, struct vma_answer *ret)
{
	struct vma_answer *to = ret; /* what is handed to vma_found() must lie on the stack */
	long r;

	ret->found = 0;
	r = bpf_find_vma(bpf_get_current_task_btf(), addr, vma_found, &to, 0);
	if (r == -EBUSY)
		return find_mapping_unlocked(addr, ret);
	return r || !ret->found ? -ENOENT : 0;
}
