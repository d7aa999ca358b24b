/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints an object's unwind rows for the oracles to compare: a line "# source fdes unsupported rules rows", then one
 * line a row, "vaddr op reg rbp rbp_off cfa_off" (vaddr in hex, the rest decimal). A row repeated at the beginning of
 * a text page is printed as it stands in the table.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "unwind/rows.h"

static void print_page(const struct spoor_row_table *t, __u32 i)
{
	__u64 base = t->text_base + ((__u64)i << SPOOR_TEXT_PAGE_SHIFT);
	const struct spoor_row *row = t->rows + t->pages[i].first, *end = row + t->pages[i].count;
	const struct spoor_rule *rule;

	if (row == end)
		printf("%llx 0 0 0 0 0\n", base);
	for (; row < end; row++) {
		rule = &t->rules[row->rule];
		printf("%llx %d %d %d %d %d\n", base + row->pc, rule->op, rule->reg_rbp & 15, rule->reg_rbp >> 4,
		       rule->rbp_off, rule->cfa_off);
	}
}

int main(int argc, char **argv)
{
	_cleanup_(spoor_closep) int fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	_cleanup_(spoor_rows_free) struct spoor_rows rows = { 0 };
	struct spoor_error e = { 0 };
	struct stat st;
	void *image;
	__u32 i;

	if (fd < 0 || fstat(fd, &st) < 0) {
		fprintf(stderr, "usage: rows_dump OBJECT\n");
		return 2;
	}
	image = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (image == MAP_FAILED)
		return 1;
	if (spoor_rows_compile(image, st.st_size, &rows, &e) < 0) {
		fprintf(stderr, "%s: %s\n", argv[1], e.text);
		return 1;
	}
	printf("# %d %u %u %u %u\n", rows.source, rows.n_fdes, rows.n_unsupported, rows.table.n_rules,
	       rows.table.n_rows);
	for (i = 0; i < rows.table.n_pages; i++)
		print_page(&rows.table, i);
	return 0;
}
