/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * The few kernel types that the collectors look into. Relocated against the running kernel's BTF when they are
 * loaded (CO-RE): only names count here, not offsets, so no generated vmlinux.h is needed to build.
 */
#include <linux/types.h>
#include <stdbool.h>

#define __VMLINUX_H__

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

struct timespec64___old {
	s64 tv_sec;
	long tv_nsec;
};

struct timespec64 {
	s64 tv_sec;
};

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
};

struct proc_ns_operations {
	const char *name;
};

struct ns_common {
	const struct proc_ns_operations *ops;
	unsigned int inum;
};

struct mnt_namespace {
	struct ns_common ns;
};

struct nsproxy {
	struct mnt_namespace *mnt_ns;
};

struct inode {
	u16 i_mode;
	unsigned long i_ino;
	struct super_block *i_sb;
	s64 i_size;
	s64 i_mtime_sec, i_ctime_sec; /* since 6.11 */
	u32 i_mtime_nsec, i_ctime_nsec;
	u32 i_rdev;
	void *i_private;
};

struct inode___old { /* before 6.11 */
	struct timespec64___old i_mtime;
	struct timespec64___old __i_ctime; /* since 6.6 */
};

struct inode___older {
	struct timespec64___old i_ctime;
};

struct qstr {
	u32 hash, len;
	const unsigned char *name;
};

struct dentry_operations;

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	const struct dentry_operations *d_op;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
	void *private_data;
	unsigned int f_mode;
};

struct backing_file { /* of a layer, mapped in the stead of an overlay's file; since 6.5 */
	struct path user_path;
};

struct file_range {}; /* came when FMODE_BACKING got its present value */

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct fs_struct {
	struct path root, pwd;
};

typedef struct {
	s64 counter;
} atomic64_t;

typedef struct {
	u64 ctx_id;         /* no other address space has or had it */
	atomic64_t tlb_gen; /* times that processors had to forget its translations */
	void *vdso;
} mm_context_t;

typedef struct {
	unsigned long pgd;
} pgd_t;

typedef struct {
	int counter;
} atomic_t;

struct maple_tree {
	void *ma_root;
};

struct maple_range_64 {
	void *slot[16];
};

struct maple_arange_64 {
	void *slot[10];
};

struct mm_struct {
	struct maple_tree mm_mt; /* since 6.1 */
	pgd_t *pgd;
	atomic_t mm_users;
	unsigned long task_size; /* bytes that addresses reach */
	unsigned long start_code, end_code;
	mm_context_t context;
};

struct vm_area_struct {
	unsigned long vm_start, vm_end, vm_pgoff, vm_flags;
	struct mm_struct *vm_mm;
	struct file *vm_file;
};

struct in6_addr {
	union {
		u8 u6_addr8[16];
	} in6_u;
};

struct sock_common {
	u32 skc_daddr, skc_rcv_saddr;
	u16 skc_dport, skc_num, skc_family;
	u8 skc_state;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	u16 sk_type, sk_protocol;
};

struct inet_sock {
	struct sock sk;
	u16 inet_sport; /* stays when the socket is closed; skc_num does not */
};

struct socket {
	struct sock *sk;
};

struct sockaddr_un {
	u16 sun_family;
	char sun_path[108];
};

struct unix_address {
	int len;
	struct sockaddr_un name[];
};

struct unix_sock {
	struct sock sk;
	struct unix_address *addr;
	struct sock *peer;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
	int level;
	struct cgroup *ancestors[];
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct upid { /* as large as it is: ids are found by their level */
	int nr;
	void *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[];
};

struct signal_struct {
	atomic_t live;
	int nr_threads;
	unsigned int flags;
	struct task_struct *group_exec_task;
};

struct thread_info {
	unsigned long syscall_work;
	u32 status, cpu;
};

enum syscall_work_bit {
	SYSCALL_WORK_BIT_SECCOMP,
	SYSCALL_WORK_BIT_SYSCALL_EMU,
};

struct sched_entity {
	u64 exec_start;
};

struct sigpending {
	struct {
		unsigned long sig[1];
	} signal;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags, personality;
	struct sched_entity se;
	struct mm_struct *mm;
	int exit_code;
	int pid, tgid;
	struct task_struct *real_parent, *group_leader;
	struct pid *thread_pid;
	u64 start_time;
	char comm[16];
	unsigned long nvcsw, nivcsw;
	struct fs_struct *fs;
	struct files_struct *files;
	struct nsproxy *nsproxy;
	struct signal_struct *signal;
	struct sigpending pending;
	unsigned long sas_ss_sp, sas_ss_size;
	struct css_set *cgroups;
};

struct linux_binprm {
	const char *filename, *fdpath;
	struct file *file;
};

struct seq_file {
	unsigned long size, count; /* room, and what is used of it */
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

enum {
	S_IFMT = 0170000,
	S_IFSOCK = 0140000,
	S_IFLNK = 0120000,
	S_IFREG = 0100000,
	S_IFBLK = 0060000,
	S_IFDIR = 0040000,
	S_IFCHR = 0020000,
	S_IFIFO = 0010000,
	VM_EXEC = 4,
	FMODE_BACKING = 1 << 24,       /* since 6.14 */
	FMODE_BACKING_FIRST = 1 << 25, /* since 6.5; now another's, which memfds have, too */
	maple_leaf_64 = 1,       /* types of nodes: struct maple_range_64, too */
	maple_arange_64 = 3,
	TS_COMPAT = 2, /* thread_info.status: the current system call is an i386 one */
	PF_EXITING = 0x4,
	PF_KTHREAD = 0x200000,
	AF_UNIX = 1,
	AF_INET = 2,
	AF_INET6 = 10,
	SIGKILL = 9,
	ENOENT = 2,
	EAGAIN = 11,
	EBUSY = 16,
	ENOSYS = 38,
};

/* Map types and flags that are macros of the BPF ABI (uapi/linux/bpf.h). */
