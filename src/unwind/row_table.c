/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Settled ranges -> pages of rows. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "unwind/row_file.h"
#include "unwind/rowset.h"

#define PAGE_MASK ((1u << SPOOR_TEXT_PAGE_SHIFT) - 1)

struct table {
	struct spoor_row_page *pages;
	struct spoor_row *rows;
	__u32 n_rows, n_pages;
	__u32 next_page; /* pages below have been begun */
	__u32 n_dropped;
	__u16 rule;      /* in effect */
};

static void free_table(struct table *t)
{
	free(t->pages);
	free(t->rows);
}

/* A page with more rows than the kernel side can search is left without. */
static void end_page(struct table *t)
{
	struct spoor_row_page *page;

	if (!t->next_page)
		return;
	page = &t->pages[t->next_page - 1];
	if (page->count <= SPOOR_TEXT_PAGE_MAX_ROWS)
		return;
	t->n_dropped += page->count;
	t->n_rows -= page->count;
	page->count = 0;
}

static void put(struct table *t, __u32 at, __u16 rule)
{
	t->rows[t->n_rows++] = (struct spoor_row){ at & PAGE_MASK, rule };
	t->pages[t->next_page - 1].count++;
}

/* Begins pages so that `page` is the last begun. One in which nothing is known stays empty until a row comes. */
static void begin_pages(struct table *t, __u32 page)
{
	while (t->next_page <= page) {
		end_page(t);
		t->pages[t->next_page++].first = t->n_rows;
		if (t->rule)
			put(t, 0, t->rule);
	}
}

static void add(struct table *t, __u32 at, __u16 rule)
{
	__u32 page = at >> SPOOR_TEXT_PAGE_SHIFT;

	if (rule == t->rule || page >= t->n_pages)
		return;
	begin_pages(t, page);
	if (!t->pages[page].count && (at & PAGE_MASK))
		put(t, 0, 0);
	else if (t->pages[page].count && t->rows[t->n_rows - 1].pc == (at & PAGE_MASK))
		t->n_rows--, t->pages[page].count--;
	put(t, at, rule);
	t->rule = rule;
}

/* The last row at or before the address, or the first. */
static const struct rowset_row *row_at(const struct rowset_row *row, __u32 n, __u32 at)
{
	__u32 half;

	for (; n > 1; n -= half) {
		half = n / 2;
		if (row[half].start <= at)
			row += half;
	}
	return row;
}

static void add_range(struct table *t, const struct rowset *s, const struct rowset_range *range)
{
	const struct rowset_row *row, *end;

	if (!range->count)
		return;
	/* An overlap may have cut off where the range began. */
	end = &s->rows[range->first + range->count];
	row = row_at(&s->rows[range->first], range->count, range->start);
	for (; row < end && row->start < range->end; row++)
		add(t, row->start > range->start ? row->start : range->start, row->rule);
}

static void make(struct table *t, const struct rowset *s)
{
	const struct rowset_range *range, *end = s->ranges + s->n_ranges;

	for (range = s->ranges; range < end; range++) {
		if (range->start >= range->end)
			continue;
		if (!range->count || s->rows[range->first].start > range->start)
			add(t, range->start, 0);
		add_range(t, s, range);
		if (range + 1 == end || range[1].start != range->end)
			add(t, range->end, 0);
	}
	if (t->n_pages)
		begin_pages(t, t->n_pages - 1);
	end_page(t);
}

int spoor_rowset_table(const struct rowset *s, struct spoor_rows *ret)
{
	_cleanup_(free_table) struct table t = { .n_pages = s->n_pages };
	struct spoor_row_file *file;
	__u64 pages_size, rules_size, rows_size, size;
	char *at;
	int r;

	/*
	 * Each range may add a row before and after it, each page one at its start; a range that was cut repeats one
	 * row at each cut.
	 */
	t.pages = calloc(s->n_pages, sizeof(*t.pages));
	t.rows = calloc((size_t)s->n_rows + 4 * (size_t)s->n_ranges + 2 * (size_t)s->n_pages + 4, sizeof(*t.rows));
	if (!t.pages || !t.rows)
		return -ENOMEM;
	make(&t, s);

	pages_size = t.n_pages * sizeof(*t.pages);
	rules_size = s->n_rules * sizeof(*s->rules);
	rows_size = t.n_rows * sizeof(*t.rows);
	size = sizeof(*file) + pages_size + rules_size + rows_size;
	file = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (file == MAP_FAILED)
		return -ENOMEM;
	*file = (struct spoor_row_file){
		.magic = SPOOR_ROW_FILE_MAGIC,
		.version = SPOOR_ROW_FILE_VERSION,
		.header_size = sizeof(*file),
		.size = size,
		.text_base = s->text_base,
		.n_pages = t.n_pages,
		.n_rules = s->n_rules,
		.n_rows = t.n_rows,
		.source = ret->source,
		.n_fdes = s->n_fdes,
		.n_unsupported = s->n_unsupported + t.n_dropped,
	};
	at = memcpy(file + 1, t.pages, pages_size);
	at = memcpy(at + pages_size, s->rules, rules_size);
	memcpy(at + rules_size, t.rows, rows_size);
	r = spoor_row_file_open(file, size, ret);
	if (r < 0)
		munmap(file, size);
	return r;
}
