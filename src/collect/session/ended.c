/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/ended.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 4096
#define KEPT 4096 /* ended processes that stay apart */

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
	uint64_t ended[2], overflow[2];         /* as p's, but only what is in the sums */
	uint64_t ended_before, overflow_before; /* of when it was in before, or of others: the kernel has forgotten */
	uint64_t processes;                     /* merged into it */
	bool final;
	bool listed, kept; /* it is in that list */
	struct sum *sums;
};

struct spoor_ended {
	bool keep;
	struct process *processes[BUCKETS];
	struct sum **sums;
	size_t n_sums, room_sums;    /* room: a power of two */
	struct process *first_final; /* those not handed out, by their end */
	struct process *first_kept, **last_kept;
	size_t n_kept;
	uint64_t lost; /* calls, for want of memory */
};

int spoor_ended_new(bool keep, struct spoor_ended **ret)
{
	struct spoor_ended *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->keep = keep;
	e->last_kept = &e->first_kept;
	e->room_sums = BUCKETS;
	e->sums = calloc(e->room_sums, sizeof(struct sum *));
	if (!e->sums) {
		free(e);
		return -ENOMEM;
	}
	*ret = e;
	return 0;
}

void spoor_ended_free(struct spoor_ended *e)
{
	if (!e)
		return;
	for (unsigned i = 0; i < BUCKETS; i++) {
		for (struct process *p = e->processes[i], *next; p; p = next) {
			next = p->next_same_hash;
			free(p);
		}
	}
	for (size_t i = 0; i < e->room_sums; i++) {
		for (struct sum *s = e->sums[i], *next; s; s = next) {
			next = s->next_same_hash;
			free(s);
		}
	}
	free(e->sums);
	free(e);
}

/* ---- finding ---- */

static uint32_t hash_of(uint64_t start, uint32_t pid, uint32_t id, uint32_t stack)
{
	uint64_t h = (start ^ pid) * 0x9e3779b97f4a7c15ULL;

	h = (h ^ h >> 32 ^ id ^ (uint64_t)stack << 16) * 0x9e3779b97f4a7c15ULL;
	return h >> 32;
}

static struct process **place_of_process(struct spoor_ended *e, uint64_t start, uint32_t pid)
{
	return &e->processes[hash_of(start, pid, 0, 0) & (BUCKETS - 1)];
}

static struct sum **place_of_sum(struct spoor_ended *e, const struct spoor_counter_key *key)
{
	return &e->sums[hash_of(key->start, key->pid, key->id, key->stack) & (e->room_sums - 1)];
}

/* Chains stay short. Without memory for that they get longer. */
static void make_room_for_sums(struct spoor_ended *e)
{
	struct sum **old = e->sums, **new;
	size_t n = e->room_sums;

	if (e->n_sums < n)
		return;
	new = calloc(n * 2, sizeof(*new));
	if (!new)
		return;
	e->sums = new;
	e->room_sums = n * 2;
	for (size_t i = 0; i < n; i++) {
		for (struct sum *s = old[i], *next; s; s = next) {
			struct sum **at = place_of_sum(e, &s->key);

			next = s->next_same_hash;
			s->next_same_hash = *at;
			*at = s;
		}
	}
	free(old);
}

static struct process *process_of(struct spoor_ended *e, uint64_t start, uint32_t pid)
{
	struct process **at = place_of_process(e, start, pid), *p;

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

static struct sum *sum_of(struct spoor_ended *e, const struct spoor_counter_key *key)
{
	struct sum **at, *s;
	struct process *p;

	make_room_for_sums(e);
	at = place_of_sum(e, key);
	for (s = *at; s; s = s->next_same_hash)
		if (same_key(&s->key, key))
			return s;
	p = process_of(e, key->start, key->pid);
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
	e->n_sums++;
	return s;
}

void spoor_ended_add(struct spoor_ended *e, const struct spoor_counter_key *key, const struct spoor_counter_sum *s)
{
	struct sum *to = sum_of(e, key);

	if (to)
		spoor_sum_add(&to->s, s);
	else
		e->lost += spoor_sum_entered(s);
}

/* ---- processes ---- */

/* Puts a process into the list by its end. */
static void insert_final(struct spoor_ended *e, struct process *p)
{
	struct process **at = &e->first_final;

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

int spoor_ended_process(struct spoor_ended *e, const struct spoor_counter_owner *owner,
			const struct spoor_counter_process *k, unsigned bank, bool final)
{
	struct process *p = process_of(e, owner->start, owner->pid);

	if (!p)
		return -ENOMEM;
	p->p = *k;
	p->final = final;
	for (unsigned i = 0; i < 2; i++) {
		if (i != bank && !final)
			continue;
		p->ended[i] = k->ended[i];
		p->overflow[i] = k->overflow[i];
	}
	if (!final)
		return 0;
	remember_ended(p, p);
	if (p->listed)
		return 0; /* it was moved out a second time */
	p->listed = true;
	insert_final(e, p);
	return 0;
}

/* ---- merging ---- */

static void forget_sum(struct spoor_ended *e, struct sum *s)
{
	struct sum **at = place_of_sum(e, &s->key);

	while (*at != s)
		at = &(*at)->next_same_hash;
	*at = s->next_same_hash;
	e->n_sums--;
	free(s);
}

static void forget_process(struct spoor_ended *e, struct process *p)
{
	struct process **at = place_of_process(e, p->owner.start, p->owner.pid);

	while (*at != p)
		at = &(*at)->next_same_hash;
	*at = p->next_same_hash;
	free(p);
}

/* The process's counters go to everybody's. */
static void merge_into_all(struct spoor_ended *e, struct process *p)
{
	struct process *all = process_of(e, 0, 0);

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
		spoor_ended_add(e, &key, &s->s);
		forget_sum(e, s);
	}
	forget_process(e, p);
}

/* Of ended processes the last ones stay apart. One that came in again is no ended one. */
static void keep(struct spoor_ended *e, struct process *p)
{
	if (!p->kept) {
		p->kept = true;
		p->next_kept = NULL;
		*e->last_kept = p;
		e->last_kept = &p->next_kept;
		e->n_kept++;
	}
	while (e->n_kept > KEPT && e->first_kept) {
		struct process *oldest = e->first_kept;

		e->first_kept = oldest->next_kept;
		if (!e->first_kept)
			e->last_kept = &e->first_kept;
		oldest->kept = false;
		e->n_kept--;
		if (oldest->final && !oldest->listed)
			merge_into_all(e, oldest);
	}
}

/* ---- handing out ---- */

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
		.processes = p->owner.pid ? 1 : p->processes + p->p.times_ended,
		.overflow = p->overflow_before + p->overflow[0] + p->overflow[1],
	};
	struct spoor_counted_call call;

	if (!t.threads && !p->sums)
		return;
	memcpy(t.comm, p->p.comm, sizeof(t.comm));
	v->task(v->ctx, &t);
	for (const struct sum *s = p->sums; s; s = s->next_of_process) {
		call = spoor_counted_sum(&s->key, &s->s);
		v->call(v->ctx, &call);
	}
	if (v->end)
		v->end(v->ctx);
}

bool spoor_ended_has_finals(const struct spoor_ended *e)
{
	return e->first_final;
}

size_t spoor_ended_finals(struct spoor_ended *e, const struct spoor_count_visitor *v)
{
	size_t n = 0;

	for (struct process *p = e->first_final, *next; p; p = next, n++) {
		next = p->next_final;
		p->next_final = NULL;
		p->listed = false;
		if (v)
			hand_out_process(p, v);
		if (e->keep)
			keep(e, p);
		else if (p->final)
			merge_into_all(e, p);
	}
	e->first_final = NULL;
	return n;
}

void spoor_ended_visit(const struct spoor_ended *e, const struct spoor_count_visitor *v)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		for (const struct process *p = e->processes[i]; p; p = p->next_same_hash)
			hand_out_process(p, v);
}

uint64_t spoor_ended_lost(const struct spoor_ended *e)
{
	return e->lost;
}
