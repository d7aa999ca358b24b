/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes as an object: compiling ends, and what it makes is a table that a walker can search. */
#include <stdint.h>
#include <stdlib.h>

#include "object/identity.h"
#include "unwind/row_file.h"

static void check(const struct spoor_rows *rows)
{
	const struct spoor_row_table *t = &rows->table;
	struct spoor_rows again;
	__u64 vaddr, i;

	if (spoor_row_file_open(rows->mem, rows->mem_size, &again) < 0 || t->rules[0].op != SPOOR_RULE_NONE)
		abort();
	for (i = 0; i < 64; i++) {
		vaddr = t->text_base + i * (((__u64)t->n_pages << SPOOR_TEXT_PAGE_SHIFT) / 61);
		if (spoor_row_lookup(t, vaddr)->op >= SPOOR_RULE_SCAN)
			abort();
	}
	if (spoor_row_lookup(t, t->text_base - 1)->op || spoor_row_lookup(t, UINT64_MAX)->op)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spoor_object_identity id;
	struct spoor_rows rows;
	uint64_t vaddr;

	spoor_object_identify_mem(data, size, &id);
	if (id.n_loads)
		spoor_object_vaddr(&id, id.loads[0].offset, &vaddr);
	if (spoor_rows_compile(data, size, &rows, NULL) < 0)
		return 0;
	check(&rows);
	spoor_rows_free(&rows);
	return 0;
}
