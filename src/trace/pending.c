/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls seen under way, by thread: a thread is in one call at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/reader.h"
#include "trace/syscalls.h"

struct pending {
	uint32_t tid;
	uint32_t cpu;
	size_t room; /* bytes of copy */
	struct spoor_pending *copy;
	const struct spoor_segment *segment;
	uint8_t used, active;
};

struct spoor_pendings {
	struct pending *slots; /* hash by tid, open addressing */
	size_t size, n, n_active;
	size_t n_moving; /* active, and of those whose end may be another thread's: drop_moved() */
	struct pending *lost;
	size_t n_lost;
};

int spoor_pendings_new(struct spoor_pendings **ret)
{
	struct spoor_pendings *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	*ret = p;
	return 0;
}

void spoor_pendings_free(struct spoor_pendings *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->size; i++)
		free(p->slots[i].copy);
	for (size_t i = 0; i < p->n_lost; i++)
		free(p->lost[i].copy);
	free(p->slots);
	free(p->lost);
	free(p);
}

static struct pending *find(const struct spoor_pendings *p, uint32_t tid)
{
	size_t i = (tid * 0x9E3779B97F4A7C15ULL) >> 32 & (p->size - 1);

	while (p->slots[i].used && p->slots[i].tid != tid)
		i = (i + 1) & (p->size - 1);
	return &p->slots[i];
}

static int grow(struct spoor_pendings *p)
{
	struct spoor_pendings bigger = *p;

	bigger.size = p->size ? p->size * 2 : 256;
	bigger.slots = calloc(bigger.size, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < p->size; i++)
		if (p->slots[i].used)
			*find(&bigger, p->slots[i].tid) = p->slots[i];
	free(p->slots);
	*p = bigger;
	return 0;
}

static int keep(struct pending *s, const struct spoor_event *ev)
{
	size_t len = spoor_event_size(ev->h);

	if (!s->copy || s->room < len) {
		void *copy = realloc(s->copy, len);

		if (!copy)
			return -ENOMEM;
		s->copy = copy;
		s->room = len;
	}
	memcpy(s->copy, ev->h, len);
	s->cpu = ev->cpu;
	s->segment = ev->segment;
	return 0;
}

/* The thread is in another call by now, and this one's end was not seen. */
static int give_up(struct spoor_pendings *p, struct pending *s)
{
	struct pending *lost = p->lost;

	if ((p->n_lost & (p->n_lost - 1)) == 0)
		lost = reallocarray(p->lost, p->n_lost ? p->n_lost * 2 : 1, sizeof(*lost));
	if (!lost)
		return -ENOMEM;
	p->lost = lost;
	p->lost[p->n_lost++] = *s;
	s->copy = NULL;
	s->room = 0;
	return 0;
}

/* A begin that was only bounded is matched by the call's number. */
static int same_call(const struct spoor_pending *p, uint32_t id, uint64_t start)
{
	return p->start == start || (!p->exact && p->nr == id);
}

static int executes(uint32_t id)
{
	return id == 59 || id == 322 || id == SPOOR_SYSCALL_I386 + 11 || id == SPOOR_SYSCALL_I386 + 358;
}

static int may_move(const struct pending *s)
{
	return executes(s->copy->nr) && s->tid != s->copy->pid;
}

static void begin(struct spoor_pendings *p, struct pending *s)
{
	s->active = 1;
	p->n_active++;
	p->n_moving += may_move(s);
}

static void end(struct spoor_pendings *p, struct pending *s)
{
	s->active = 0;
	p->n_active--;
	p->n_moving -= may_move(s);
}

/*
 * From some point in execve on its thread has the leader's tid. If it fails beyond that, or the recording ends, nothing
 * else tells that the call seen under the old one (SPOOR_PENDING_MOVED does, where it succeeds) is this.
 */
static void drop_moved(struct spoor_pendings *p, uint32_t id, uint32_t tid, uint32_t pid, uint64_t start)
{
	for (size_t i = 0; tid == pid && executes(id) && p->n_moving && i < p->size; i++) {
		struct pending *s = &p->slots[i];

		if (s->active && s->tid != tid && s->copy->pid == pid && s->copy->nr == id && s->copy->start == start)
			end(p, s);
	}
}

static int see_pending(struct spoor_pendings *p, const struct spoor_event *ev)
{
	const struct spoor_pending *new = (const void *)ev->h;
	struct pending *s;

	drop_moved(p, new->nr, ev->h->tid, new->pid, new->start);
	if (p->n * 2 >= p->size && grow(p) < 0)
		return -ENOMEM;
	s = find(p, ev->h->tid);
	if (s->active) {
		int same = same_call(s->copy, new->nr, new->start);

		end(p, s);
		if (!same && give_up(p, s) < 0)
			return -ENOMEM;
	}
	if (new->why == SPOOR_PENDING_MOVED)
		return 0;
	if (keep(s, ev) < 0)
		return -ENOMEM;
	p->n += !s->used;
	s->tid = ev->h->tid;
	s->used = 1;
	begin(p, s);
	return 0;
}

static int see_completed(struct spoor_pendings *p, const struct spoor_event_header *h)
{
	const struct spoor_syscall *call = (const void *)h; /* SYSCALL_OTHER begins alike */
	uint64_t start = h->ts - call->dur;
	struct pending *s = find(p, h->tid);
	int same;

	drop_moved(p, spoor_syscall_id(h), h->tid, call->pid, start);
	if (!s->active)
		return 0;
	same = same_call(s->copy, spoor_syscall_id(h), start);
	if (start < s->copy->start && !same)
		return 0;
	end(p, s);
	if (!same)
		return give_up(p, s);
	return !s->copy->exact;
}

int spoor_pendings_see(struct spoor_pendings *p, const struct spoor_event *ev)
{
	if (ev->h->id == SPOOR_EV_PENDING)
		return see_pending(p, ev);
	if (ev->h->id > SPOOR_EV_SYSCALL_OTHER || !p->n_active)
		return 0;
	return see_completed(p, ev->h);
}

int spoor_pendings_next(const struct spoor_pendings *p, size_t *it, struct spoor_event *ret,
			enum spoor_unfinished *ret_why)
{
	for (; *it < p->n_lost + p->size; ++*it) {
		int lost = *it < p->n_lost;
		const struct pending *s = lost ? &p->lost[*it] : &p->slots[*it - p->n_lost];

		if (!lost && !s->active)
			continue;
		*ret = (struct spoor_event){ (const void *)s->copy, s->segment, NULL, s->cpu };
		*ret_why = lost ? SPOOR_UNFINISHED_LOST : SPOOR_UNFINISHED_IN_FLIGHT;
		++*it;
		return 1;
	}
	return 0;
}
