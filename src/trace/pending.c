/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls seen under way, by thread: a thread is in one call at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "trace/reader.h"
#include "trace/syscalls.h"

struct pending {
	uint32_t tid;
	uint32_t cpu;
	size_t room; /* bytes of copy */
	struct spoor_pending *copy;
	const struct spoor_segment *segment;
	uint8_t used, active;
	uint8_t cut; /* enum cut, since when copy->h.ts is when it ended; nothing was seen of its thread since */
};

/* A call of which a signal made an end. */
enum cut {
	CUT_UNSEEN = 1, /* no program ever sees its result: it is done anew, or a handler runs, or the thread ends */
	CUT_SEEN = 2,   /* EINTR */
};

/* After EINTR a thread may run on, and be killed for another reason. It ends when its core is dumped. */
#define DIES_NS 10000000000ULL

struct spoor_pendings {
	struct pending *slots; /* hash by tid, open addressing */
	size_t size, n, n_active;
	size_t n_moving; /* active, and of those whose end may be another thread's: drop_moved() */
	uint8_t keeps_killed;
	size_t n_cut;
	struct list {
		struct pending *items;
		size_t n;
	} lost, killed;
};

int spoor_pendings_new(struct spoor_pendings **ret)
{
	struct spoor_pendings *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	*ret = p;
	return 0;
}

static void free_list(struct list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->items[i].copy);
	free(l->items);
}

void spoor_pendings_keep_killed(struct spoor_pendings *p)
{
	p->keeps_killed = 1;
}

void spoor_pendings_free(struct spoor_pendings *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->size; i++)
		free(p->slots[i].copy);
	free_list(&p->lost);
	free_list(&p->killed);
	free(p->slots);
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

/* The slot is another call's from here on. */
static int move_to(struct list *l, struct pending *s)
{
	struct pending *items = l->items;

	if ((l->n & (l->n - 1)) == 0)
		items = reallocarray(l->items, l->n ? l->n * 2 : 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	l->items = items;
	l->items[l->n++] = *s;
	s->copy = NULL;
	s->room = 0;
	return 0;
}

/* The thread is in another call by now, and this one's end was not seen. */
static int give_up(struct spoor_pendings *p, struct pending *s)
{
	return move_to(&p->lost, s);
}

static void cut(struct spoor_pendings *p, struct pending *s, enum cut how, uint64_t ts)
{
	p->n_cut += (how != 0) - (s->cut != 0);
	s->cut = how;
	if (how)
		s->copy->h.ts = ts;
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

/* A signal stopped its thread, which has not run on: so the call that it cut is to begin again, and did before. */
static int is_the_cut_one(const struct pending *s, const struct spoor_pending *new)
{
	return s->cut == CUT_UNSEEN && !new->exact && new->nr == s->copy->nr && new->pid == s->copy->pid;
}

static int see_pending(struct spoor_pendings *p, const struct spoor_event *ev)
{
	const struct spoor_pending *new = (const void *)ev->h;
	struct spoor_pending before = { .why = 0 };
	struct pending *s;

	drop_moved(p, new->nr, ev->h->tid, new->pid, new->start);
	if (p->n * 2 >= p->size && grow(p) < 0)
		return -ENOMEM;
	s = find(p, ev->h->tid);
	if (is_the_cut_one(s, new))
		before = *s->copy;
	cut(p, s, 0, 0);
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
	if (before.why) {
		s->copy->start = before.start;
		s->copy->exact = before.exact;
		s->copy->why = SPOOR_PENDING_END;
	}
	p->n += !s->used;
	s->tid = ev->h->tid;
	s->used = 1;
	begin(p, s);
	return 0;
}

/* ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND and ERESTART_RESTARTBLOCK are the kernel's own. */
static enum cut how_cut(const struct spoor_pending *p, int64_t ret)
{
	if (p->why == SPOOR_PENDING_KILLED || ret == -512 || ret == -513 || ret == -514 || ret == -516)
		return CUT_UNSEEN;
	return ret == -EINTR ? CUT_SEEN : 0;
}

static int see_completed(struct spoor_pendings *p, const struct spoor_event_header *h)
{
	const struct spoor_syscall *call = (const void *)h; /* SYSCALL_OTHER begins alike */
	uint64_t start = h->ts - call->dur;
	struct pending *s = find(p, h->tid);
	int same;

	drop_moved(p, spoor_syscall_id(h), h->tid, call->pid, start);
	cut(p, s, 0, 0);
	if (!s->active)
		return 0;
	same = same_call(s->copy, spoor_syscall_id(h), start);
	if (start < s->copy->start && !same)
		return 0;
	end(p, s);
	if (!same)
		return give_up(p, s);
	if (p->keeps_killed)
		cut(p, s, how_cut(s->copy, spoor_syscall_ret(h)), h->ts);
	return !s->copy->exact;
}

static int see_exit(struct spoor_pendings *p, const struct spoor_thread_exit *x)
{
	struct pending *s = find(p, x->h.tid);
	int killed = s->cut && x->pid == s->copy->pid && x->kind <= SPOOR_EXIT_PROCESS && WIFSIGNALED(x->code) &&
		     (s->cut == CUT_UNSEEN || x->h.ts - s->copy->h.ts < DIES_NS);

	cut(p, s, 0, 0);
	return killed ? move_to(&p->killed, s) : 0;
}

int spoor_pendings_see(struct spoor_pendings *p, const struct spoor_event *ev)
{
	if (ev->h->id == SPOOR_EV_PENDING)
		return see_pending(p, ev);
	if (ev->h->id == SPOOR_EV_THREAD_EXIT && p->n_cut)
		return see_exit(p, (const void *)ev->h);
	if (ev->h->id > SPOOR_EV_SYSCALL_OTHER || (!p->n_active && !p->n_cut))
		return 0;
	return see_completed(p, ev->h);
}

static struct spoor_event event_of(const struct pending *s)
{
	return (struct spoor_event){ (const void *)s->copy, s->segment, NULL, s->cpu };
}

int spoor_pendings_next(const struct spoor_pendings *p, size_t *it, struct spoor_event *ret,
			enum spoor_unfinished *ret_why)
{
	for (; *it < p->lost.n + p->size; ++*it) {
		int lost = *it < p->lost.n;
		const struct pending *s = lost ? &p->lost.items[*it] : &p->slots[*it - p->lost.n];

		if (!lost && !s->active)
			continue;
		*ret = event_of(s);
		*ret_why = lost ? SPOOR_UNFINISHED_LOST : SPOOR_UNFINISHED_IN_FLIGHT;
		++*it;
		return 1;
	}
	return 0;
}

int spoor_pendings_next_killed(const struct spoor_pendings *p, size_t *it, uint64_t from, struct spoor_event *ret)
{
	for (; *it < p->killed.n + p->size; ++*it) {
		int killed = *it < p->killed.n;
		const struct pending *s = killed ? &p->killed.items[*it] : &p->slots[*it - p->killed.n];

		if (!killed && (s->cut != CUT_UNSEEN || s->copy->h.ts < from))
			continue;
		*ret = event_of(s);
		++*it;
		return 1;
	}
	return 0;
}
