/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * What makes an open file another one for who reads the trace: a hash of all that its name, or a socket's addresses,
 * follow from. It is taken for each call with a descriptor, so kernel memory is read in place.
 */
#include "collect/kernel/intern.bpf.h"
#include "collect/kernel/paths.bpf.h"
#include "collect/kernel/user.bpf.h"

/* An open file, and the ring in which its definition goes. */
struct file_ref {
	u64 path, inode, sk; /* struct path *, struct inode *, struct sock * or 0 */
	u32 level;
};

/* Where a walk to / has come to. */
struct path_at {
	u64 dentry, mnt, root; /* struct mount *, and the dentry that is its root */
	u64 hash;              /* of the names above `dentry` that were passed */
};

/* Passes one name on the way up, or one mount. Returns 1 at the end. */
static long hash_step(u32 i, void *ctx)
{
	struct path_at *p = ctx;
	u64 up;

	if (p->dentry == p->root) {
		up = kernel_word(p->mnt + bpf_core_field_offset(struct mount, mnt_parent));
		if (up == p->mnt)
			return 1;
		p->dentry = kernel_word(p->mnt + bpf_core_field_offset(struct mount, mnt_mountpoint));
		p->mnt = up;
		p->root = kernel_word(up + bpf_core_field_offset(struct mount, mnt.mnt_root));
	} else {
		up = kernel_word(p->dentry + bpf_core_field_offset(struct dentry, d_parent));
		if (up == p->dentry)
			return 1;
		p->dentry = up;
	}
	p->hash = mix(p->hash, p->dentry ^ (u64)as_kernel(struct dentry, p->dentry)->d_name.hash << 32);
	return 0;
}

/* Of what lies above `dentry`. */
__noinline u64 hash_above(u64 dentry, u64 mnt, u64 root, u64 hash)
{
	struct path_at p = { dentry, mnt, root, hash };

	if (!bpf_rdonly_cast) /* it is verified also where nobody calls it */
		return hash;
	bpf_loop(PATH_COMPONENTS, hash_step, &p, 0);
	return p.hash;
}

#define PATH_LEVELS 24 /* names above a file, in its own mount, that need no calls */
#define MOUNT_LEVELS 8 /* names above that mount */

/* Passes names up to the root of the file system; mounts on the way are not seen. Returns the last. */
static __always_inline u64 pass_names(u64 at, u64 *hash, int levels)
{
	u64 up;
	int i;

	for (i = 0; i < levels; i++) {
		struct dentry *d = as_kernel(struct dentry, at);

		*hash = mix(*hash, at ^ (u64)d->d_name.hash << 32);
		up = kernel_word(at + bpf_core_field_offset(struct dentry, d_parent));
		if (up == at)
			break;
		at = up;
	}
	return at;
}

/*
 * What a file is called follows from its dentry and those above it up to /, also beyond where file systems are mounted,
 * and from the root directory of who asks: each may be renamed or moved, or reused for another one. Files without a
 * place in a tree share an inode and have names of their kind.
 */
static __always_inline u64 path_hash(struct scratch *sc, struct fs_struct *fs, u64 dentry, u64 vfsmount, u64 ino)
{
	u64 hash = mix(mix(mix(address_of(sc, fs->root.mnt), address_of(sc, fs->root.dentry)), vfsmount), ino);
	u64 root = kernel_word(vfsmount + bpf_core_field_offset(struct vfsmount, mnt_root));
	u64 mnt = vfsmount - bpf_core_field_offset(struct mount, mnt), at, up, name;

	at = pass_names(dentry, &hash, PATH_LEVELS);
	if (at == root) {
		up = kernel_word(mnt + bpf_core_field_offset(struct mount, mnt_parent));
		if (up == mnt)
			return hash;
		dentry = kernel_word(mnt + bpf_core_field_offset(struct mount, mnt_mountpoint));
		mnt = up;
		root = kernel_word(mnt + bpf_core_field_offset(struct mount, mnt.mnt_root));
		at = pass_names(dentry, &hash, MOUNT_LEVELS);
		if (at == root && kernel_word(mnt + bpf_core_field_offset(struct mount, mnt_parent)) == mnt)
			return hash;
		return hash_above(dentry, mnt, root, hash);
	}
	if (at != dentry)
		return hash_above(dentry, mnt, root, hash);
	name = kernel_word(dentry + bpf_core_field_offset(struct dentry, d_name.name));
	return mix(mix(hash, kernel_word(name)), kernel_word(name + 8));
}

#define TCP_LISTEN 10 /* of every family */

/* Both ends' addresses are part of a socket's identity: connect(), bind() and listen() make it another one. */
static __always_inline u64 socket_hash(struct scratch *sc, struct sock *s, u64 ino)
{
	u16 family = s->__sk_common.skc_family;
	u64 hash = mix(~0ULL - (s->__sk_common.skc_state == TCP_LISTEN), ino);

	if (family == AF_UNIX) {
		struct unix_sock *u = as_kernel(struct unix_sock, s);

		return mix(mix(hash, address_of(sc, u->addr)), address_of(sc, u->peer));
	}
	hash = mix(hash, (u64)s->__sk_common.skc_daddr << 32 | s->__sk_common.skc_rcv_saddr);
	hash = mix(hash, (u64)s->__sk_common.skc_dport << 16 | as_kernel(struct inet_sock, s)->inet_sport);
	if (family == AF_INET6) {
		struct in6_addr *a = &s->__sk_common.skc_v6_daddr;

		hash = mix(mix(hash, *(u64 *)a->in6_u.u6_addr8), *(u64 *)(a->in6_u.u6_addr8 + 8));
	}
	return hash;
}
