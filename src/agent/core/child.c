/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A child process, however it was made, has arenas of its own, like its parent's: from its first event on, or when it
 * is called. Until then, and as long as it can have none, nothing is recorded; what is lost is counted where its parent
 * writes, whose arenas it still has before it.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "agent/control/control.h"
#include "agent/core/clock.h"
#include "agent/core/output.h"
#include "agent/core/process.h"
#include "agent/core/ranges.h"

#define RENEW_EVERY 1000000000ULL /* ns: so often it costs an event what making arenas costs */

static bool inherited; /* by fork: what is recorded here need not be what the rules say of this process */
static __thread bool half_written; /* an event of this thread, as it was about to fork: a signal handler forks */
static struct arena_made fresh[SPOOR_OUTPUTS];

struct offer {
	struct spoor_agent_arena all[SPOOR_OUTPUTS];
	unsigned n;
};

static void add(struct offer *to, const struct output *o, const struct arena_made *made, int fd)
{
	struct spoor_agent_arena *a = &to->all[to->n];

	if (fd < 0)
		return;
	*a = (struct spoor_agent_arena){ .session = o->wish.session, .fd = fd };
	memcpy(a->uuid, made->arena->uuid, sizeof(a->uuid));
	to->n++;
}

bool outputs_offer_again(void)
{
	struct offer offer = { .n = 0 };
	unsigned i;

	for (i = 0; i < SPOOR_OUTPUTS && inherited; i++)
		if (outputs[i].used)
			add(&offer, &outputs[i], &outputs[i].made, output_fd(&outputs[i]));
	if (offer.n)
		spoor_control_offer(offer.all, offer.n);
	return offer.n;
}

bool outputs_inherited(void)
{
	return inherited || !process->alive;
}

/* Of whom there are no descriptors to be told of nobody ever reads. */
static int offer_fresh(void)
{
	struct offer offer = { .n = 0 };
	unsigned i;
	int r;

	for (i = 0; i < SPOOR_OUTPUTS; i++)
		if (outputs[i].used)
			add(&offer, &outputs[i], &fresh[i], fresh[i].fd);
	r = offer.n ? spoor_control_offer(offer.all, offer.n) : 0;
	return r == -EMFILE || r == -ENFILE ? r : 0;
}

/* Once for all children of the process that has these: it may have thousands. */
static void say_none(const struct output *o, int error)
{
	if (!__atomic_fetch_add(&o->made.arena->channels[0].children, 1, __ATOMIC_RELAXED))
		outputs_child_failed(o->wish.dir, error);
}

static void tell_of_none(int error)
{
	uint32_t sessions[SPOOR_OUTPUTS];
	unsigned i, n = 0;

	for (i = 0; i < SPOOR_OUTPUTS; i++) {
		if (outputs[i].used && outputs[i].wish.dir[0])
			say_none(&outputs[i], error);
		else if (outputs[i].used)
			sessions[n++] = outputs[i].wish.session;
	}
	spoor_control_offer_none(sessions, n, error);
}

static int make_like(const struct output *o, struct arena_made *ret)
{
	int r = arena_make(&o->wish, ret);

	if (r)
		return r;
	r = arena_define_as(ret, &o->made);
	if (r)
		arena_unmake(ret);
	return r;
}

/* All of them, and whoever is to read them is told; or none. */
static int make_all(void)
{
	unsigned n, i;
	int r = 0;

	for (n = 0; n < SPOOR_OUTPUTS && !r; n++)
		if (outputs[n].used)
			r = make_like(&outputs[n], &fresh[n]);
	n -= r != 0;
	if (!r)
		r = offer_fresh();
	for (i = 0; i < n && r; i++)
		if (outputs[i].used)
			arena_unmake(&fresh[i]);
	return r;
}

/* An event that was half written when a signal handler forked goes on at the addresses of the parent's arenas. */
static void leave_parents(struct output *o, const struct arena_made *own)
{
	char *parents = (char *)o->made.arena;
	uint64_t size = o->made.reserved;

	output_take_arena(o, own);
	range_blank(parents, size);
}

static int renew_all(void)
{
	bool first = !process->next_renew;
	int i, r;

	process->pid = sys_pid();
	for (i = 0; i < SPOOR_SLOTS && first; i++)
		slots[i].users = 0; /* threads of the parent */
	r = make_all();
	if (r) {
		__atomic_store_n(&process->next_renew, clock_monotonic() + RENEW_EVERY, __ATOMIC_RELAXED);
		if (first)
			tell_of_none(r);
		return r;
	}
	for (i = 0; i < SPOOR_OUTPUTS; i++)
		if (outputs[i].used)
			leave_parents(&outputs[i], &fresh[i]);
	__atomic_store_n(&process->alive, 1, __ATOMIC_RELEASE);
	inherited = true;
	return 0;
}

static bool is_writing(void)
{
	const struct block *b;
	unsigned i;

	for (b = block; b && b != &nobody && block_tid(b); b = b->deeper)
		for (i = 0; i < SPOOR_SLOTS; i++)
			if (__atomic_load_n(&b->slot[i].p.busy, __ATOMIC_RELAXED))
				return true;
	return false;
}

/* In a child fork has wiped what tells it. What is between us and the fork, signal handlers, ends before that. */
static void before_fork(void)
{
	if (process->alive)
		half_written = is_writing();
}

/*
 * The event goes on where its parent, which goes on as well, may have other events by now. Its first own event may be
 * long to come: what this child could falsify becomes its own at once. What it loses still counts before it.
 */
static void after_in_child(void)
{
	int i;

	process->forked = sys_pid();
	if (!half_written || !process_lock())
		return;
	half_written = false;
	for (i = 0; i < SPOOR_OUTPUTS && !process->alive; i++)
		if (outputs[i].made.arena)
			arena_blank_packets(outputs[i].made.arena);
	process_unlock();
}

void outputs_begin_forks(void)
{
	pthread_atfork(before_fork, NULL, after_in_child);
}

bool outputs_missing(void)
{
	uint64_t next = __atomic_load_n(&process->next_renew, __ATOMIC_RELAXED);

	return next && clock_monotonic() < next;
}

/*
 * By vfork(), or with its parent's memory: what it made would be its parent's, and end with it, whose descriptors are
 * the recorder's. Of a child by the raw system call nobody can say.
 */
static bool has_parents_memory(void)
{
	return process->forked && process->forked != sys_pid();
}

int outputs_renew(bool at_once)
{
	int r = -EAGAIN;

	if (!process_lock())
		return -EDEADLK;
	if (process->alive)
		r = 0;
	else if (has_parents_memory())
		r = -ECHILD;
	else if (at_once || !outputs_missing())
		r = renew_all();
	process_unlock();
	return r;
}

bool outputs_lock(bool wait)
{
	if (!process->alive)
		outputs_renew(false);
	return wait ? process_lock() : process_trylock();
}
