/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "unwind/row_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "object/identity.h"

__u64 spoor_row_file_checksum(const struct spoor_row_file *file, size_t size)
{
	struct spoor_row_file header = *file;

	header.checksum = 0;
	return XXH3_64bits_withSeed(file + 1, size - sizeof(header), XXH3_64bits(&header, sizeof(header)));
}

static bool header_valid(const struct spoor_row_file *f, size_t size)
{
	__u64 needed = sizeof(*f);

	if (memcmp(f->magic, SPOOR_ROW_FILE_MAGIC, sizeof(f->magic)) || f->version != SPOOR_ROW_FILE_VERSION ||
	    f->header_size != sizeof(*f) || f->size != size)
		return false;
	needed += (__u64)f->n_pages * sizeof(struct spoor_row_page);
	needed += (__u64)f->n_rules * sizeof(struct spoor_rule);
	needed += (__u64)f->n_rows * sizeof(struct spoor_row);
	if (needed != size || f->n_pages > SPOOR_ROW_FILE_MAX_PAGES || f->n_rules > SPOOR_ROW_FILE_MAX_RULES ||
	    f->source > SPOOR_ROWS_GOPCLNTAB)
		return false;
	if (f->error)
		return !f->n_pages && !f->n_rules && !f->n_rows;
	if (f->text_base & ((1u << SPOOR_TEXT_PAGE_SHIFT) - 1) ||
	    f->text_base > UINT64_MAX - ((__u64)f->n_pages << SPOOR_TEXT_PAGE_SHIFT))
		return false;
	return f->n_rules;
}

static bool page_valid(const struct spoor_row_table *t, const struct spoor_row_page *page)
{
	const struct spoor_row *row;
	__u32 i;

	if (!page->count)
		return true;
	if (page->count > SPOOR_TEXT_PAGE_MAX_ROWS || page->first > t->n_rows || page->count > t->n_rows - page->first)
		return false;
	row = &t->rows[page->first];
	if (row->pc)
		return false;
	for (i = 1; i < page->count; i++)
		if (row[i].pc <= row[i - 1].pc)
			return false;
	return true;
}

static bool rule_valid(const struct spoor_rule *rule)
{
	return rule->op < SPOOR_RULE_SCAN && rule->reg_rbp >> 4 <= SPOOR_RBP_UNDEF;
}

static bool table_valid(const struct spoor_row_table *t)
{
	__u32 i;

	if (t->rules[0].op != SPOOR_RULE_NONE)
		return false;
	for (i = 0; i < t->n_rules; i++)
		if (!rule_valid(&t->rules[i]))
			return false;
	for (i = 0; i < t->n_rows; i++)
		if (t->rows[i].rule >= t->n_rules)
			return false;
	for (i = 0; i < t->n_pages; i++)
		if (!page_valid(t, &t->pages[i]))
			return false;
	return true;
}

int spoor_row_file_open(void *mem, size_t size, struct spoor_rows *ret)
{
	const struct spoor_row_file *f = mem;
	struct spoor_rows rows = { .mem = mem, .mem_size = size };
	struct spoor_row_table *t = &rows.table;

	if (size < sizeof(*f) || !header_valid(f, size))
		return -EBADMSG;
	t->text_base = f->text_base;
	t->n_pages = f->n_pages;
	t->n_rules = f->n_rules;
	t->n_rows = f->n_rows;
	t->pages = (const void *)(f + 1);
	t->rules = (const void *)(t->pages + t->n_pages);
	t->rows = (const void *)(t->rules + t->n_rules);
	rows.source = f->source;
	rows.n_fdes = f->n_fdes;
	rows.n_unsupported = f->n_unsupported;
	if (!f->error && !table_valid(t))
		return -EBADMSG;
	*ret = rows;
	return 0;
}

int spoor_row_file_answer(const struct spoor_rows *rows, const struct spoor_object_identity *id)
{
	const struct spoor_row_file *f = rows->mem;

	if (f->object_hash[0] != id->hash[0] || f->object_hash[1] != id->hash[1] || f->object_size != id->size)
		return -ESTALE;
	if (f->error)
		return f->error == ENODATA || f->error == ENOEXEC ? -(int)f->error : -EBADMSG;
	return 0;
}

int spoor_row_file_share(const struct spoor_rows *rows)
{
	_cleanup_(spoor_closep) int fd = memfd_create("spoor-rows", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = fd < 0 ? -errno : spoor_write_whole(fd, rows->mem, rows->mem_size);

	if (r < 0)
		return r;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return -errno;
	return TAKE_FD(fd);
}

void spoor_rows_free(struct spoor_rows *rows)
{
	if (!rows)
		return;
	if (rows->mem)
		munmap(rows->mem, rows->mem_size);
	*rows = (struct spoor_rows){ 0 };
}
