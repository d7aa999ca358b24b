/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A system call's event taken apart: the order of its parts is told in record.h at struct spoor_syscall. */
#include <errno.h>
#include <string.h>

#include "trace/reader_internal.h"
#include "trace/syscalls.h"

struct span {
	const uint8_t *at, *end;
};

enum {
	HAS_FD = 1 << SPOOR_ARG_FD | 1 << SPOOR_ARG_DIRFD,
	HAS_PATH = 1 << SPOOR_ARG_PATH,
	HAS_SOCKADDR = 1 << SPOOR_ARG_SOCKADDR_IN | 1 << SPOOR_ARG_SOCKADDR_OUT,
	HAS_BUF = 1 << SPOOR_ARG_BUF_IN | 1 << SPOOR_ARG_BUF_OUT,
	IS_SIGNED = 1 << SPOOR_ARG_INT | HAS_FD | 1 << SPOOR_ARG_PID
};

static int take_u32(struct span *s, uint32_t *ret)
{
	if (s->end - s->at < 4)
		return -EBADMSG;
	memcpy(ret, s->at, 4);
	s->at += 4;
	return 0;
}

static uint64_t widen(const struct spoor_syscall_arg *a, uint32_t narrow)
{
	return 1 << a->kind & IS_SIGNED ? (uint64_t)(int64_t)(int32_t)narrow : narrow;
}

static int take_value(struct span *s, const struct spoor_syscall_arg *a, uint64_t *ret)
{
	uint32_t narrow;

	if (a->width == 8) {
		if (s->end - s->at < 8)
			return -EBADMSG;
		memcpy(ret, s->at, 8);
		s->at += 8;
		return 0;
	}
	if (take_u32(s, &narrow) < 0)
		return -EBADMSG;
	*ret = widen(a, narrow);
	return 0;
}

static int take_path(struct span *s, const char **ret)
{
	const uint8_t *nul = memchr(s->at, 0, s->end - s->at);

	if (!nul)
		return -EBADMSG;
	*ret = (const char *)s->at;
	s->at = nul + 1;
	return 0;
}

static int take_bytes(struct span *s, struct spoor_call_arg *arg)
{
	uint16_t len;

	if (s->end - s->at < 2)
		return -EBADMSG;
	memcpy(&len, s->at, 2);
	s->at += 2;
	if (s->end - s->at < len)
		return -EBADMSG;
	arg->len = len;
	arg->bytes = len ? s->at : NULL;
	s->at += len;
	return 0;
}

/* What the fields leave is padding, and no more than that: other readers of CTF go by the fields alone. */
static int is_padding(const struct span *s, size_t align)
{
	return (size_t)(s->end - s->at) < align ? 0 : -EBADMSG;
}

/* There is nothing to read at NULL: such a path came from elsewhere, from an execve that brought its process in. */
static int is_entry_unseen(const struct spoor_syscall_info *info, unsigned kinds, const struct spoor_call *c)
{
	if (kinds & HAS_PATH)
		for (unsigned i = 0; i < info->n_args; i++)
			if (info->args[i].kind == SPOOR_ARG_PATH && !c->args[i].value && c->args[i].path[0])
				return 1;
	return 0;
}

/* The parts for which a pass over the arguments is needed, each only if the call has such an argument. */
static int take_groups(struct span *s, const struct spoor_syscall_info *info, unsigned kinds, struct spoor_call *c)
{
	if (kinds & HAS_FD)
		for (unsigned i = 0; i < info->n_args; i++)
			if (HAS_FD >> info->args[i].kind & 1 && take_u32(s, &c->args[i].file) < 0)
				return -EBADMSG;
	if (info->flags & SPOOR_SYSCALL_RET_FD && take_u32(s, &c->ret_file) < 0)
		return -EBADMSG;
	if (kinds & HAS_PATH)
		for (unsigned i = 0; i < info->n_args; i++)
			if (info->args[i].kind == SPOOR_ARG_PATH && take_path(s, &c->args[i].path) < 0)
				return -EBADMSG;
	c->entry_unseen = is_entry_unseen(info, kinds, c);
	if (kinds & HAS_SOCKADDR)
		for (unsigned i = 0; i < info->n_args; i++)
			if (1 << info->args[i].kind & HAS_SOCKADDR && take_bytes(s, &c->args[i]) < 0)
				return -EBADMSG;
	return 0;
}

/* The bytes of the one buffer, which come last. */
static int take_data(struct span *s, const struct spoor_syscall_info *info, size_t len, struct spoor_call *c)
{
	if ((size_t)(s->end - s->at) < len)
		return -EBADMSG;
	for (unsigned i = 0; i < info->n_args && len; i++) {
		if (!(1 << info->args[i].kind & HAS_BUF))
			continue;
		c->args[i].bytes = s->at;
		c->args[i].len = len;
		s->at += len;
		return 0;
	}
	return len ? -EBADMSG : 0;
}

#define ALL_THAT_IS_LEFT SIZE_MAX

static int returns_fd(const struct spoor_syscall_info *info, const struct spoor_call *c)
{
	if (!(info->flags & SPOOR_SYSCALL_RET_FD))
		return 0;
	return !info->ret_when || spoor_ret_is_fd(info->ret_when, (uint32_t)c->args[info->ret_when->arg].value);
}

/* A payload of data_len bytes and padding follow the arguments, or a payload alone. */
static int decode_data(struct span s, size_t data_len, struct spoor_call *c)
{
	const struct spoor_syscall_info *info = c->info;
	unsigned kinds = 0;

	c->n_args = info->n_args;
	for (unsigned i = 0; i < info->n_args; i++) {
		c->args[i] = (struct spoor_call_arg){};
		if (take_value(&s, &info->args[i], &c->args[i].value) < 0)
			return -EBADMSG;
		kinds |= 1 << info->args[i].kind;
	}
	if (take_groups(&s, info, kinds, c) < 0)
		return -EBADMSG;
	c->ret_is_fd = returns_fd(info, c);
	if (data_len == ALL_THAT_IS_LEFT)
		return take_data(&s, info, s.end - s.at, c);
	return take_data(&s, info, data_len, c) < 0 ? -EBADMSG : is_padding(&s, 4);
}

/* There are registers only, and nothing of what they point to or stand for. */
static int decode_other(const struct spoor_syscall_other *o, struct spoor_call *c)
{
	c->id = spoor_syscall_id(&o->h);
	c->info = spoor_syscall_info(c->id);
	c->pid = o->pid;
	c->stack = o->stack;
	c->dur = o->dur;
	c->start = o->h.ts - o->dur;
	c->ret = o->ret;
	c->nr = o->nr;
	c->i386 = o->i386 != 0;
	c->n_args = c->info->name ? c->info->n_args : 6;
	for (unsigned i = 0; i < c->n_args; i++) {
		const struct spoor_syscall_arg *a = &c->info->args[i];

		c->args[i] = (struct spoor_call_arg){ .value = o->args[i] };
		if (a->width == 4)
			c->args[i].value = widen(a, (uint32_t)o->args[i]);
	}
	return 0;
}

static void set_number(struct spoor_call *c, unsigned id)
{
	c->info = spoor_syscall_info(id);
	c->i386 = id >= SPOOR_SYSCALL_I386;
	c->nr = id & (SPOOR_SYSCALL_I386 - 1);
}

static int changed(const struct spoor_segment *s, unsigned id)
{
	return s && s->trace->changed[id];
}

static int decode_pending(const struct spoor_pending *p, const struct spoor_segment *s, struct spoor_call *c)
{
	if (changed(s, p->nr))
		return -EPROTO;
	set_number(c, p->nr);
	c->id = p->nr;
	c->pid = p->pid;
	c->stack = p->stack;
	c->start = p->start;
	c->dur = 0;
	c->ret = 0;
	c->pending = p->why;
	return decode_data((struct span){ p->data, p->data + p->len }, ALL_THAT_IS_LEFT, c);
}

unsigned spoor_syscall_id(const struct spoor_event_header *h)
{
	const struct spoor_syscall_other *o = (const void *)h;
	unsigned id;

	if (h->id != SPOOR_EV_SYSCALL_OTHER || o->nr >= SPOOR_SYSCALL_I386)
		return h->id;
	id = o->i386 ? SPOOR_SYSCALL_I386 + o->nr : o->nr;
	return spoor_syscall_info(id)->name ? id : h->id;
}

int64_t spoor_syscall_ret(const struct spoor_event_header *h)
{
	const struct spoor_syscall *s = (const void *)h;

	if (h->id == SPOOR_EV_SYSCALL_OTHER)
		return ((const struct spoor_syscall_other *)h)->ret;
	/* One of another table may be shorter than ours says. */
	if (spoor_syscall_fixed(h->id) == SPOOR_SYSCALL_FIXED || spoor_event_size(h) <= SPOOR_SYSCALL_FIXED)
		return s->ret;
	return s->ret_long;
}

int spoor_call_decode(const struct spoor_event *ev, struct spoor_call *ret)
{
	const struct spoor_event_header *h = ev->h;
	const struct spoor_syscall *s = (const void *)h;

	if (h->id >= SPOOR_SYSCALL_MAX && h->id != SPOOR_EV_SYSCALL_OTHER && h->id != SPOOR_EV_PENDING)
		return -EINVAL;
	ret->id = h->id;
	ret->tid = h->tid;
	ret->cpu = ev->cpu;
	ret->flags = h->flags;
	ret->pending = 0;
	ret->ret_file = 0;
	ret->ret_is_fd = 0;
	ret->entry_unseen = 0;
	if (h->id == SPOOR_EV_SYSCALL_OTHER)
		return decode_other((const void *)h, ret);
	if (h->id == SPOOR_EV_PENDING)
		return decode_pending((const void *)h, ev->segment, ret);
	if (changed(ev->segment, h->id))
		return -EPROTO;
	set_number(ret, h->id);
	ret->pid = s->pid;
	ret->stack = s->stack;
	ret->dur = s->dur;
	ret->start = h->ts - s->dur;
	ret->ret = spoor_syscall_ret(h);
	return decode_data((struct span){ (const uint8_t *)h + spoor_syscall_fixed(h->id),
					  (const uint8_t *)h + spoor_event_size(h) },
			   s->data_len, ret);
}
