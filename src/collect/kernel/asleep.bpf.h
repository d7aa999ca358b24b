/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * What the call of a sleeping thread points to, read from outside: its path, the address that it connects to. Where
 * user memory is not read in place (user.bpf.h), or is not there, it stays unread.
 */
#include "collect/kernel/syscalls.bpf.h"

struct far_read {
	struct thread *t;
	u64 task;       /* struct task_struct * */
	u64 addr, page; /* in the process; where the kernel has the page that was read last, 0: nowhere */
	u32 at, n;      /* where in t->data; bytes read so far */
	bool string;    /* ends with a NUL */
};

/*
 * Where the kernel has a process's page of addr mapped for itself. Not inlined: the verifier would follow all ways
 * through the tables from each way to here. And by the task's number: for each pointer that is loaded through a typed
 * one the verifier searches all of the kernel's types.
 */
__noinline u64 far_page(u64 task, u64 addr)
{
	return bpf_rdonly_cast ? translate((u64)BPF_CORE_READ((struct task_struct *)task, mm, pgd), direct_map, addr) :
				 0;
}

/* A page counts if it is still the same when it was read. */
static __always_inline bool far_page_stays(struct far_read *f, u64 addr)
{
	return f->page && far_page(f->task, addr) == f->page;
}

static long far_byte(u32 i, void *ctx)
{
	struct far_read *f = ctx;
	u64 addr = f->addr + i;
	u8 byte;

	if (!i || !(addr & 4095)) {
		f->page = !i || far_page_stays(f, addr - 1) ? far_page(f->task, addr) : 0;
		if (!f->page)
			return 1;
	}
	byte = kernel_word(f->page + (addr & 4095));
	f->t->data[(f->at + i) & (SPOOR_MAX_DATA - 1)] = byte;
	f->n = i + 1;
	return f->string && !byte;
}

/* Reads n bytes, or a string of at most that, to t->data + at. Returns how many there are; 0: it cannot be read. */
static __always_inline u32 far_take(struct far_read *f, u64 addr, u32 at, u32 n)
{
	f->addr = addr;
	f->at = at;
	f->n = 0;
	f->page = 0;
	bpf_loop(n, far_byte, f, 0);
	return f->n && far_page_stays(f, addr + f->n - 1) ? f->n : 0;
}

/* As take_path(). */
static __always_inline void far_path(struct far_read *f, u32 *off, u64 addr)
{
	u32 at = *off & (SPOOR_MAX_DATA / 2 - 1), n;

	f->string = true;
	n = addr ? far_take(f, addr, at, SPOOR_MAX_STRING) : 0;
	if (n == SPOOR_MAX_STRING && f->t->data[(at + SPOOR_MAX_STRING - 1) & (SPOOR_MAX_DATA - 1)])
		f->t->flags |= SPOOR_EVENT_TRUNCATED;
	if (addr && !n)
		f->t->flags |= SPOOR_EVENT_UNREADABLE;
	n = n ? n : 1;
	f->t->data[(at + n - 1) & (SPOOR_MAX_DATA - 1)] = 0;
	*off = at + (n & (SPOOR_MAX_DATA / 2 - 1));
}

/* As take_sockaddr(). */
static __always_inline void far_sockaddr(struct far_read *f, u32 *off, u64 addr, u64 len)
{
	u32 at = *off & (SPOOR_MAX_DATA / 2 - 1);
	u16 n = len > SOCKADDR_MOST ? SOCKADDR_MOST : len;

	f->string = false;
	if (addr && n) {
		n = far_take(f, addr, at + 2, n) == n ? n : 0;
		if (!n)
			f->t->flags |= SPOOR_EVENT_UNREADABLE;
	}
	n = addr ? n : 0;
	*(u16 *)(f->t->data + at) = n;
	*off = at + 2 + n;
}

/* As take_pointed(), but for payloads: what is not read is read when the call ends. */
static __noinline int take_pointed_asleep(struct task_struct *task, struct thread *t, struct scratch *sc,
					  const struct spoor_call_config *cfg)
{
	struct far_read f = { .task = address_of(sc, task), .t = t };
	u32 off = t->len & 127;

	if (!bpf_rdonly_cast || !direct_map) {
		take_nothing_pointed(t, cfg);
		return 0;
	}
	t->flags = gives_payload(cfg) ? SPOOR_EVENT_UNREADABLE : 0;
	t->room = SOCKADDR_MOST;
	if (cfg->n_paths) {
		far_path(&f, &off, t->args[cfg->paths & 7 ? (cfg->paths & 7) < 6 ? cfg->paths & 7 : 5 : 0]);
		if (cfg->n_paths > 1)
			far_path(&f, &off, t->args[(cfg->paths >> 4 & 7) < 6 ? cfg->paths >> 4 & 7 : 5]);
	}
	if (cfg->sockaddr) {
		u32 i = ((cfg->sockaddr & 7) - 1) & 7;

		if (i < 5)
			far_sockaddr(&f, &off, t->args[i], cfg->sockaddr & SPOOR_AT_EXIT ? 0 : t->args[i + 1]);
	}
	t->buf_at = off & (SPOOR_MAX_DATA / 2 - 1);
	t->len = off;
	return 0;
}
