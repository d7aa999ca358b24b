/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object/symtab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "object/demangle.h"

#define MAX_SHOWN_PLAIN 4096
#define MAX_STEPS_BACK 4096 /* over nested or overlapping symbols; only hostile files have more */

int spoor_symtab_own(struct spoor_symtab *t, void *block)
{
	void **blocks = reallocarray(t->blocks, t->n_blocks + 1, sizeof(*blocks));

	if (!blocks) {
		free(block);
		return -ENOMEM;
	}
	t->blocks = blocks;
	t->blocks[t->n_blocks++] = block;
	return 0;
}

int spoor_symtab_add(struct spoor_symtab *t, const struct spoor_symbol *symbol)
{
	if (t->n == t->capacity) {
		size_t capacity = t->capacity ? t->capacity * 2 : 1024;
		struct spoor_symbol *symbols = reallocarray(t->symbols, capacity, sizeof(*symbols));

		if (!symbols)
			return -ENOMEM;
		t->symbols = symbols;
		t->capacity = capacity;
	}
	t->symbols[t->n++] = *symbol;
	t->sorted = 0;
	t->ordered |= symbol->order != 0;
	return 0;
}

static int rank_of(const Elf64_Sym *sym)
{
	int rank = 0;

	switch (ELF64_ST_BIND(sym->st_info)) {
	case STB_GLOBAL:
	case STB_GNU_UNIQUE:
		rank = 2;
		break;
	case STB_WEAK:
		rank = 1;
		break;
	}
	if (sym->st_size)
		rank += 4;
	if (ELF64_ST_TYPE(sym->st_info) != STT_NOTYPE)
		rank += 8;
	return rank;
}

/* 1 if the symbol names code; then *ret is complete but for its name. */
static int code_symbol(const struct spoor_elf *elf, const Elf64_Sym *sym, struct spoor_symbol *ret)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);
	const Elf64_Shdr *section = spoor_elf_section_at(elf, sym->st_shndx);

	if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
		return 0;
	if (!section || !(section->sh_flags & SHF_ALLOC))
		return 0;
	if (type == STT_NOTYPE && !(section->sh_flags & SHF_EXECINSTR))
		return 0;
	if (section->sh_addr > sym->st_value || sym->st_value - section->sh_addr >= section->sh_size)
		return 0;

	*ret = (struct spoor_symbol){
		.addr = sym->st_value,
		.limit = section->sh_addr + section->sh_size,
		.rank = (uint8_t)rank_of(sym),
		.form = SPOOR_SYMBOL_ELF,
	};
	if (ret->limit < ret->addr)
		return 0;
	ret->end = sym->st_size > ret->limit - ret->addr ? ret->limit : ret->addr + sym->st_size;
	return 1;
}

/* The symbol table and its strings, both followed by a NUL. */
static int read_table(const struct spoor_elf *elf, const Elf64_Shdr *section, Elf64_Sym **ret_syms, size_t *ret_n,
		      char **ret_strings, size_t *ret_strings_size)
{
	const Elf64_Shdr *strings = spoor_elf_section_at(elf, section->sh_link);
	_cleanup_(spoor_freep) void *syms = NULL;
	size_t size;
	int r;

	if (!strings || section->sh_entsize != sizeof(Elf64_Sym))
		return -EBADMSG;
	r = spoor_elf_read(elf, section, &syms, &size);
	if (r < 0)
		return r;
	r = spoor_elf_read(elf, strings, (void **)ret_strings, ret_strings_size);
	if (r < 0)
		return r;
	*ret_n = size / sizeof(Elf64_Sym);
	*ret_syms = TAKE_PTR(syms);
	return 0;
}

int spoor_symtab_add_elf(struct spoor_symtab *t, const struct spoor_elf *elf, const Elf64_Shdr *section)
{
	_cleanup_(spoor_freep) Elf64_Sym *syms = NULL;
	char *strings;
	size_t n, strings_size;
	int r;

	r = read_table(elf, section, &syms, &n, &strings, &strings_size);
	if (r < 0)
		return r;
	r = spoor_symtab_own(t, strings);
	if (r < 0)
		return r;
	for (size_t i = 1; i < n; i++) {
		struct spoor_symbol symbol;

		if (syms[i].st_name == 0 || syms[i].st_name >= strings_size || !code_symbol(elf, &syms[i], &symbol))
			continue;
		symbol.name = strings + syms[i].st_name;
		r = spoor_symtab_add(t, &symbol);
		if (r < 0)
			return r;
	}
	return 0;
}

static unsigned underscores(const char *s)
{
	return (unsigned)strspn(s, "_");
}

/* By address; of one address the latest, or the best name, comes last. */
static int compare(const void *pa, const void *pb)
{
	const struct spoor_symbol *a = pa, *b = pb;
	size_t la, lb;

	if (a->addr != b->addr)
		return a->addr < b->addr ? -1 : 1;
	if (a->order != b->order)
		return a->order < b->order ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (underscores(a->name) != underscores(b->name))
		return underscores(a->name) > underscores(b->name) ? -1 : 1;
	la = strlen(a->name);
	lb = strlen(b->name);
	if (la != lb)
		return la > lb ? -1 : 1;
	return strcmp(b->name, a->name);
}

static int sort(struct spoor_symtab *t)
{
	uint64_t max = 0;

	free(t->max_end);
	t->max_end = calloc(t->n + 1, sizeof(*t->max_end));
	if (!t->max_end)
		return -ENOMEM;
	if (t->n)
		qsort(t->symbols, t->n, sizeof(*t->symbols), compare);
	for (size_t i = 0; i < t->n; i++) {
		if (t->symbols[i].end > max)
			max = t->symbols[i].end;
		t->max_end[i] = max;
	}
	t->sorted = 1;
	return 0;
}

/* How many symbols begin at or below vaddr. */
static size_t count_up_to(const struct spoor_symtab *t, uint64_t vaddr)
{
	size_t lo = 0, hi = t->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->symbols[mid].addr <= vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct spoor_symbol *spoor_symtab_find(struct spoor_symtab *t, uint64_t vaddr)
{
	struct spoor_symbol *last, *best = NULL;
	size_t n;

	if (!t->sorted && sort(t) < 0)
		return NULL;
	n = count_up_to(t, vaddr);
	if (n == 0)
		return NULL;
	for (size_t i = n, steps = 0; i > 0 && t->max_end[i - 1] > vaddr && steps < MAX_STEPS_BACK; i--, steps++) {
		struct spoor_symbol *s = &t->symbols[i - 1];

		if (s->end > vaddr && (!best || s->order > best->order))
			best = s;
		if (best && !t->ordered)
			break;
	}
	if (best)
		return best;
	last = &t->symbols[n - 1];
	return last->end == last->addr && vaddr < last->limit ? last : NULL;
}

static char *show(const struct spoor_symbol *s)
{
	size_t len = strnlen(s->name, MAX_SHOWN_PLAIN);
	_cleanup_(spoor_freep) char *plain = NULL;
	char *shown = NULL;
	const char *at;

	if (s->form == SPOOR_SYMBOL_PLAIN)
		return strndup(s->name, len);
	at = memchr(s->name, '@', len);
	plain = strndup(s->name, at && at > s->name ? (size_t)(at - s->name) : len);
	if (!plain)
		return NULL;
	shown = spoor_demangle(plain);
	if (!shown)
		shown = TAKE_PTR(plain);
	if (s->form == SPOOR_SYMBOL_PLT) {
		char *plt = NULL;

		if (asprintf(&plt, "%s@plt", shown) < 0)
			plt = NULL;
		free(shown);
		return plt;
	}
	return shown;
}

const char *spoor_symbol_shown(struct spoor_symbol *s)
{
	if (!s->shown)
		s->shown = show(s);
	return s->shown;
}

void spoor_symtab_release(struct spoor_symtab *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->symbols[i].shown);
	for (size_t i = 0; i < t->n_blocks; i++)
		free(t->blocks[i]);
	free(t->symbols);
	free(t->max_end);
	free(t->blocks);
	*t = (struct spoor_symtab){};
}
