/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "analyze/processes.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A thread definition, or (no definition) a bare pid, once given its number. */
struct known {
	const struct spoor_thread *def;
	uint32_t pid, number;
	uint8_t used;
};

struct spoor_processes {
	enum spoor_by by;
	struct spoor_process *list;
	size_t n, capacity;
	struct known *known; /* open addressing */
	size_t size, n_known;
	uint32_t *index; /* number + 1 by what makes processes equal; open addressing */
	size_t index_size;
	struct spoor_processes *each; /* of applications: the processes themselves, to count them */
};

int spoor_processes_new(enum spoor_by by, struct spoor_processes **ret)
{
	struct spoor_processes *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->by = by;
	if (by != SPOOR_BY_PROCESS && spoor_processes_new(SPOOR_BY_PROCESS, &p->each) < 0) {
		free(p);
		return -ENOMEM;
	}
	*ret = p;
	return 0;
}

void spoor_processes_free(struct spoor_processes *p)
{
	if (!p)
		return;
	free(p->list);
	free(p->known);
	free(p->index);
	spoor_processes_free(p->each);
	free(p);
}

static uint64_t mix(uint64_t x)
{
	return (x * 0x9E3779B97F4A7C15ULL) >> 24;
}

static struct known *find_known(struct known *known, size_t size, const struct spoor_thread *def, uint32_t pid)
{
	for (size_t i = mix((uintptr_t)def ^ (uint64_t)pid << 32);; i++) {
		struct known *k = &known[i & (size - 1)];

		if (!k->used || (k->def == def && k->pid == pid))
			return k;
	}
}

static int grow_known(struct spoor_processes *p)
{
	size_t size = p->size ? p->size * 2 : 256;
	struct known *known = calloc(size, sizeof(*known));

	if (!known)
		return -ENOMEM;
	for (size_t i = 0; i < p->size; i++)
		if (p->known[i].used)
			*find_known(known, size, p->known[i].def, p->known[i].pid) = p->known[i];
	free(p->known);
	p->known = known;
	p->size = size;
	return 0;
}

static int same(const struct spoor_processes *p, const struct spoor_process *a, const struct spoor_process *b)
{
	if (p->by == SPOOR_BY_ALL)
		return 1;
	if (p->by == SPOOR_BY_APP)
		return !strncmp(a->comm, b->comm, sizeof(a->comm));
	return a->pid == b->pid && a->start == b->start && a->gen == b->gen;
}

static uint64_t hash(const struct spoor_processes *p, const struct spoor_process *a)
{
	uint64_t words[2];

	if (p->by == SPOOR_BY_ALL)
		return 0;
	if (p->by == SPOOR_BY_PROCESS)
		return mix(a->pid ^ a->start ^ (uint64_t)a->gen << 40);
	memcpy(words, a->comm, sizeof(words));
	return mix(words[0] ^ words[1] << 7);
}

static uint32_t *find_index(const struct spoor_processes *p, uint32_t *index, size_t size,
			    const struct spoor_process *a)
{
	for (size_t i = hash(p, a);; i++) {
		uint32_t *slot = &index[i & (size - 1)];

		if (!*slot || same(p, &p->list[*slot - 1], a))
			return slot;
	}
}

static int grow_index(struct spoor_processes *p)
{
	size_t size = p->index_size ? p->index_size * 2 : 64;
	uint32_t *index = calloc(size, sizeof(*index));

	if (!index)
		return -ENOMEM;
	for (size_t i = 0; i < p->n; i++)
		*find_index(p, index, size, &p->list[i]) = (uint32_t)i + 1;
	free(p->index);
	p->index = index;
	p->index_size = size;
	return 0;
}

static int add(struct spoor_processes *p, const struct spoor_process *process)
{
	if (p->n == INT_MAX)
		return -ENOMEM;
	if (p->n == p->capacity) {
		size_t capacity = p->capacity ? p->capacity * 2 : 64;
		struct spoor_process *list = reallocarray(p->list, capacity, sizeof(*list));

		if (!list)
			return -ENOMEM;
		p->list = list;
		p->capacity = capacity;
	}
	p->list[p->n++] = *process;
	return 0;
}

static int number_of(struct spoor_processes *p, const struct spoor_thread *def, uint32_t pid)
{
	struct spoor_process process = { .pid = pid };
	uint32_t *slot;

	if (def) {
		process.start = def->start;
		process.gen = def->gen;
		memcpy(process.comm, def->comm, sizeof(process.comm));
		memset(process.comm + strnlen(process.comm, 16), 0, 16 - strnlen(process.comm, 16));
	}
	if (p->n * 2 >= p->index_size && grow_index(p) < 0)
		return -ENOMEM;
	slot = find_index(p, p->index, p->index_size, &process);
	if (!*slot) {
		if (add(p, &process) < 0)
			return -ENOMEM;
		*slot = (uint32_t)p->n;
	} else if (p->by == SPOOR_BY_PROCESS && process.comm[0]) {
		memcpy(p->list[*slot - 1].comm, process.comm, sizeof(process.comm)); /* renamed */
	}
	return (int)*slot - 1;
}

int spoor_processes_of(struct spoor_processes *p, const struct spoor_segment *segment, uint32_t pid, uint32_t tid,
		       uint64_t ts)
{
	const struct spoor_thread *def = spoor_segment_thread(segment, pid, ts);
	struct known *k;
	int number;

	if (!def && tid != pid) /* the leader may have ended before its threads */
		def = spoor_segment_thread(segment, tid, ts);
	if (p->n_known * 2 >= p->size && grow_known(p) < 0)
		return -ENOMEM;
	k = find_known(p->known, p->size, def, pid);
	if (k->used)
		return (int)k->number;
	number = number_of(p, def, pid);
	if (number < 0)
		return number;
	if (!p->each) {
		p->list[number].n_pids = 1;
	} else {
		size_t before = p->each->n;

		if (number_of(p->each, def, pid) < 0)
			return -ENOMEM;
		p->list[number].n_pids += p->each->n > before;
	}
	*k = (struct known){ def, pid, (uint32_t)number, 1 };
	p->n_known++;
	return number;
}

size_t spoor_processes_count(const struct spoor_processes *p)
{
	return p->n;
}

const struct spoor_process *spoor_processes_get(const struct spoor_processes *p, unsigned number)
{
	return &p->list[number];
}
