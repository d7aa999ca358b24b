/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "analyze/userevents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define N_IDS (SPOOR_EV_USER_MAX - SPOOR_EV_USER)

struct spoor_userevents {
	struct spoor_processes *processes;
	uint16_t name_of[N_IDS];                      /* by id: number of its name + 1; 0: not seen yet */
	const struct spoor_event_class *names[N_IDS]; /* the first class of each name */
	unsigned n_names;
	struct spoor_userevent_row *rows; /* open addressing by process and name; count 0: free */
	size_t n, size;
	struct spoor_userevent_row *sorted;
};

int spoor_userevents_new(struct spoor_processes *processes, struct spoor_userevents **ret)
{
	struct spoor_userevents *u = calloc(1, sizeof(*u));

	if (!u)
		return -ENOMEM;
	u->processes = processes;
	*ret = u;
	return 0;
}

void spoor_userevents_free(struct spoor_userevents *u)
{
	if (!u)
		return;
	free(u->rows);
	free(u->sorted);
	free(u);
}

static int is_like(const struct spoor_event_class *a, const struct spoor_event_class *b)
{
	return !strcmp(a->name, b->name) && !strcmp(a->format ?: "", b->format ?: "");
}

/* One name may have many ids: programs may declare it differently, and contexts may be added to it. */
static const struct spoor_event_class *first_of_name(struct spoor_userevents *u, const struct spoor_event_class *c)
{
	uint16_t *number = &u->name_of[c->id - SPOOR_EV_USER];

	for (unsigned i = 0; !*number && i < u->n_names; i++)
		if (is_like(u->names[i], c))
			*number = (uint16_t)(i + 1);
	if (!*number) {
		u->names[u->n_names] = c;
		*number = (uint16_t)++u->n_names;
	}
	return u->names[*number - 1];
}

static struct spoor_userevent_row *find(struct spoor_userevent_row *rows, size_t size, uint32_t process,
					const struct spoor_event_class *class)
{
	size_t i = ((uint64_t)process << 16 ^ class->id) * 0x9E3779B97F4A7C15ULL >> 32;

	for (;; i++) {
		struct spoor_userevent_row *row = &rows[i & (size - 1)];

		if (!row->count || (row->process == process && row->class == class))
			return row;
	}
}

static int grow(struct spoor_userevents *u)
{
	size_t size = u->size ? u->size * 2 : 256;
	struct spoor_userevent_row *rows = calloc(size, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < u->size; i++)
		if (u->rows[i].count)
			*find(rows, size, u->rows[i].process, u->rows[i].class) = u->rows[i];
	free(u->rows);
	u->rows = rows;
	u->size = size;
	return 0;
}

int spoor_userevents_add(struct spoor_userevents *u, const struct spoor_event *ev, uint32_t pid)
{
	int process = spoor_processes_of(u->processes, ev->segment, pid, ev->h->tid, ev->h->ts);
	const struct spoor_event_class *class = first_of_name(u, ev->class);
	struct spoor_userevent_row *row;

	if (process < 0 || (u->n * 2 >= u->size && grow(u) < 0))
		return -ENOMEM;
	row = find(u->rows, u->size, (uint32_t)process, class);
	if (!row->count) {
		*row = (struct spoor_userevent_row){ .process = (uint32_t)process, .class = class, .first = ev->h->ts };
		u->n++;
	}
	row->count++;
	row->last = ev->h->ts;
	return 0;
}

static int by_count(const void *a, const void *b)
{
	const struct spoor_userevent_row *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return strcmp(x->class->name, y->class->name);
}

size_t spoor_userevents_rows(struct spoor_userevents *u, const struct spoor_userevent_row **ret)
{
	size_t n = 0;

	free(u->sorted);
	u->sorted = calloc(u->n + 1, sizeof(*u->sorted));
	for (size_t i = 0; u->sorted && i < u->size; i++)
		if (u->rows[i].count)
			u->sorted[n++] = u->rows[i];
	if (n)
		qsort(u->sorted, n, sizeof(*u->sorted), by_count);
	*ret = u->sorted;
	return n;
}
