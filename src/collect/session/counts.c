/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/counts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 4096
#define KEPT 4096 /* ended processes that stay apart */
#define MOST_PENDING 16384

/* One system call of ended threads of a process. */
struct sum {
	struct sum *next_same_hash, *next_of_process;
	struct spoor_counter_key key;
	struct spoor_counter_sum s;
};

struct process {
	struct process *next_same_hash;
	struct process *next_final; /* in the list of those that were not handed out, */
	struct process *next_kept;  /* and in that of those that ended long ago */
	struct spoor_counter_owner owner;
	struct spoor_counter_process p;
	uint64_t ended[2], overflow[2]; /* as p's, but only what is in the sums */
	uint64_t ended_before,
		overflow_before; /* of times that it was in before, or of others: the kernel has forgotten */
	uint64_t processes;      /* thrown together */
	bool final;
	bool listed, kept; /* it is in that list */
	struct sum *sums;
};

/* A sum whose stack's id is not known yet. */
struct pending {
	struct spoor_counter_key key;
	struct spoor_counter_sum s;
};

struct spoor_counts {
	struct spoor_rounds *rounds;
	spoor_counts_stack_fn stack_of;
	void *stacks;
	struct pending *pending;
	size_t n_pending, room_pending;
	bool keep, want_finals;
	struct process *processes[BUCKETS];
	struct sum **sums;
	size_t n_sums, room_sums;    /* room: a power of two */
	struct process *first_final; /* those not handed out, by their end */
	struct process *first_kept, **last_kept;
	size_t n_kept;
	const struct spoor_count_visitor *visitor; /* of the round under way */
	int error;                                 /* of it */
	uint64_t lost;                             /* here, for want of memory */
};

int spoor_counts_new(struct spoor_kernel *k, bool keep, bool finals, struct spoor_counts **ret)
{
	struct spoor_counts *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->keep = keep;
	c->want_finals = finals;
	c->last_kept = &c->first_kept;
	c->room_sums = BUCKETS;
	c->sums = calloc(c->room_sums, sizeof(struct sum *));
	r = c->sums ? spoor_rounds_new(k, &c->rounds) : -ENOMEM;
	if (r) {
		free(c->sums);
		free(c);
		return r;
	}
	*ret = c;
	return 0;
}

void spoor_counts_free(struct spoor_counts *c)
{
	if (!c)
		return;
	for (unsigned i = 0; i < BUCKETS; i++) {
		for (struct process *p = c->processes[i], *next; p; p = next) {
			next = p->next_same_hash;
			free(p);
		}
	}
	for (size_t i = 0; i < c->room_sums; i++) {
		for (struct sum *s = c->sums[i], *next; s; s = next) {
			next = s->next_same_hash;
			free(s);
		}
	}
	free(c->sums);
	free(c->pending);
	spoor_rounds_free(c->rounds);
	free(c);
}

void spoor_counts_name_stacks(struct spoor_counts *c, spoor_counts_stack_fn stack_of, void *ctx)
{
	c->stack_of = stack_of;
	c->stacks = ctx;
}

/* ---- keeping ---- */

static uint32_t hash_of(uint64_t start, uint32_t pid, uint32_t id, uint32_t stack)
{
	uint64_t h = (start ^ pid) * 0x9e3779b97f4a7c15ULL;

	h = (h ^ h >> 32 ^ id ^ (uint64_t)stack << 16) * 0x9e3779b97f4a7c15ULL;
	return h >> 32;
}

static struct process **place_of_process(struct spoor_counts *c, uint64_t start, uint32_t pid)
{
	return &c->processes[hash_of(start, pid, 0, 0) & (BUCKETS - 1)];
}

static struct sum **place_of_sum(struct spoor_counts *c, const struct spoor_counter_key *key)
{
	return &c->sums[hash_of(key->start, key->pid, key->id, key->stack) & (c->room_sums - 1)];
}

/* Chains stay short. Without memory for that they get longer. */
static void make_room_for_sums(struct spoor_counts *c)
{
	struct sum **old = c->sums, **new;
	size_t n = c->room_sums;

	if (c->n_sums < n)
		return;
	new = calloc(n * 2, sizeof(*new));
	if (!new)
		return;
	c->sums = new;
	c->room_sums = n * 2;
	for (size_t i = 0; i < n; i++) {
		for (struct sum *s = old[i], *next; s; s = next) {
			struct sum **at = place_of_sum(c, &s->key);

			next = s->next_same_hash;
			s->next_same_hash = *at;
			*at = s;
		}
	}
	free(old);
}

static struct process *process_of(struct spoor_counts *c, uint64_t start, uint32_t pid)
{
	struct process **at = place_of_process(c, start, pid), *p;

	for (p = *at; p; p = p->next_same_hash)
		if (p->owner.start == start && p->owner.pid == pid)
			return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->owner.start = start;
	p->owner.pid = pid;
	p->next_same_hash = *at;
	return *at = p;
}

static bool same_key(const struct spoor_counter_key *a, const struct spoor_counter_key *b)
{
	return a->start == b->start && a->pid == b->pid && a->id == b->id && a->stack == b->stack;
}

static struct sum *sum_of(struct spoor_counts *c, const struct spoor_counter_key *key)
{
	struct sum **at, *s;
	struct process *p;

	make_room_for_sums(c);
	at = place_of_sum(c, key);
	for (s = *at; s; s = s->next_same_hash)
		if (same_key(&s->key, key))
			return s;
	p = process_of(c, key->start, key->pid);
	s = calloc(1, sizeof(*s));
	if (!p || !s) {
		free(s);
		return NULL;
	}
	s->key = *key;
	s->next_same_hash = *at;
	*at = s;
	s->next_of_process = p->sums;
	p->sums = s;
	c->n_sums++;
	return s;
}

static void add_error(struct spoor_counter_sum *to, uint32_t error, uint64_t n)
{
	for (unsigned i = 0; i < SPOOR_SUM_ERRNOS; i++) {
		if (!to->error[i])
			to->error[i] = error;
		if (to->error[i] == error) {
			to->error_n[i] += n;
			return;
		}
	}
}

static void add_sum(struct spoor_counter_sum *to, const struct spoor_counter_sum *s)
{
	to->errors += s->errors;
	to->ns += s->ns;
	to->max_ns = s->max_ns > to->max_ns ? s->max_ns : to->max_ns;
	to->least = s->least > to->least ? s->least : to->least;
	to->blocked_ns += s->blocked_ns;
	to->unreturned += s->unreturned;
	to->unreturned_ns += s->unreturned_ns;
	to->unreturned_blocked_ns += s->unreturned_blocked_ns;
	for (unsigned i = 0; i < SPOOR_COUNTER_BUCKETS; i++)
		to->histogram[i] += s->histogram[i];
	for (unsigned i = 0; i < SPOOR_SUM_ERRNOS; i++)
		if (s->error[i])
			add_error(to, s->error[i], s->error_n[i]);
}

static uint64_t calls_of(const struct spoor_counter_sum *s)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < SPOOR_COUNTER_BUCKETS; i++)
		n += s->histogram[i];
	return n;
}

static void keep_sum(struct spoor_counts *c, const struct spoor_counter_key *key, const struct spoor_counter_sum *s)
{
	struct sum *to = sum_of(c, key);

	if (to)
		add_sum(&to->s, s);
	else
		c->lost += calls_of(s) + s->unreturned;
}

static bool put_off(struct spoor_counts *c, const struct spoor_counter_key *key, const struct spoor_counter_sum *s)
{
	if (c->n_pending == c->room_pending) {
		size_t room = c->room_pending * 2 + 64;
		struct pending *p = room <= MOST_PENDING ? realloc(c->pending, room * sizeof(*p)) : NULL;

		if (!p)
			return false;
		c->pending = p;
		c->room_pending = room;
	}
	c->pending[c->n_pending++] = (struct pending){ *key, *s };
	return true;
}

static void on_sum(void *ctx, const struct spoor_counter_key *key, const struct spoor_counter_sum *s)
{
	struct spoor_counts *c = ctx;
	struct spoor_counter_key named = *key;

	if (c->stack_of && key->stack) {
		named.stack = c->stack_of(c->stacks, key->stack, false);
		if (!named.stack && put_off(c, key, s))
			return;
		if (!named.stack)
			named.stack = c->stack_of(c->stacks, key->stack, true);
	}
	keep_sum(c, &named, s);
}

/* Once it was handed out under an id a call cannot have another one. now: nothing may be left. */
static void work_off_pending(struct spoor_counts *c, bool now)
{
	size_t left = 0;

	for (size_t i = 0; i < c->n_pending; i++) {
		struct pending p = c->pending[i];
		uint32_t stack = c->stack_of(c->stacks, p.key.stack, now);

		if (!stack) {
			c->pending[left++] = p;
			continue;
		}
		p.key.stack = stack;
		keep_sum(c, &p.key, &p.s);
	}
	c->n_pending = left;
}

/* Puts a process into the list by its end. */
static void insert_final(struct spoor_counts *c, struct process *p)
{
	struct process **at = &c->first_final;

	while (*at && (*at)->p.end <= p->p.end)
		at = &(*at)->next_final;
	p->next_final = *at;
	*at = p;
}

/* Moves what `from` says of ended threads to what the kernel says no more of `to`. */
static void remember_ended(struct process *to, struct process *from)
{
	uint64_t ended = from->ended_before + from->ended[0] + from->ended[1];
	uint64_t overflow = from->overflow_before + from->overflow[0] + from->overflow[1];

	memset(from->ended, 0, sizeof(from->ended));
	memset(from->overflow, 0, sizeof(from->overflow));
	from->ended_before = from->overflow_before = 0;
	to->ended_before += ended;
	to->overflow_before += overflow;
}

static void on_process(void *ctx, const struct spoor_counter_owner *owner, const struct spoor_counter_process *k,
		       unsigned bank, bool final)
{
	struct spoor_counts *c = ctx;
	struct process *p = process_of(c, owner->start, owner->pid);

	if (!p) {
		c->error = -ENOMEM;
		return;
	}
	p->p = *k;
	p->final = final;
	for (unsigned i = 0; i < 2; i++) {
		if (i != bank && !final)
			continue;
		p->ended[i] = k->ended[i];
		p->overflow[i] = k->overflow[i];
	}
	if (!final)
		return;
	remember_ended(p, p);
	if (p->listed)
		return; /* it was moved out a second time */
	p->listed = true;
	insert_final(c, p);
}

/* ---- throwing ended processes together ---- */

static void forget_sum(struct spoor_counts *c, struct sum *s)
{
	struct sum **at = place_of_sum(c, &s->key);

	while (*at != s)
		at = &(*at)->next_same_hash;
	*at = s->next_same_hash;
	c->n_sums--;
	free(s);
}

static void forget_process(struct spoor_counts *c, struct process *p)
{
	struct process **at = place_of_process(c, p->owner.start, p->owner.pid);

	while (*at != p)
		at = &(*at)->next_same_hash;
	*at = p->next_same_hash;
	free(p);
}

/* The process's counters go to everybody's. */
static void throw_in(struct spoor_counts *c, struct process *p)
{
	struct process *all = process_of(c, 0, 0);

	if (!all || p == all)
		return;
	if (!all->processes || p->p.start < all->p.start) {
		memcpy(all->p.comm, p->p.comm, sizeof(all->p.comm));
		all->p.start = p->p.start;
		all->p.pid = p->p.pid;
		all->p.ppid = p->p.ppid;
	}
	all->processes++;
	all->p.end = p->p.end > all->p.end ? p->p.end : all->p.end;
	remember_ended(all, p);
	for (struct sum *s = p->sums, *next; s; s = next) {
		struct spoor_counter_key key = { .id = s->key.id, .stack = s->key.stack };

		next = s->next_of_process;
		keep_sum(c, &key, &s->s);
		forget_sum(c, s);
	}
	forget_process(c, p);
}

/* ---- handing out ---- */

static void call_of_sum(struct spoor_counted_call *to, const struct sum *s)
{
	const struct spoor_counter_sum *f = &s->s;

	*to = (struct spoor_counted_call){
		.id = s->key.id,
		.stack = s->key.stack,
		.calls = calls_of(f),
		.errors = f->errors,
		.ns = f->ns,
		.max_ns = f->max_ns,
		.blocked_ns = f->blocked_ns,
		.unreturned = f->unreturned,
		.unreturned_ns = f->unreturned_ns,
		.unreturned_blocked_ns = f->unreturned_blocked_ns,
	};
	to->min_ns = to->calls ? ~f->least : 0;
	memcpy(to->histogram, f->histogram, sizeof(to->histogram));
	memcpy(to->error, f->error, sizeof(to->error));
	memcpy(to->error_n, f->error_n, sizeof(to->error_n));
}

static void hand_out_process(const struct process *p, const struct spoor_count_visitor *v)
{
	struct spoor_counted_task t = {
		.pid = p->owner.pid,
		.ppid = p->p.ppid,
		.first_pid = p->p.pid,
		.start_ns = p->p.start,
		.process_start_ns = p->owner.start,
		.end_ns = p->final || !p->p.live ? p->p.end : 0,
		.threads = p->ended_before + p->ended[0] + p->ended[1],
		.processes = p->owner.pid ? 1 : p->processes + p->p.gone,
		.overflow = p->overflow_before + p->overflow[0] + p->overflow[1],
	};
	struct spoor_counted_call call;

	if (!t.threads && !p->sums)
		return;
	memcpy(t.comm, p->p.comm, sizeof(t.comm));
	v->task(v->ctx, &t);
	for (const struct sum *s = p->sums; s; s = s->next_of_process) {
		call_of_sum(&call, s);
		v->call(v->ctx, &call);
	}
	if (v->end)
		v->end(v->ctx);
}

/* Of ended processes the last ones stay apart. One that came in again is no ended one. */
static void keep(struct spoor_counts *c, struct process *p)
{
	if (!p->kept) {
		p->kept = true;
		p->next_kept = NULL;
		*c->last_kept = p;
		c->last_kept = &p->next_kept;
		c->n_kept++;
	}
	while (c->n_kept > KEPT && c->first_kept) {
		struct process *oldest = c->first_kept;

		c->first_kept = oldest->next_kept;
		if (!c->first_kept)
			c->last_kept = &c->first_kept;
		oldest->kept = false;
		c->n_kept--;
		if (oldest->final && !oldest->listed)
			throw_in(c, oldest);
	}
}

/* Takes those that have ended off the list; v may be NULL. */
static size_t work_off_finals(struct spoor_counts *c, const struct spoor_count_visitor *v)
{
	size_t n = 0;

	for (struct process *p = c->first_final, *next; p; p = next, n++) {
		next = p->next_final;
		p->next_final = NULL;
		p->listed = false;
		if (v)
			hand_out_process(p, v);
		if (c->keep)
			keep(c, p);
		else if (p->final)
			throw_in(c, p);
	}
	c->first_final = NULL;
	return n;
}

static bool in_flight_here(const struct spoor_counter_flight *f, uint16_t id, uint32_t stack)
{
	return f->start && f->id == id && f->stack == stack;
}

static void add_flight(struct spoor_counted_call *to, const struct spoor_counter_thread *t)
{
	const struct spoor_counter_flight *f = &t->flight;

	to->in_flight = 1;
	to->in_flight_ns = t->at > f->start ? t->at - f->start : 0;
	to->in_flight_blocked_ns = f->blocked_ns + (f->off && t->at > f->off ? t->at - f->off : 0);
	if (to->in_flight_blocked_ns > to->in_flight_ns)
		to->in_flight_blocked_ns = to->in_flight_ns;
}

static void call_of_slot(struct spoor_counted_call *to, const struct spoor_counter_slot *s,
			 const struct spoor_counter_wide *w)
{
	*to = (struct spoor_counted_call){
		.id = s->id,
		.stack = s->stack,
		.errors = s->errors,
		.ns = s->ns,
		.max_ns = s->max_ns,
		.blocked_ns = s->blocked_ns,
	};
	for (unsigned i = 0; i < SPOOR_COUNTER_BUCKETS; i++) {
		to->histogram[i] = s->histogram[i] + (w ? (uint64_t)w->histogram[i] << SPOOR_WIDE_SHIFT : 0);
		to->calls += to->histogram[i];
	}
	to->min_ns = to->calls ? s->min_ns : 0;
	for (unsigned i = 0; i < SPOOR_SLOT_ERRNOS; i++) {
		to->error[i] = s->error[i];
		to->error_n[i] = s->error_n[i];
	}
}

static void on_thread(void *ctx, const struct spoor_counter_thread *t, const struct spoor_counter_slot *slots,
		      const struct spoor_counter_wide *wides)
{
	struct spoor_counts *c = ctx;
	const struct spoor_count_visitor *v = c->visitor;
	struct spoor_counted_task task = {
		.pid = t->pid,
		.tid = t->tid,
		.serial = t->serial,
		.first_pid = t->pid,
		.ppid = t->ppid,
		.start_ns = t->start,
		.process_start_ns = t->process_start,
		.threads = 1,
		.processes = 1,
		.overflow = t->overflow,
	};
	struct spoor_counter_flight flight = t->flight;
	struct spoor_counted_call call;
	bool flown = !flight.start;

	memcpy(task.comm, t->comm, sizeof(task.comm));
	v->task(v->ctx, &task);
	for (unsigned i = 0; i < t->n_slots; i++) {
		call_of_slot(&call, &slots[i], slots[i].wide ? wides : NULL);
		wides += slots[i].wide;
		if (!flown && in_flight_here(&flight, call.id, call.stack)) {
			add_flight(&call, t);
			flown = true;
		}
		if (call.calls || call.in_flight)
			v->call(v->ctx, &call);
	}
	if (!flown) {
		if (c->stack_of && flight.stack)
			flight.stack = c->stack_of(c->stacks, flight.stack, true);
		call = (struct spoor_counted_call){ .id = flight.id, .stack = flight.stack };
		add_flight(&call, t);
		v->call(v->ctx, &call);
	}
	if (v->end)
		v->end(v->ctx);
}

int spoor_counts_take(struct spoor_counts *c, const struct spoor_count_visitor *v)
{
	const struct spoor_round_reader reader = {
		.thread = on_thread, .sum = on_sum, .process = on_process, .ctx = c
	};
	int r;

	c->visitor = v;
	c->error = 0;
	r = spoor_round(c->rounds, true, &reader);
	work_off_pending(c, true);
	if (!c->want_finals)
		work_off_finals(c, NULL);
	for (unsigned i = 0; i < BUCKETS; i++)
		for (const struct process *p = c->processes[i]; p; p = p->next_same_hash)
			hand_out_process(p, v);
	return r ? r : c->error;
}

int spoor_counts_collect(struct spoor_counts *c)
{
	const struct spoor_round_reader reader = { .sum = on_sum, .process = on_process, .ctx = c };
	int r;

	c->error = 0;
	r = spoor_round(c->rounds, false, &reader);
	work_off_pending(c, c->first_final);
	if (!c->want_finals)
		work_off_finals(c, NULL);
	return r ? r : c->error;
}

size_t spoor_counts_finals(struct spoor_counts *c, const struct spoor_count_visitor *v)
{
	return work_off_finals(c, v);
}

uint64_t spoor_counts_lost(const struct spoor_counts *c)
{
	return spoor_rounds_lost(c->rounds) + c->lost;
}
