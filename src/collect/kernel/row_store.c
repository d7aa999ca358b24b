/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/kernel/row_store.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/kernel/skeleton.h"

#define CHUNK_BATCH 32 /* 2 MiB */
#define RULE_SLOTS (2 * SPOOR_MAX_RULES)

struct spoor_row_store {
	struct spoor_kernel *k;
	struct spoor_row *chunk; /* the one being filled, mapped */
	uint32_t n_chunks, used; /* rows used in it */
	uint32_t n_ready;        /* chunks that the kernel knows: n_chunks, and empty ones */
	struct spoor_row *ready[CHUNK_BATCH];
	uint32_t n_pages, n_rules;
	uint64_t max_bytes;
	uint32_t slots[RULE_SLOTS]; /* hash of rules: index + 1 into k->rules */
};

int spoor_row_store_new(struct spoor_kernel *k, uint64_t max_bytes, struct spoor_row_store **ret)
{
	struct spoor_row_store *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->k = k;
	s->max_bytes = max_bytes;
	s->n_rules = 1; /* 0 is NONE */
	*ret = s;
	return 0;
}

static void unmap_chunk(struct spoor_row_store *s)
{
	if (s->chunk)
		munmap(s->chunk, sizeof(struct spoor_row_chunk));
	s->chunk = NULL;
}

void spoor_row_store_free(struct spoor_row_store *s)
{
	if (!s)
		return;
	unmap_chunk(s);
	for (uint32_t i = s->n_chunks; i < s->n_ready; i++)
		munmap(s->ready[i % CHUNK_BATCH], sizeof(struct spoor_row_chunk));
	free(s);
}

/*
 * Adds a batch of empty chunks. The kernel waits for a grace period after each change of a map of maps, some 15 ms, but
 * only once for a whole batch.
 */
static int add_chunks(struct spoor_row_store *s)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	uint32_t keys[CHUNK_BATCH] = {}, n = 0;
	int r, fds[CHUNK_BATCH] = {};

	while (n < CHUNK_BATCH && s->n_ready + n < SPOOR_MAX_CHUNKS &&
	       (s->n_ready + n + 1) * sizeof(struct spoor_row_chunk) <= s->max_bytes) {
		int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "spoor_rows", 4, sizeof(struct spoor_row_chunk), 1, &opts);

		if (fd < 0)
			break;
		keys[n] = s->n_ready + n;
		fds[n++] = fd;
	}
	r = n ? bpf_map_update_batch(bpf_map__fd(s->k->c.row_chunks), keys, fds, &n, NULL) : -ENOSPC;
	for (uint32_t i = 0; i < n; i++) {
		void *p = mmap(NULL, sizeof(struct spoor_row_chunk), PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);

		close(fds[i]);
		if (r || p == MAP_FAILED) {
			r = -ENOSPC;
			continue;
		}
		s->ready[s->n_ready++ % CHUNK_BATCH] = p;
	}
	return r ? -ENOSPC : 0;
}

static int next_chunk(struct spoor_row_store *s)
{
	if (s->n_chunks == s->n_ready) {
		int r = add_chunks(s);

		if (r)
			return r;
	}
	unmap_chunk(s);
	s->chunk = s->ready[s->n_chunks++ % CHUNK_BATCH];
	s->used = 0;
	return 0;
}

/* The index of a rule in the dictionary of all objects; 0 (NONE) when it is full. */
static uint16_t intern_rule(struct spoor_row_store *s, const struct spoor_rule *rule)
{
	uint64_t bits, h;

	memcpy(&bits, rule, sizeof(bits));
	if (rule->op == SPOOR_RULE_NONE)
		return 0;
	h = bits * 0x9e3779b97f4a7c15ULL >> 47;
	for (uint32_t i = h % RULE_SLOTS;; i = (i + 1) % RULE_SLOTS) {
		if (!s->slots[i]) {
			if (s->n_rules >= SPOOR_MAX_RULES)
				return 0;
			s->k->rules[s->n_rules] = *rule;
			s->slots[i] = s->n_rules + 1;
			return s->n_rules++;
		}
		if (!memcmp(&s->k->rules[s->slots[i] - 1], rule, sizeof(*rule)))
			return s->slots[i] - 1;
	}
}

/* Copies the rows of one text page; its place goes to *ret. */
static int store_page(struct spoor_row_store *s, const struct spoor_row_table *t, const struct spoor_row_page *page,
		      const uint16_t *rule_ids, struct spoor_row_page *ret)
{
	struct spoor_row_page at = {};

	if (page->count && page->count <= SPOOR_CHUNK_ROWS) {
		if (!s->chunk || s->used + page->count > SPOOR_CHUNK_ROWS) {
			int r = next_chunk(s);

			if (r)
				return r;
		}
		at.first = (s->n_chunks - 1) * SPOOR_CHUNK_ROWS + s->used;
		at.count = page->count;
		for (uint32_t i = 0; i < page->count; i++) {
			const struct spoor_row *row = &t->rows[page->first + i];

			s->chunk[s->used++] = (struct spoor_row){ row->pc, rule_ids[row->rule] };
		}
	}
	*ret = at;
	return 0;
}

static int store_table(struct spoor_row_store *s, const struct spoor_row_table *t, uint32_t *ret_first_page)
{
	_cleanup_(spoor_freep) uint16_t *ids = malloc((t->n_rules + 1) * sizeof(*ids));

	if (!ids)
		return -ENOMEM;
	if (s->n_pages + t->n_pages > SPOOR_MAX_ROW_PAGES)
		return -ENOSPC;
	for (uint32_t i = 0; i < t->n_rules; i++)
		ids[i] = intern_rule(s, &t->rules[i]);
	for (uint32_t i = 0; i < t->n_pages; i++) {
		int r = store_page(s, t, &t->pages[i], ids, &s->k->row_pages[s->n_pages + i]);

		if (r)
			return r;
	}
	*ret_first_page = s->n_pages;
	s->n_pages += t->n_pages;
	return 0;
}

int spoor_row_store_publish(struct spoor_row_store *s, uint32_t id, const struct spoor_object_identity *identity,
			    const struct spoor_rows *rows, enum spoor_object_state state, bool app, unsigned limit)
{
	struct spoor_kernel_object *o;
	int r = 0;

	if (id >= SPOOR_KERNEL_OBJECTS)
		return -ENOSPC;
	o = &s->k->objects[id];
	o->app = app;
	o->limit = limit;
	for (unsigned i = 0; identity && i < identity->n_loads && i < SPOOR_OBJECT_LOADS; i++) {
		o->loads[i].offset = identity->loads[i].offset; /* exactly: two may share a page of the file */
		o->loads[i].end = identity->loads[i].offset + identity->loads[i].filesz;
		o->loads[i].delta = identity->loads[i].vaddr - identity->loads[i].offset;
		o->n_loads = i + 1;
	}
	if (state == SPOOR_OBJECT_READY) {
		r = store_table(s, &rows->table, &o->first_page);
		o->text_base = rows->table.text_base;
		o->n_pages = rows->table.n_pages;
		if (r)
			state = SPOOR_OBJECT_NO_MEMORY;
	}
	__atomic_store_n(&o->state, state, __ATOMIC_RELEASE);
	return r;
}

uint64_t spoor_row_store_bytes(const struct spoor_row_store *s)
{
	return (uint64_t)s->n_chunks * sizeof(struct spoor_row_chunk);
}
