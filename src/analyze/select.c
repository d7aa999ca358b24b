/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "analyze/select.h"

#include <errno.h>
#include <stdlib.h>

static int add(uint32_t **list, size_t *n, uint32_t value)
{
	uint32_t *p = reallocarray(*list, *n + 1, sizeof(**list));

	if (!p)
		return -ENOMEM;
	p[(*n)++] = value;
	*list = p;
	return 0;
}

int spoor_select_add_pid(struct spoor_select *s, uint32_t pid)
{
	return add(&s->pids, &s->n_pids, pid);
}

int spoor_select_add_tid(struct spoor_select *s, uint32_t tid)
{
	return add(&s->tids, &s->n_tids, tid);
}

void spoor_select_done(struct spoor_select *s)
{
	free(s->pids);
	free(s->tids);
	free(s->stacks);
	spoor_globs_done(&s->functions);
	spoor_globs_done(&s->events);
	*s = (struct spoor_select){};
}

static int among(const uint32_t *list, size_t n, uint32_t value)
{
	if (!n)
		return 1;
	for (size_t i = 0; i < n; i++)
		if (list[i] == value)
			return 1;
	return 0;
}

int spoor_select_thread(const struct spoor_select *s, uint32_t pid, uint32_t tid)
{
	return among(s->pids, s->n_pids, pid) && among(s->tids, s->n_tids, tid);
}

static int who(const struct spoor_select *s, uint32_t pid, uint32_t tid, unsigned id)
{
	if (s->some_calls && !s->calls[id < SPOOR_SYSCALL_MAX ? id : SPOOR_SYSCALL_MAX])
		return 0;
	return spoor_select_thread(s, pid, tid);
}

static bool is_number_wanted(const struct spoor_select *s, const struct spoor_event_header *h)
{
	const struct spoor_syscall_other *call = (const void *)h;

	for (unsigned i = 0; i < s->n_numbers && h->id == SPOOR_EV_SYSCALL_OTHER; i++)
		if ((uint32_t)s->numbers[i] == call->nr && (call->i386 || !(s->numbers[i] & SPOOR_SELECT_I386)))
			return true;
	return false;
}

static int select_pending(const struct spoor_select *s, const struct spoor_pending *p, uint64_t now)
{
	uint64_t start = p->start ? p->start : p->h.ts;

	if (s->failed || s->errno_ || (now < s->from) || (s->to && start > s->to))
		return 0;
	if (s->min_duration && (now < start || now - start < s->min_duration))
		return 0;
	return who(s, p->pid, p->h.tid, p->nr);
}

int spoor_select_chooses_calls(const struct spoor_select *s)
{
	return s->some_calls || s->errno_ || s->failed || s->min_duration;
}

/* Ids are unique in a recording, so an id's name is asked about once. */
static int name_wanted(struct spoor_select *s, const struct spoor_event_class *c)
{
	uint8_t *known = &s->event_wanted[c->id - SPOOR_EV_USER];

	if (!s->events.n)
		return 1;
	if (!*known)
		*known = spoor_globs_match(&s->events, c->name) ? 1 : 2;
	return *known == 1;
}

int spoor_select_user(struct spoor_select *s, const struct spoor_event *ev, uint32_t pid)
{
	if (!s->events.n && spoor_select_chooses_calls(s))
		return 0;
	if (ev->h->ts < s->from || (s->to && ev->h->ts > s->to) || !name_wanted(s, ev->class))
		return 0;
	return spoor_select_thread(s, pid, ev->h->tid);
}

int spoor_select_event(const struct spoor_select *s, const struct spoor_event_header *h, uint64_t now)
{
	const struct spoor_syscall *call = (const void *)h; /* SYSCALL_OTHER begins alike */

	if (s->events.n && !spoor_select_chooses_calls(s))
		return 0;
	if (h->id == SPOOR_EV_PENDING)
		return select_pending(s, (const void *)h, now);
	if (h->id > SPOOR_EV_SYSCALL_OTHER)
		return 0;
	if (call->dur < s->min_duration || h->ts < s->from || (s->to && h->ts - call->dur > s->to))
		return 0;
	if (s->failed && !spoor_ret_failed(spoor_syscall_ret(h)))
		return 0;
	if (s->errno_ && spoor_syscall_ret(h) != -(int64_t)s->errno_)
		return 0;
	if (is_number_wanted(s, h))
		return spoor_select_thread(s, call->pid, h->tid);
	return who(s, call->pid, h->tid, spoor_syscall_id(h));
}

static int has_function(const struct spoor_select *s, struct spoor_symbolizer *z, const struct spoor_segment *segment,
			uint32_t pid, uint32_t id)
{
	const struct spoor_stack *stack = id ? spoor_segment_stack(segment, id) : NULL;

	for (unsigned i = 0; stack && i < stack->n; i++) {
		const struct spoor_frame *f = spoor_symbolize(z, segment, pid, stack, i);

		for (int k = 0; f && k < f->n; k++)
			if (f->lines[k].function && spoor_globs_match(&s->functions, f->lines[k].function))
				return 1;
	}
	return 0;
}

static struct spoor_select_stack *find(struct spoor_select_stack *stacks, size_t size, uint32_t pid, uint32_t id)
{
	size_t i = ((uint64_t)id << 32 | pid) * 0x9E3779B97F4A7C15ULL >> 24;

	for (;; i++) {
		struct spoor_select_stack *slot = &stacks[i & (size - 1)];

		if (!slot->known || (slot->id == id && slot->pid == pid))
			return slot;
	}
}

static int grow(struct spoor_select *s)
{
	size_t size = s->stacks_size ? s->stacks_size * 2 : 1024;
	struct spoor_select_stack *stacks = calloc(size, sizeof(*stacks));

	if (!stacks)
		return -ENOMEM;
	for (size_t i = 0; i < s->stacks_size; i++)
		if (s->stacks[i].known)
			*find(stacks, size, s->stacks[i].pid, s->stacks[i].id) = s->stacks[i];
	free(s->stacks);
	s->stacks = stacks;
	s->stacks_size = size;
	return 0;
}

int spoor_select_stack(struct spoor_select *s, struct spoor_symbolizer *z, const struct spoor_segment *segment,
		       uint32_t pid, uint32_t stack)
{
	struct spoor_select_stack *slot;

	if (!s->functions.n)
		return 1;
	if (s->n_stacks * 2 >= s->stacks_size && grow(s) < 0)
		return has_function(s, z, segment, pid, stack);
	slot = find(s->stacks, s->stacks_size, pid, stack);
	if (!slot->known) {
		*slot = (struct spoor_select_stack){ stack, pid, 1, (uint8_t)has_function(s, z, segment, pid, stack) };
		s->n_stacks++;
	}
	return slot->match;
}
