/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Processes by parent: a line each, with what it did itself and what it did together with its descendants. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "present/stat_internal.h"

#define NOBODY SIZE_MAX
#define MAX_INDENT 32

struct node {
	const struct spoor_task_counters *task;
	struct sum {
		uint64_t ns, calls, errors;
	} own, all;
	size_t parent, first_child, last_child, sibling;
	unsigned depth;
};

static void add(struct sum *to, const struct sum *from)
{
	to->ns = spoor_add_saturated(to->ns, from->ns);
	to->calls = spoor_add_saturated(to->calls, from->calls);
	to->errors = spoor_add_saturated(to->errors, from->errors);
}

static int by_pid(const void *pa, const void *pb, void *nodes)
{
	size_t a = *(const size_t *)pa, b = *(const size_t *)pb;
	pid_t x = ((struct node *)nodes)[a].task->pid, y = ((struct node *)nodes)[b].task->pid;

	if (x != y)
		return x < y ? -1 : 1;
	return a < b ? -1 : a > b;
}

/*
 * Tasks are in the order of their start. The parent is the last process of its pid that started before: a pid may be
 * used again, and there can be no circle.
 */
static size_t parent_of(struct node *nodes, const size_t *order, size_t n, size_t child)
{
	pid_t pid = nodes[child].task->ppid;
	size_t low = 0, high = n;

	/* The first in the order that is not before (pid, child). */
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		pid_t p = nodes[order[mid]].task->pid;

		if (p < pid || (p == pid && order[mid] < child))
			low = mid + 1;
		else
			high = mid;
	}
	if (!pid || !low || nodes[order[low - 1]].task->pid != pid)
		return NOBODY;
	return order[low - 1];
}

static void link_child(struct node *nodes, size_t child)
{
	size_t parent = nodes[child].parent, last;

	if (parent == NOBODY)
		return;
	last = nodes[parent].last_child;
	if (last == NOBODY)
		nodes[parent].first_child = child;
	else
		nodes[last].sibling = child;
	nodes[parent].last_child = child;
	nodes[child].depth = nodes[parent].depth + 1;
}

static int make(struct node *nodes, const struct spoor_counters *c)
{
	_cleanup_(spoor_freep) size_t *order = calloc(c->n + 1, sizeof(*order));

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++) {
		struct spoor_call_counters total = spoor_task_total(&c->tasks[i]);
		struct sum own = { spoor_call_shown_ns(&total), spoor_call_shown(&total), total.errors };

		nodes[i] = (struct node){ &c->tasks[i], own, own, NOBODY, NOBODY, NOBODY, NOBODY, 0 };
		order[i] = i;
	}
	qsort_r(order, c->n, sizeof(*order), by_pid, nodes);
	for (size_t i = 0; i < c->n; i++) {
		nodes[i].parent = parent_of(nodes, order, c->n, i);
		link_child(nodes, i);
	}
	for (size_t i = c->n; i-- > 0;)
		if (nodes[i].parent != NOBODY)
			add(&nodes[nodes[i].parent].all, &nodes[i].all);
	return 0;
}

/* Depth first: children, else the next sibling of the nearest that has one. */
static size_t next(const struct node *nodes, size_t i)
{
	if (nodes[i].first_child != NOBODY)
		return nodes[i].first_child;
	while (i != NOBODY && nodes[i].sibling == NOBODY)
		i = nodes[i].parent;
	return i == NOBODY ? NOBODY : nodes[i].sibling;
}

struct widths {
	int ns, calls, errors;
};

static int digits(uint64_t n, int least)
{
	int len = snprintf(NULL, 0, "%" PRIu64, n);

	return len > least ? len : least;
}

static void put_sum(FILE *out, const struct sum *s, const struct widths *w)
{
	fprintf(out, " %*" PRIu64 ".%09" PRIu64 " %*" PRIu64 " %*" PRIu64, w->ns, s->ns / SPOOR_NS_PER_SEC,
		s->ns % SPOOR_NS_PER_SEC, w->calls, s->calls, w->errors, s->errors);
}

static void put_node(FILE *out, const struct node *node, uint32_t share, const struct widths *w,
		     const struct spoor_stat_view *v)
{
	const struct spoor_task_counters *t = node->task;
	unsigned indent = node->depth < MAX_INDENT ? node->depth : MAX_INDENT;

	fprintf(out, "%3u.%02u", share / 100, share % 100);
	put_sum(out, &node->all, w);
	put_sum(out, &node->own, w);
	fprintf(out, " %*s", (int)indent * 2, "");
	if (t->pid) {
		fprintf(out, "%d ", t->pid);
		spoor_stat_put_text(out, v, t->comm, strnlen(t->comm, sizeof(t->comm)));
		if (t->threads > 1)
			fprintf(out, " (%u threads)", t->threads);
	} else {
		fprintf(out, "ended processes (%u)", t->processes);
	}
	fputc('\n', out);
}

static void put_headings(FILE *out, const struct widths *w, const struct spoor_stat_view *v)
{
	int ns = w->ns + 10, all = ns + w->calls + w->errors + 2;

	fputs(v->colour ? "\033[2m" : "", out);
	fprintf(out, "%6s %-*s %s\n", "", all, "with its descendants", "itself");
	fprintf(out, "%% time %*s %*s %*s %*s %*s %*s process%s\n", ns, "seconds", w->calls, "calls", w->errors,
		"errors", ns, "seconds", w->calls, "calls", w->errors, "errors", v->colour ? "\033[0m" : "");
}

static int put(FILE *out, const struct node *nodes, size_t n, const struct spoor_stat_view *v)
{
	_cleanup_(spoor_freep) uint64_t *times = calloc(n + 1, sizeof(*times));
	_cleanup_(spoor_freep) uint32_t *shares = calloc(n + 1, sizeof(*shares));
	struct widths w = { 1, 5, 6 };

	if (!times || !shares)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		times[i] = nodes[i].own.ns;
		w.ns = digits(nodes[i].all.ns / SPOOR_NS_PER_SEC, w.ns);
		w.calls = digits(nodes[i].all.calls, w.calls);
		w.errors = digits(nodes[i].all.errors, w.errors);
	}
	if (spoor_shares(times, n, shares) < 0)
		return -ENOMEM;
	put_headings(out, &w, v);
	for (size_t root = 0; root < n; root++)
		for (size_t i = nodes[root].parent == NOBODY ? root : NOBODY; i != NOBODY; i = next(nodes, i))
			put_node(out, &nodes[i], shares[i], &w, v);
	return 0;
}

int spoor_stat_put_tree(FILE *out, const struct spoor_counters *c, const struct spoor_stat_view *v)
{
	_cleanup_(spoor_freep) struct node *nodes = calloc(c->n + 1, sizeof(*nodes));

	if (!nodes || make(nodes, c) < 0)
		return -ENOMEM;
	return put(out, nodes, c->n, v);
}
