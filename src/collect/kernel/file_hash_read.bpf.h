/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * As file_hash.bpf.h where kernel memory is read by the helper alone: before Linux 6.2. It is verified by itself, once,
 * so it also finds the file.
 */
#include "collect/kernel/file_hash.bpf.h"

/* Passes one name on the way up, or one mount. Returns 1 at the end. */
static long hash_step_read(u32 i, void *ctx)
{
	struct path_at *p = ctx;
	struct mount *m = (void *)p->mnt;
	struct dentry *d = (void *)p->dentry;
	u64 up;

	p->hash = mix(p->hash, p->dentry ^ (u64)BPF_CORE_READ(d, d_name.hash) << 32);
	if (p->dentry == p->root) {
		up = (u64)BPF_CORE_READ(m, mnt_parent);
		if (up == p->mnt)
			return 1;
		p->dentry = (u64)BPF_CORE_READ(m, mnt_mountpoint);
		p->mnt = up;
		m = (void *)up;
		p->root = (u64)BPF_CORE_READ(m, mnt.mnt_root);
	} else {
		up = (u64)BPF_CORE_READ(d, d_parent);
		if (up == p->dentry)
			return 1;
		p->dentry = up;
	}
	return 0;
}

/* path_hash() of the file at ref->path. */
static __noinline u64 path_hash_read(struct task_struct *task, struct file_ref *ref)
{
	struct path_at p = {};
	struct inode *inode;
	struct vfsmount *vfs;
	struct dentry *d;
	struct path *at;
	u64 words[2] = {};

	if (!task || !ref)
		return 0;
	at = (void *)ref->path;
	inode = (void *)ref->inode;
	d = BPF_CORE_READ(at, dentry);
	vfs = BPF_CORE_READ(at, mnt);
	p.dentry = (u64)d;
	p.mnt = (u64)vfs - bpf_core_field_offset(struct mount, mnt);
	p.root = (u64)BPF_CORE_READ(vfs, mnt_root);
	p.hash = mix(mix((u64)BPF_CORE_READ(task, fs, root.mnt), (u64)BPF_CORE_READ(task, fs, root.dentry)),
		     (u64)vfs);
	p.hash = mix(p.hash, BPF_CORE_READ(inode, i_ino));
	bpf_loop(PATH_COMPONENTS, hash_step_read, &p, 0);
	if (p.dentry != (u64)d)
		return p.hash;
	bpf_probe_read_kernel(words, sizeof(words), BPF_CORE_READ(d, d_name.name));
	return mix(mix(p.hash, words[0]), words[1]);
}

/* socket_hash() */
static __noinline u64 socket_hash_read(struct file_ref *ref)
{
	struct inode *inode;
	struct in6_addr six;
	struct sock *s;
	u64 hash;
	u16 family;

	if (!ref)
		return 0;
	s = (void *)ref->sk;
	inode = (void *)ref->inode;
	family = BPF_CORE_READ(s, __sk_common.skc_family);
	hash = mix(~0ULL - (BPF_CORE_READ(s, __sk_common.skc_state) == TCP_LISTEN), BPF_CORE_READ(inode, i_ino));
	if (family == AF_UNIX) {
		struct unix_sock *u = (void *)s;

		return mix(mix(hash, (u64)BPF_CORE_READ(u, addr)), (u64)BPF_CORE_READ(u, peer));
	}
	hash = mix(hash, (u64)BPF_CORE_READ(s, __sk_common.skc_daddr) << 32 |
				 BPF_CORE_READ(s, __sk_common.skc_rcv_saddr));
	hash = mix(hash, (u64)BPF_CORE_READ(s, __sk_common.skc_dport) << 16 |
				 BPF_CORE_READ((struct inet_sock *)s, inet_sport));
	if (family == AF_INET6) {
		BPF_CORE_READ_INTO(&six, s, __sk_common.skc_v6_daddr);
		hash = mix(mix(hash, *(u64 *)six.in6_u.u6_addr8), *(u64 *)(six.in6_u.u6_addr8 + 8));
	}
	return hash;
}

/* Finds descriptor fd of task. Returns its hash; ref->path is 0 if it is not open. */
static __noinline u64 fd_hash_read(struct task_struct *task, s32 fd, struct file_ref *ref)
{
	struct fdtable *fdt;
	struct socket *sock;
	struct inode *inode;
	struct file *f = NULL;

	if (!task || !ref)
		return 0;
	fdt = BPF_CORE_READ(task, files, fdt);
	if ((u32)fd >= BPF_CORE_READ(fdt, max_fds))
		return 0;
	bpf_probe_read_kernel(&f, sizeof(f), (char *)BPF_CORE_READ(fdt, fd) + (u64)fd * sizeof(f));
	if (!f)
		return 0;
	inode = BPF_CORE_READ(f, f_inode);
	ref->path = (u64)f + bpf_core_field_offset(f->f_path);
	ref->inode = (u64)inode;
	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFSOCK) {
		sock = BPF_CORE_READ(f, private_data);
		ref->sk = (u64)BPF_CORE_READ(sock, sk);
	}
	return ref->sk ? socket_hash_read(ref) : path_hash_read(task, ref);
}

/* The same of its working directory. */
static __noinline u64 cwd_hash_read(struct task_struct *task, struct file_ref *ref)
{
	struct fs_struct *fs;

	if (!task || !ref)
		return 0;
	fs = BPF_CORE_READ(task, fs);
	if (!fs)
		return 0;
	ref->path = (u64)fs + bpf_core_field_offset(fs->pwd);
	ref->inode = (u64)BPF_CORE_READ(fs, pwd.dentry, d_inode);
	return path_hash_read(task, ref);
}
