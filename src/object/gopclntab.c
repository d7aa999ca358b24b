/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object/gopclntab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "object/go_table.h"

enum { GO_1_2 = 0xfffffffb, GO_1_16 = 0xfffffffa, GO_1_18 = 0xfffffff0, GO_1_20 = 0xfffffff1 };

#define MAX_FUNCTIONS (1u << 22)

/*
 * All tables are ranges of `data`. A function table entry is (pc, offset of the function's record); from Go 1.18 on
 * pcs are 32-bit offsets from text.
 */
struct spoor_gopclntab {
	uint8_t *data; /* owned; a NUL follows */
	size_t size;
	uint32_t version;
	uint64_t text;
	uint64_t n_functions;
	size_t names, cus, files, pcs, functions; /* where the tables begin */
};

static int get(const struct spoor_gopclntab *g, size_t at, unsigned width, uint64_t *ret)
{
	uint64_t v = 0;

	if (at > g->size || width > g->size - at)
		return -EBADMSG;
	memcpy(&v, g->data + at, width);
	*ret = v;
	return 0;
}

/* The i-th word of the header after magic, padding, quantum and pointer size. */
static int header_word(const struct spoor_gopclntab *g, unsigned i, uint64_t *ret)
{
	return get(g, 8 + 8 * (size_t)i, 8, ret);
}

static int header_table(const struct spoor_gopclntab *g, unsigned i, size_t *ret)
{
	uint64_t v;

	if (header_word(g, i, &v) < 0 || v >= g->size)
		return -EBADMSG;
	*ret = v;
	return 0;
}

static int parse_header(struct spoor_gopclntab *g, uint64_t text)
{
	uint64_t magic, quantum, pointer;
	unsigned first;

	if (get(g, 0, 4, &magic) < 0 || get(g, 6, 1, &quantum) < 0 || get(g, 7, 1, &pointer) < 0)
		return -EBADMSG;
	if (quantum != 1 || pointer != 8)
		return -EBADMSG;
	g->version = (uint32_t)magic;
	g->text = text;
	if (header_word(g, 0, &g->n_functions) < 0 || g->n_functions > MAX_FUNCTIONS)
		return -EBADMSG;
	switch (g->version) {
	case GO_1_2:
		g->functions = 16;
		return 0;
	case GO_1_16:
		first = 2;
		break;
	case GO_1_18:
	case GO_1_20:
		if (!text) /* to guess it would be to give wrong names */
			return -EBADMSG;
		first = 3;
		break;
	default:
		return -EBADMSG;
	}
	if (header_table(g, first, &g->names) < 0 || header_table(g, first + 1, &g->cus) < 0 ||
	    header_table(g, first + 2, &g->files) < 0 || header_table(g, first + 3, &g->pcs) < 0 ||
	    header_table(g, first + 4, &g->functions) < 0)
		return -EBADMSG;
	return 0;
}

int spoor_gopclntab_open(const struct spoor_elf *elf, struct spoor_gopclntab **ret)
{
	struct spoor_go_table table;
	struct spoor_gopclntab *g;
	int r;

	r = spoor_go_table_find(elf, &table);
	if (r < 0)
		return r;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	r = spoor_elf_read(elf, &table.section, (void **)&g->data, &g->size);
	if (r == 0)
		r = parse_header(g, table.text);
	if (r < 0) {
		spoor_gopclntab_free(g);
		return r;
	}
	*ret = g;
	return 0;
}

void spoor_gopclntab_free(struct spoor_gopclntab *g)
{
	if (!g)
		return;
	free(g->data);
	free(g);
}

static int is_relative(const struct spoor_gopclntab *g)
{
	return g->version == GO_1_18 || g->version == GO_1_20;
}

/* Start address of function i (n_functions: the end of the last) and, unless ret_record is NULL, its record. */
static int function_at(const struct spoor_gopclntab *g, uint64_t i, uint64_t *ret_pc, size_t *ret_record)
{
	unsigned width = is_relative(g) ? 4 : 8;
	size_t at = g->functions + (size_t)i * width * 2;
	uint64_t pc, offset = 0;

	if (get(g, at, width, &pc) < 0 || (ret_record && get(g, at + width, width, &offset) < 0))
		return -EBADMSG;
	*ret_pc = is_relative(g) ? g->text + pc : pc;
	if (!ret_record)
		return 0;
	/* Go 1.2 counts from the table's head. */
	if (g->version != GO_1_2)
		offset += g->functions;
	if (offset >= g->size)
		return -EBADMSG;
	*ret_record = offset;
	return 0;
}

/* The i-th 32-bit word after the record's entry address. */
static int record_word(const struct spoor_gopclntab *g, size_t record, unsigned i, uint32_t *ret)
{
	uint64_t v;

	if (get(g, record + (is_relative(g) ? 4 : 8) + 4 * (size_t)i, 4, &v) < 0)
		return -EBADMSG;
	*ret = (uint32_t)v;
	return 0;
}

int spoor_gopclntab_symbols(const struct spoor_gopclntab *g, struct spoor_symtab *t)
{
	for (uint64_t i = 0; i < g->n_functions; i++) {
		struct spoor_symbol symbol = { .rank = 1, .form = SPOOR_SYMBOL_PLAIN };
		uint32_t name;
		size_t record;
		int r;

		if (function_at(g, i, &symbol.addr, &record) < 0 || function_at(g, i + 1, &symbol.end, NULL) < 0)
			return -EBADMSG;
		if (record_word(g, record, 0, &name) < 0 || name >= g->size - g->names || symbol.end <= symbol.addr)
			continue;
		symbol.name = (const char *)g->data + g->names + name;
		symbol.limit = symbol.end;
		r = spoor_symtab_add(t, &symbol);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Little-endian base 128. */
static int varint(const struct spoor_gopclntab *g, size_t *at, uint32_t *ret)
{
	uint32_t v = 0;

	for (unsigned shift = 0; shift < 35; shift += 7) {
		uint8_t byte;

		if (*at >= g->size)
			return -EBADMSG;
		byte = g->data[(*at)++];
		v |= shift < 32 ? (uint32_t)(byte & 0x7f) << shift : 0;
		if (!(byte & 0x80)) {
			*ret = v;
			return 0;
		}
	}
	return -EBADMSG;
}

/* Runs a pc-value table (pairs of value and pc differences) up to vaddr. */
static int pc_value(const struct spoor_gopclntab *g, size_t at, uint64_t pc, uint64_t vaddr, int32_t *ret)
{
	uint32_t value = (uint32_t)-1;

	for (int first = 1;; first = 0) {
		uint32_t dv, dpc;

		if (varint(g, &at, &dv) < 0 || (dv == 0 && !first) || varint(g, &at, &dpc) < 0)
			return -ENOENT;
		value += dv & 1 ? ~(dv >> 1) : dv >> 1;
		pc += dpc;
		if (vaddr < pc) {
			*ret = (int32_t)value;
			return 0;
		}
	}
}

static int find_function(const struct spoor_gopclntab *g, uint64_t vaddr, uint64_t *ret_pc, size_t *ret_record)
{
	uint64_t lo = 0, hi = g->n_functions, pc;

	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;

		if (function_at(g, mid, &pc, NULL) < 0)
			return -EBADMSG;
		if (pc <= vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == 0)
		return -ENOENT;
	return function_at(g, lo - 1, ret_pc, ret_record);
}

/* Go 1.2 has one table of files; later a unit's slice of cutab maps its file numbers to names. */
static int file_name(const struct spoor_gopclntab *g, size_t record, uint32_t number, const char **ret)
{
	uint64_t offset, table;
	uint32_t unit;

	if (g->version == GO_1_2) {
		size_t at = g->functions + (size_t)g->n_functions * 16 + 8;

		if (get(g, at, 4, &table) < 0 || get(g, table + (size_t)number * 4, 4, &offset) < 0)
			return -ENOENT;
	} else {
		if (record_word(g, record, 7, &unit) < 0 ||
		    get(g, g->cus + ((size_t)unit + number) * 4, 4, &offset) < 0 || offset == UINT32_MAX)
			return -ENOENT;
		offset += g->files;
	}
	if (offset >= g->size)
		return -ENOENT;
	*ret = (const char *)g->data + offset;
	return 0;
}

int spoor_gopclntab_line(const struct spoor_gopclntab *g, uint64_t vaddr, const char **ret_file, uint32_t *ret_line)
{
	uint32_t pcfile, pcline;
	int32_t file, line;
	const char *name;
	uint64_t pc;
	size_t record;

	if (find_function(g, vaddr, &pc, &record) < 0 || record_word(g, record, 4, &pcfile) < 0 ||
	    record_word(g, record, 5, &pcline) < 0)
		return -ENOENT;
	if (pc_value(g, g->pcs + pcfile, pc, vaddr, &file) < 0 || pc_value(g, g->pcs + pcline, pc, vaddr, &line) < 0)
		return -ENOENT;
	if (file < 0 || line <= 0 || file_name(g, record, (uint32_t)file, &name) < 0)
		return -ENOENT;
	*ret_file = name;
	*ret_line = (uint32_t)line;
	return 0;
}
