/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Call sites of counters: stacks get labels, and stacks with one label are one site. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "present/stat_internal.h"

/* Just-in-time compiled code is other code in another process, so a stack is named together with its process. */
struct stack {
	pid_t pid;
	uint32_t stack, site;
	char *label;
};

static int by_stack(const void *pa, const void *pb)
{
	const struct stack *a = pa, *b = pb;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return a->stack < b->stack ? -1 : a->stack > b->stack;
}

static int by_label(const void *pa, const void *pb)
{
	const struct stack *a = pa, *b = pb;
	int r = strcmp(a->label, b->label);

	return r ?: by_stack(a, b);
}

/* Whose the stacks of ended processes are: of the only process that there was, else nobody's. */
static pid_t only_process(const struct spoor_counters *c)
{
	pid_t pid = 0;

	for (size_t i = 0; i < c->n; i++) {
		pid_t of = c->tasks[i].pid ?: c->tasks[i].first_pid;

		if ((pid && of != pid) || (!c->tasks[i].pid && c->tasks[i].processes > 1))
			return 0;
		pid = of;
	}
	return pid;
}

static size_t collect(const struct spoor_counters *c, struct stack *stacks)
{
	pid_t only = only_process(c);
	size_t n = 0, kept = 0;

	for (size_t i = 0; i < c->n; i++)
		for (size_t k = 0; k < c->tasks[i].n_calls; k++)
			if (c->tasks[i].calls[k].stack)
				stacks[n++] =
					(struct stack){ c->tasks[i].pid ?: only, c->tasks[i].calls[k].stack, 0, NULL };
	qsort(stacks, n, sizeof(*stacks), by_stack);
	for (size_t i = 0; i < n; i++)
		if (!kept || by_stack(&stacks[kept - 1], &stacks[i]) != 0)
			stacks[kept++] = stacks[i];
	return kept;
}

/* Takes the labels over; stacks are in the order of labels. */
static int number(struct stack *stacks, size_t n, struct spoor_stat_labels *l)
{
	l->labels = calloc(n + 1, sizeof(*l->labels));
	l->stacks = calloc(n + 1, sizeof(*l->stacks));
	if (!l->labels || !l->stacks)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (!l->n || strcmp(l->labels[l->n - 1], stacks[i].label)) {
			l->stacks[l->n].pid = stacks[i].pid;
			l->stacks[l->n].stack = stacks[i].stack;
			l->labels[l->n++] = TAKE_PTR(stacks[i].label);
		}
		stacks[i].site = (uint32_t)l->n;
	}
	return 0;
}

static void replace(struct spoor_counters *c, const struct stack *stacks, size_t n)
{
	pid_t only = only_process(c);

	for (size_t i = 0; i < c->n; i++) {
		for (size_t k = 0; k < c->tasks[i].n_calls; k++) {
			struct spoor_call_counters *call = &c->tasks[i].calls[k];
			struct stack wanted = { c->tasks[i].pid ?: only, call->stack, 0, NULL };
			const struct stack *s = bsearch(&wanted, stacks, n, sizeof(*stacks), by_stack);

			call->stack = s ? s->site : 0;
		}
	}
}

static int label(struct spoor_counters *c, struct stack *stacks, size_t n, const struct spoor_stat_view *v,
		 struct spoor_stat_labels *l)
{
	for (size_t i = 0; i < n; i++) {
		stacks[i].label = v->site ? v->site(v->p, stacks[i].pid, stacks[i].stack) : strdup("?");
		if (!stacks[i].label)
			return -ENOMEM;
	}
	qsort(stacks, n, sizeof(*stacks), by_label);
	if (number(stacks, n, l) < 0)
		return -ENOMEM;
	qsort(stacks, n, sizeof(*stacks), by_stack);
	replace(c, stacks, n);
	return 0;
}

int spoor_stat_label(const struct spoor_counters *c, const struct spoor_stat_view *v, struct spoor_counters *ret,
		     struct spoor_stat_labels *ret_labels)
{
	_cleanup_(spoor_freep) struct stack *stacks = NULL;
	struct spoor_stat_labels labels = {};
	struct spoor_counters copy = {};
	size_t n = 0;
	int r;

	for (size_t i = 0; i < c->n; i++)
		n += c->tasks[i].n_calls;
	stacks = calloc(n + 1, sizeof(*stacks));
	if (!stacks || spoor_counters_copy(c, &copy) < 0)
		return -ENOMEM;
	n = collect(c, stacks);
	r = label(&copy, stacks, n, v, &labels);
	for (size_t i = 0; i < n; i++)
		free(stacks[i].label);
	if (r < 0) {
		spoor_stat_labels_done(&labels);
		spoor_counters_done(&copy);
		return r;
	}
	*ret = copy;
	*ret_labels = labels;
	return 0;
}

void spoor_stat_labels_done(struct spoor_stat_labels *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->labels[i]);
	free(l->labels);
	free(l->stacks);
	*l = (struct spoor_stat_labels){};
}

const char *spoor_stat_label_of(const struct spoor_stat_labels *l, uint32_t site)
{
	return site && site <= l->n ? l->labels[site - 1] : "[no stack]";
}
