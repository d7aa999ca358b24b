/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "object/debuglink.h"
#include "object/gopclntab.h"
#include "object/lines.h"
#include "object/minidebug.h"
#include "object/symtab.h"

#define DEFAULT_DEBUG_ROOT "/usr/lib/debug"

/*
 * Opening reads the ELF headers; tables are read when the first address is asked for. A damaged or missing table is
 * one source less, never a failure: what the others know is still true.
 */
struct spoor_symbols {
	struct spoor_elf elf;
	int fd;
	int debug_fd, supplement_fd; /* given: -1 if not */
	char *debug_root;
	bool debug_is_other, debug_is_too_large;
	int loaded;
	struct spoor_symtab symtab;
	struct spoor_gopclntab *go;
	struct spoor_lines *lines; /* of the separate debug file, or of the object itself */
};

static int image_of(int fd, struct spoor_image *ret, struct spoor_error *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return spoor_fail(e, errno, "cannot stat: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return spoor_fail(e, ENOEXEC, "not a regular file");
	*ret = (struct spoor_image){ .fd = fd, .size = (uint64_t)st.st_size };
	return 0;
}

int spoor_symbols_open(int fd, const char *debug_root, struct spoor_symbols **ret, struct spoor_error *e)
{
	struct spoor_symbols *s = calloc(1, sizeof(*s));
	struct spoor_image image;
	int r;

	if (!s)
		return spoor_fail(e, ENOMEM, "out of memory");
	s->debug_fd = s->supplement_fd = -1;
	s->debug_root = strdup(debug_root ?: DEFAULT_DEBUG_ROOT);
	s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (s->fd < 0)
		r = spoor_fail(e, errno, "cannot duplicate descriptor: %s", strerror(errno));
	else if (!s->debug_root)
		r = spoor_fail(e, ENOMEM, "out of memory");
	else
		r = image_of(s->fd, &image, e);
	if (r == 0)
		r = spoor_elf_open(&image, &s->elf, e);
	if (r < 0) {
		spoor_symbols_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

void spoor_symbols_free(struct spoor_symbols *s)
{
	if (!s)
		return;
	spoor_symtab_release(&s->symtab);
	spoor_gopclntab_free(s->go);
	spoor_lines_free(s->lines);
	spoor_elf_close(&s->elf);
	spoor_closep(&s->fd);
	spoor_closep(&s->debug_fd);
	spoor_closep(&s->supplement_fd);
	free(s->debug_root);
	free(s);
}

void spoor_symbols_give_debug(struct spoor_symbols *s, int debug_fd, int supplement_fd)
{
	spoor_closep(&s->debug_fd);
	spoor_closep(&s->supplement_fd);
	s->debug_fd = debug_fd;
	s->supplement_fd = supplement_fd;
}

bool spoor_symbols_debug_is_other(const struct spoor_symbols *s)
{
	return s->debug_is_other;
}

bool spoor_symbols_debug_is_too_large(const struct spoor_symbols *s)
{
	return s->debug_is_too_large;
}

/* Returns 1 if the file had a .symtab. */
static int add_symtab(struct spoor_symbols *s, const struct spoor_elf *elf)
{
	const Elf64_Shdr *section = spoor_elf_section_of_type(elf, SHT_SYMTAB);
	size_t before = s->symtab.n;

	return section && spoor_symtab_add_elf(&s->symtab, elf, section) == 0 && s->symtab.n > before;
}

static void open_lines(struct spoor_symbols *s, int fd)
{
	if (spoor_lines_open(fd, s->supplement_fd, s->debug_root, &s->lines) == -EFBIG)
		s->debug_is_too_large = true;
}

/* The separate file has the whole .symtab, and usually the lines. */
static int load_debug_file(struct spoor_symbols *s)
{
	_cleanup_(spoor_closep) int fd = s->debug_fd >= 0 ? TAKE_FD(s->debug_fd) :
							    spoor_debuglink_open(&s->elf, s->debug_root,
										 &s->debug_is_other);
	struct spoor_image image;
	struct spoor_elf elf;
	int found;

	if (fd < 0 || image_of(fd, &image, NULL) < 0 || spoor_elf_open(&image, &elf, NULL) < 0)
		return 0;
	found = add_symtab(s, &elf);
	spoor_elf_close(&elf);
	open_lines(s, fd);
	return found;
}

static void load_minidebug(struct spoor_symbols *s)
{
	_cleanup_(spoor_freep) void *unpacked = NULL;
	struct spoor_image image = { .fd = -1 };
	struct spoor_elf elf;
	size_t size;

	if (spoor_minidebug_unpack(&s->elf, &unpacked, &size) < 0)
		return;
	image.mem = unpacked;
	image.size = size;
	if (spoor_elf_open(&image, &elf, NULL) < 0)
		return;
	add_symtab(s, &elf);
	spoor_elf_close(&elf);
}

static void load(struct spoor_symbols *s)
{
	const Elf64_Shdr *dynsym = spoor_elf_section_of_type(&s->elf, SHT_DYNSYM);

	s->loaded = 1;
	if (!load_debug_file(s) && !add_symtab(s, &s->elf)) {
		load_minidebug(s);
		if (dynsym)
			(void)spoor_symtab_add_elf(&s->symtab, &s->elf, dynsym);
	}
	(void)spoor_symtab_add_plt(&s->symtab, &s->elf);
	if (spoor_gopclntab_open(&s->elf, &s->go) == 0)
		(void)spoor_gopclntab_symbols(s->go, &s->symtab);
	if (!s->lines && (spoor_elf_section(&s->elf, ".debug_info") || spoor_elf_section(&s->elf, ".zdebug_info")))
		open_lines(s, s->fd);
}

/* Only a symbol table, or Go's, knows this address. */
static int resolve_symbol(struct spoor_symbols *s, struct spoor_symbol *symbol, uint64_t vaddr,
			  struct spoor_source_line *ret)
{
	*ret = (struct spoor_source_line){};
	if (symbol) {
		ret->function = spoor_symbol_shown(symbol);
		ret->function_offset = vaddr - symbol->addr;
	}
	if (s->go)
		(void)spoor_gopclntab_line(s->go, vaddr, &ret->file, &ret->line);
	return ret->function || ret->file;
}

int spoor_symbols_resolve(struct spoor_symbols *s, uint64_t vaddr, struct spoor_source_line *lines, int max)
{
	struct spoor_source_line *owner;
	struct spoor_symbol *symbol;
	int n = 0, unqualified = 0;
	uint64_t start = 0;

	if (max < 1)
		return -EINVAL;
	if (!s->loaded)
		load(s);
	symbol = spoor_symtab_find(&s->symtab, vaddr);
	if (s->lines)
		n = spoor_lines_resolve(s->lines, vaddr, lines, max, &start, &unqualified);
	if (n <= 0)
		return resolve_symbol(s, symbol, vaddr, lines);

	owner = &lines[n - 1];
	owner->function_offset = start ? vaddr - start : 0;
	if (!symbol)
		return n;
	if (!start)
		owner->function_offset = vaddr - symbol->addr;
	/* Static C++ functions have no linkage name in DWARF, but a mangled one in the symbol table. */
	if (!owner->function || (unqualified && !strncmp(symbol->name, "_Z", 2)))
		owner->function = spoor_symbol_shown(symbol);
	return n;
}
