/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Address -> symbol. A sized symbol covers [addr, addr+size); one without size reaches to the next symbol or the end
 * of its section. Of several names of one address the best is shown: functions before labels, global before weak
 * before local, fewer leading underscores, shorter, alphabetical.
 */
#include "object/image.h"

enum spoor_symbol_form {
	SPOOR_SYMBOL_PLAIN, /* as it stands (Go, own names) */
	SPOOR_SYMBOL_ELF,   /* may be mangled, may have an @VERSION */
	SPOOR_SYMBOL_PLT,   /* shown as NAME@plt */
};

struct spoor_symbol {
	uint64_t addr, end; /* end == addr: no size */
	uint64_t limit;     /* an unsized symbol never reaches beyond this */
	const char *name;   /* in one of the table's blocks */
	char *shown;        /* made when first asked for */
	uint8_t rank;       /* bigger is better */
	uint8_t form;       /* enum spoor_symbol_form */
	uint32_t order;     /* of those that cover an address the greatest is shown; all 0: the innermost */
};

struct spoor_symtab {
	struct spoor_symbol *symbols;
	uint64_t *max_end; /* max_end[i]: the greatest end among symbols[0..i] */
	size_t n, capacity;
	void **blocks; /* owned string tables */
	size_t n_blocks;
	int sorted;
	int ordered; /* one of them has an order */
};

/* Adds the functions of the symbol table in `section` (SHT_SYMTAB or SHT_DYNSYM). */
int spoor_symtab_add_elf(struct spoor_symtab *t, const struct spoor_elf *elf, const Elf64_Shdr *section);
/* Adds PLT entries by the relocations of the slots they jump through. */
int spoor_symtab_add_plt(struct spoor_symtab *t, const struct spoor_elf *elf);
/* One symbol; name must live as long as the table (see spoor_symtab_own). */
int spoor_symtab_add(struct spoor_symtab *t, const struct spoor_symbol *symbol);
/* Takes over a malloc()ed block that names point into; frees it on failure. */
int spoor_symtab_own(struct spoor_symtab *t, void *block);

/* The symbol of greatest order that covers vaddr, of those the innermost, or NULL. Borrowed. Sorts when needed. */
struct spoor_symbol *spoor_symtab_find(struct spoor_symtab *t, uint64_t vaddr);
/* Readable name, borrowed from the symbol. */
const char *spoor_symbol_shown(struct spoor_symbol *s);

void spoor_symtab_release(struct spoor_symtab *t);
