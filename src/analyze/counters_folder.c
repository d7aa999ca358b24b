/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Folding while a snapshot is taken: of ten thousand threads only what is asked for is kept. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/counters.h"

/* Open addressing; value 0: free. */
struct slot {
	uint64_t a, b;
	size_t value;
};

struct table {
	struct slot *slots;
	size_t size, used;
};

struct spoor_folder {
	enum spoor_stat_level level;
	struct spoor_counters to;
	struct spoor_counters names; /* of each task the one that it has its name and times from; without calls */
	size_t task;                 /* the one that calls go to */
	struct table processes;      /* (pid, start) -> number of the task + 1 */
	struct table calls;          /* (number of the task, id and stack) -> number of the call + 1 */
};

static struct slot *find(struct slot *slots, size_t size, uint64_t a, uint64_t b)
{
	size_t at = (a * 0x9E3779B97F4A7C15ULL ^ b * 0xC2B2AE3D27D4EB4FULL) >> 20;

	for (;; at++) {
		struct slot *s = &slots[at & (size - 1)];

		if (!s->value || (s->a == a && s->b == b))
			return s;
	}
}

static int grow(struct table *t)
{
	size_t size = t->size ? t->size * 2 : 64;
	struct slot *slots = calloc(size, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < t->size; i++)
		if (t->slots[i].value)
			*find(slots, size, t->slots[i].a, t->slots[i].b) = t->slots[i];
	free(t->slots);
	t->slots = slots;
	t->size = size;
	return 0;
}

/* The slot of a key, which the caller fills if it is free. NULL: out of memory. */
static struct slot *slot_of(struct table *t, uint64_t a, uint64_t b)
{
	struct slot *s;

	if (t->used * 2 >= t->size && grow(t) < 0)
		return NULL;
	s = find(t->slots, t->size, a, b);
	if (s->value)
		return s;
	s->a = a;
	s->b = b;
	t->used++;
	return s;
}

int spoor_folder_new(enum spoor_stat_level level, struct spoor_folder **ret)
{
	struct spoor_folder *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->level = level;
	*ret = f;
	return 0;
}

void spoor_folder_free(struct spoor_folder *f)
{
	if (!f)
		return;
	spoor_counters_done(&f->to);
	spoor_counters_done(&f->names);
	free(f->processes.slots);
	free(f->calls.slots);
	free(f);
}

/* ---- tasks ---- */

static int add_task(struct spoor_folder *f, const struct spoor_task_counters *t)
{
	struct spoor_task_counters *task = spoor_counters_add_task(&f->to), *name;

	if (!task)
		return -ENOMEM;
	name = spoor_counters_add_task(&f->names);
	if (!name) {
		f->to.n--;
		return -ENOMEM;
	}
	*name = *t;
	name->calls = NULL;
	name->n_calls = 0;
	f->task = f->to.n - 1;
	if (f->level == SPOOR_STAT_THREAD)
		*task = *name;
	else
		task->end_ns = 1; /* until one comes that is alive, or later */
	return 0;
}

/* Which task this one goes into; a new one, if there is none. */
static int choose_task(struct spoor_folder *f, const struct spoor_task_counters *t, size_t *ret_processes)
{
	struct slot *s;
	int r = 0;

	*ret_processes = 0;
	if (f->level == SPOOR_STAT_THREAD)
		return add_task(f, t);
	s = slot_of(&f->processes, (uint64_t)t->pid, t->process_start_ns);
	if (!s)
		return -ENOMEM;
	if (!s->value || !t->pid)
		*ret_processes = t->pid && !t->processes ? 1 : t->processes;
	f->task = s->value ? s->value - 1 : 0;
	if (!s->value && (f->level != SPOOR_STAT_APPLICATION || !f->to.n))
		r = add_task(f, t);
	if (r == 0)
		s->value = f->task + 1;
	return r;
}

/* So that it is the same task in the next snapshot, whichever of its threads are there then. */
static void name_task(struct spoor_task_counters *to, const struct spoor_task_counters *name,
		      enum spoor_stat_level level)
{
	to->pid = to->tid = name->pid;
	if (level == SPOOR_STAT_APPLICATION && !name->pid)
		to->pid = to->tid = name->first_pid;
	to->first_pid = name->first_pid;
	to->ppid = name->ppid;
	memcpy(to->comm, name->comm, sizeof(to->comm));
	to->process_start_ns = name->process_start_ns;
	to->start_ns = name->process_start_ns ?: name->start_ns;
}

int spoor_folder_task(struct spoor_folder *f, const struct spoor_task_counters *t)
{
	struct spoor_task_counters *to, *name;
	size_t processes;
	int r = choose_task(f, t, &processes);

	if (r < 0 || f->level == SPOOR_STAT_THREAD)
		return r;
	to = &f->to.tasks[f->task];
	name = &f->names.tasks[f->task];
	to->threads += t->threads || !t->tid ? t->threads : 1;
	to->processes += (unsigned)processes;
	to->overflow = spoor_add_saturated(to->overflow, t->overflow);
	spoor_task_set_end(to, t);
	if (spoor_task_names_better(t, name)) {
		*name = *t;
		name->calls = NULL;
		name->n_calls = 0;
	}
	name_task(to, name, f->level);
	return 0;
}

/* ---- calls ---- */

struct spoor_call_counters *spoor_folder_call(struct spoor_folder *f, uint16_t id, uint32_t stack)
{
	struct spoor_task_counters *task = &f->to.tasks[f->task];
	struct spoor_call_counters *call;
	struct slot *s;

	if (f->level == SPOOR_STAT_THREAD)
		return spoor_task_add_call(task, id, stack);
	s = slot_of(&f->calls, f->task, (uint64_t)id << 32 | stack);
	if (!s)
		return NULL;
	if (s->value)
		return &task->calls[s->value - 1];
	call = spoor_task_add_call(task, id, stack);
	s->value = call ? task->n_calls : 0;
	return call;
}

void spoor_folder_take(struct spoor_folder *f, struct spoor_counters *ret)
{
	*ret = f->to;
	f->to = (struct spoor_counters){};
}
