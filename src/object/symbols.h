/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Names and source lines of one object's addresses. Input is untrusted.
 * Sources, best first: separate debug file by build-id (/usr/lib/debug/.build-id/xx/yyy.debug), .symtab,
 * .gnu_debugdata (xz), .dynsym, .gopclntab; DWARF lines and inlined functions of the object or its debug file.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct spoor_symbols;

struct spoor_source_line {
	const char *function; /* demangled (C++, Rust); NULL if unknown; valid until the symbols are freed */
	const char *file;     /* NULL if unknown */
	uint32_t line;        /* 0 if unknown */
	uint64_t function_offset; /* vaddr minus function start; 0 for inlined frames */
	uint8_t inlined;
};

/* fd may be closed afterwards. debug_root: NULL for "/usr/lib/debug". */
int spoor_symbols_open(int fd, const char *debug_root, struct spoor_symbols **ret, struct spoor_error *e);
void spoor_symbols_free(struct spoor_symbols *s);
/*
 * Before the first address is resolved: takes these for the separate debug file, and for what that shares with others
 * (dwz), instead of looking for them. -1: look. They become the symbols' own.
 */
void spoor_symbols_give_debug(struct spoor_symbols *s, int debug_fd, int supplement_fd);
/* After that: the debug file with the object's build-id is of other code, and was passed over. */
bool spoor_symbols_debug_is_other(const struct spoor_symbols *s);
/* DWARF was passed over because it would become too large in memory. */
bool spoor_symbols_debug_is_too_large(const struct spoor_symbols *s);

/*
 * Resolves an ELF virtual address (for a return address pass vaddr-1; function_offset is relative to what is passed).
 * Fills at most max lines, innermost inlined function first, the function that owns the code last.
 * Returns the number filled (>= 0; 0: nothing known) or -errno. Not thread-safe for one object.
 */
int spoor_symbols_resolve(struct spoor_symbols *s, uint64_t vaddr, struct spoor_source_line *lines, int max);
