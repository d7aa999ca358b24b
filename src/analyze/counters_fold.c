/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Threads into processes, processes into the application. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/counters.h"
#include "base/cleanup.h"

struct member {
	const struct spoor_task_counters *task;
	size_t number; /* in the snapshot: for a stable order */
	size_t group;
};

static int by_process(const void *pa, const void *pb)
{
	const struct member *a = pa, *b = pb;

	if (a->task->pid != b->task->pid)
		return a->task->pid < b->task->pid ? -1 : 1;
	if (a->task->process_start_ns != b->task->process_start_ns)
		return a->task->process_start_ns < b->task->process_start_ns ? -1 : 1;
	if (a->task->start_ns != b->task->start_ns)
		return a->task->start_ns < b->task->start_ns ? -1 : 1;
	return a->number < b->number ? -1 : 1;
}

static int same_process(const struct spoor_task_counters *a, const struct spoor_task_counters *b)
{
	return a->pid == b->pid && a->process_start_ns == b->process_start_ns;
}

static int by_start(const void *pa, const void *pb)
{
	const struct spoor_task_counters *a = pa, *b = pb;

	/* What ended processes were folded into comes last: it has no start that means anything. */
	if (!a->pid != !b->pid)
		return a->pid ? -1 : 1;
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns ? -1 : 1;
	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

/* Ended processes are known by the first of them. Who is alive knows its own name best. */
static int starts_before(const struct spoor_task_counters *a, const struct spoor_task_counters *b)
{
	pid_t pid_a = a->pid ?: a->first_pid, pid_b = b->pid ?: b->first_pid;

	if (!pid_a != !pid_b)
		return pid_a != 0;
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns;
	if (pid_a != pid_b)
		return pid_a < pid_b;
	if (!a->pid != !b->pid)
		return a->pid != 0;
	return a->tid < b->tid;
}

int spoor_task_names_better(const struct spoor_task_counters *a, const struct spoor_task_counters *b)
{
	int leader_a = a->tid == a->pid && a->pid, leader_b = b->tid == b->pid && b->pid;

	if (!same_process(a, b))
		return starts_before(a, b);
	if (leader_a != leader_b)
		return leader_a;
	if (!a->comm[0] != !b->comm[0])
		return a->comm[0] != 0;
	return a->start_ns < b->start_ns;
}

void spoor_task_set_end(struct spoor_task_counters *to, const struct spoor_task_counters *from)
{
	if (!spoor_task_ended(from))
		to->end_ns = 0;
	else if (to->end_ns && from->end_ns > to->end_ns)
		to->end_ns = from->end_ns;
}

/* `to` has no calls yet; members are those of one group, process by process. */
static void describe(struct spoor_task_counters *to, const struct member *members, size_t n,
		     enum spoor_stat_level level)
{
	const struct spoor_task_counters *name = members[0].task;
	unsigned threads = 0, processes = 0;
	uint64_t overflow = 0;

	*to = (struct spoor_task_counters){ .end_ns = 1 };
	for (size_t i = 0; i < n; i++) {
		const struct spoor_task_counters *t = members[i].task;

		threads += t->threads || !t->tid ? t->threads : 1;
		overflow = spoor_add_saturated(overflow, t->overflow);
		if (!i || !same_process(t, members[i - 1].task))
			processes += t->pid || t->processes ? t->processes ?: 1 : 0;
		spoor_task_set_end(to, t);
		if (i && spoor_task_names_better(t, name))
			name = t;
	}
	to->pid = name->pid;
	to->first_pid = name->first_pid;
	if (level == SPOOR_STAT_APPLICATION && !name->pid)
		to->pid = name->first_pid; /* by the pid of its first process an application is known */
	to->tid = level == SPOOR_STAT_THREAD ? name->tid : to->pid;
	to->ppid = name->ppid;
	memcpy(to->comm, name->comm, sizeof(to->comm));
	to->start_ns = name->start_ns;
	to->process_start_ns = name->process_start_ns;
	to->threads = threads;
	to->processes = processes;
	to->overflow = overflow;
}

static size_t group(struct member *members, size_t n, enum spoor_stat_level level)
{
	size_t groups = 0;

	qsort(members, n, sizeof(*members), by_process);
	for (size_t i = 0; i < n; i++) {
		int new = !i || level == SPOOR_STAT_THREAD ||
			  (level != SPOOR_STAT_APPLICATION && !same_process(members[i].task, members[i - 1].task));

		groups += (size_t) new;
		members[i].group = groups - 1;
	}
	return groups;
}

static size_t collect_calls(const struct member *members, size_t n, struct spoor_call_ref *refs)
{
	size_t n_refs = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < members[i].task->n_calls; k++)
			refs[n_refs++] = (struct spoor_call_ref){ members[i].group, &members[i].task->calls[k],
								  (uint8_t)spoor_task_ended(members[i].task) };
	return n_refs;
}

static int fold(struct spoor_counters *to, const struct member *members, size_t n, struct spoor_call_ref *refs,
		enum spoor_stat_level level, int by_site)
{
	size_t n_refs = collect_calls(members, n, refs), at = 0, end_ref;
	int r = 0;

	spoor_call_refs_sort(refs, n_refs);
	for (size_t i = 0, end; i < n && r == 0; i = end, at = end_ref) {
		struct spoor_task_counters *task = spoor_counters_add_task(to);

		if (!task)
			return -ENOMEM;
		for (end = i; end < n && members[end].group == members[i].group; end++)
			;
		for (end_ref = at; end_ref < n_refs && refs[end_ref].group == members[i].group; end_ref++)
			;
		describe(task, members + i, end - i, level);
		r = spoor_call_refs_merge(refs + at, end_ref - at, by_site, task);
	}
	return r;
}

int spoor_counters_fold(const struct spoor_counters *c, enum spoor_stat_level level, int by_site,
			struct spoor_counters *ret)
{
	struct spoor_counters folded = *c;
	_cleanup_(spoor_freep) struct member *members = calloc(c->n + 1, sizeof(*members));
	_cleanup_(spoor_freep) struct spoor_call_ref *refs = NULL;
	size_t n_calls = 0;

	folded.tasks = NULL;
	folded.n = 0;
	for (size_t i = 0; i < c->n; i++)
		n_calls += c->tasks[i].n_calls;
	refs = calloc(n_calls + 1, sizeof(*refs));
	if (!members || !refs)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++)
		members[i] = (struct member){ &c->tasks[i], i, 0 };
	group(members, c->n, level);
	if (fold(&folded, members, c->n, refs, level, by_site) < 0) {
		spoor_counters_done(&folded);
		return -ENOMEM;
	}
	if (folded.n)
		qsort(folded.tasks, folded.n, sizeof(*folded.tasks), by_start);
	*ret = folded;
	return 0;
}
