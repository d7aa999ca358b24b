/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "unwind/rows.h"

static const struct spoor_rule none;

const struct spoor_rule *spoor_row_lookup(const struct spoor_row_table *t, __u64 vaddr)
{
	const struct spoor_row_page *page;
	const struct spoor_row *row;
	__u64 offset = vaddr - t->text_base;
	__u32 n, half;

	if (vaddr < t->text_base || offset >> SPOOR_TEXT_PAGE_SHIFT >= t->n_pages)
		return &none;
	page = &t->pages[offset >> SPOOR_TEXT_PAGE_SHIFT];
	if (!page->count)
		return &none;

	/* The last row at or before the address; the first row of a page is at 0. */
	row = &t->rows[page->first];
	for (n = page->count; n > 1; n -= half) {
		half = n / 2;
		if (row[half].pc <= (__u16)offset)
			row += half;
	}
	return &t->rules[row->rule];
}
