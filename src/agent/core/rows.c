/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "agent/core/rows.h"
#include "unwind/row_layout.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_WRITE)

static bool fits(const struct spoor_row_file *f, uint64_t size)
{
	uint64_t needed = sizeof(*f);

	if (size < sizeof(*f) || memcmp(f->magic, SPOOR_ROW_FILE_MAGIC, sizeof(f->magic)) ||
	    f->version != SPOOR_ROW_FILE_VERSION || f->header_size != sizeof(*f) || f->error)
		return false;
	needed += (uint64_t)f->n_pages * sizeof(struct spoor_row_page);
	needed += (uint64_t)f->n_rules * sizeof(struct spoor_rule);
	needed += (uint64_t)f->n_rows * sizeof(struct spoor_row);
	return needed == size && f->n_rules;
}

static const struct spoor_row_file *map(int fd, uint64_t *ret_size)
{
	struct stat st = { 0 };
	long seals = sys3(SYS_fcntl, fd, F_GET_SEALS, 0), at;

	if (sys_failed(seals) || (seals & SEALS) != SEALS || sys_failed(sys3(SYS_fstat, fd, &st, 0)) ||
	    st.st_size < (off_t)sizeof(struct spoor_row_file) || st.st_size > SPOOR_ROW_FILE_MAX_SIZE)
		return NULL;
	at = sys6(SYS_mmap, 0, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (sys_failed(at))
		return NULL;
	*ret_size = (uint64_t)st.st_size;
	return (const struct spoor_row_file *)at;
}

int rows_map(int fd, struct spoor_row_table *ret)
{
	uint64_t size;
	const struct spoor_row_file *f = map(fd, &size);

	if (!f)
		return -EBADMSG;
	if (!fits(f, size)) {
		sys3(SYS_munmap, f, size, 0);
		return -EBADMSG;
	}
	ret->text_base = f->text_base;
	ret->n_pages = f->n_pages;
	ret->n_rows = f->n_rows;
	ret->n_rules = f->n_rules;
	ret->pages = (const void *)(f + 1);
	ret->rules = (const void *)(ret->pages + ret->n_pages);
	ret->rows = (const void *)(ret->rules + ret->n_rules);
	return 0;
}

struct spoor_rule rows_rule(const struct spoor_row_table *t, uint64_t vaddr)
{
	const struct spoor_rule none = { .op = SPOOR_RULE_NONE };
	uint64_t offset = vaddr - t->text_base;
	const struct spoor_row_page *page;
	const struct spoor_row *row;
	uint32_t n, half;

	if (vaddr < t->text_base || offset >> SPOOR_TEXT_PAGE_SHIFT >= t->n_pages)
		return none;
	page = &t->pages[offset >> SPOOR_TEXT_PAGE_SHIFT];
	if (!page->count || page->first > t->n_rows || page->count > t->n_rows - page->first)
		return none;
	row = &t->rows[page->first];
	for (n = page->count; n > 1; n -= half) {
		half = n / 2;
		if (row[half].pc <= (uint16_t)offset)
			row += half;
	}
	return row->rule < t->n_rules ? t->rules[row->rule] : none;
}
