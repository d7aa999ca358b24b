/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object/lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "object/debuglink.h"
#include "object/dwarf_names.h"
#include "object/unpacked.h"

#define MAX_UNITS (1 << 20)
#define MAX_RANGES (1 << 22)  /* of all units, or of all functions of one */
#define MAX_ENTRIES (1 << 23) /* visited in one unit */
#define MAX_DEPTH 64
#define MAX_INLINED 64

#define NOT_TO_BE_LOOKED_FOR ((Dwarf *)-1) /* libdw's own mark of a supplementary file that it has not found */

struct range {
	uint64_t low, high;
	uint64_t what; /* index of the unit, or offset of the function's entry */
};

struct ranges {
	struct range *list;
	size_t n, capacity;
};

struct unit {
	Dwarf_Off die;
	int indexed;
	struct ranges functions;
};

struct spoor_lines {
	int fd, alt_fd;
	Elf *elf, *alt_elf;
	Dwarf *dwarf, *alt;
	struct unit *units;
	size_t n_units;
	struct ranges ranges; /* address -> unit */
	struct spoor_dwarf_names *names;
};

static int add_range(struct ranges *r, uint64_t low, uint64_t high, uint64_t what)
{
	if (low >= high || r->n >= MAX_RANGES)
		return 0;
	if (r->n == r->capacity) {
		size_t capacity = r->capacity ? r->capacity * 2 : 64;
		struct range *list = reallocarray(r->list, capacity, sizeof(*list));

		if (!list)
			return -ENOMEM;
		r->list = list;
		r->capacity = capacity;
	}
	r->list[r->n++] = (struct range){ low, high, what };
	return 0;
}

static int add_die_ranges(struct ranges *r, Dwarf_Die *die, uint64_t what)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t at = 0;

	while (r->n < MAX_RANGES) {
		at = dwarf_ranges(die, at, &base, &low, &high);
		if (at <= 0)
			return 0;
		/* Linkers leave ranges of discarded sections at 0 or 1. */
		if (low > 1 && add_range(r, low, high, what) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* By start; of equal starts the longest first, so that a search backwards meets the innermost first. */
static int compare_ranges(const void *pa, const void *pb)
{
	const struct range *a = pa, *b = pb;

	if (a->low != b->low)
		return a->low < b->low ? -1 : 1;
	if (a->high != b->high)
		return a->high > b->high ? -1 : 1;
	return a->what < b->what ? -1 : a->what > b->what;
}

/* The range with the greatest start that covers addr. A few steps back suffice for ranges that nest. */
static const struct range *find_range(const struct ranges *r, uint64_t addr)
{
	size_t lo = 0, hi = r->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (r->list[mid].low <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (int steps = 0; lo > 0 && steps < 1024; lo--, steps++)
		if (r->list[lo - 1].high > addr)
			return &r->list[lo - 1];
	return NULL;
}

static void sort_ranges(struct ranges *r)
{
	if (r->n)
		qsort(r->list, r->n, sizeof(*r->list), compare_ranges);
}

static int add_unit(struct spoor_lines *l, Dwarf_Die *die)
{
	if (!(l->n_units & (l->n_units - 1))) {
		struct unit *units = reallocarray(l->units, l->n_units ? l->n_units * 2 : 1, sizeof(*units));

		if (!units)
			return -ENOMEM;
		l->units = units;
	}
	l->units[l->n_units] = (struct unit){ .die = dwarf_dieoffset(die) };
	return add_die_ranges(&l->ranges, die, l->n_units++);
}

/*
 * Which unit has which addresses. .debug_aranges would be quicker, but not every compiler writes it and some units
 * are missing from it.
 */
static int index_units(struct spoor_lines *l)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	uint8_t type;

	while (l->n_units < MAX_UNITS && dwarf_get_units(l->dwarf, cu, &cu, NULL, &type, &die, NULL) == 0) {
		int r;

		if (type != DW_UT_compile && type != DW_UT_skeleton)
			continue;
		r = add_unit(l, &die);
		if (r < 0)
			return r;
	}
	sort_ranges(&l->ranges);
	return 0;
}

static int open_dwarf(int fd, Elf **ret_elf, Dwarf **ret_dwarf)
{
	struct stat st;
	bool mapped, bounded;
	Elf *elf;
	Dwarf *dwarf;

	if (fstat(fd, &st) < 0)
		return -errno;
	mapped = st.st_uid == 0;
	elf = elf_begin(fd, mapped ? ELF_C_READ_MMAP : ELF_C_READ, NULL);
	if (!elf)
		return -EBADMSG;
	bounded = spoor_debug_is_bounded(elf, &st, mapped);
	dwarf = bounded ? dwarf_begin_elf(elf, DWARF_C_READ, NULL) : NULL;
	if (!dwarf) {
		elf_end(elf);
		return bounded ? -ENODATA : -EFBIG;
	}
	*ret_elf = elf;
	*ret_dwarf = dwarf;
	return 0;
}

/*
 * dwz moves what several debug files share into one: names of many functions are there. Where there is none, or that is
 * another file, libdw would open whatever the object names once it meets such a name, a FIFO too.
 */
static int open_alt(struct spoor_lines *l, int alt_fd, const char *debug_root)
{
	struct spoor_image image = { .fd = l->fd };
	struct spoor_elf elf;
	struct stat st;
	int r;

	dwarf_setalt(l->dwarf, NOT_TO_BE_LOOKED_FOR);
	if (fstat(l->fd, &st) < 0)
		return 0;
	image.size = (uint64_t)st.st_size;
	if (spoor_elf_open(&image, &elf, NULL) < 0)
		return 0;
	l->alt_fd = alt_fd < 0 ? spoor_debugaltlink_open(&elf, debug_root) : fcntl(alt_fd, F_DUPFD_CLOEXEC, 3);
	spoor_elf_close(&elf);
	r = l->alt_fd < 0 ? 0 : open_dwarf(l->alt_fd, &l->alt_elf, &l->alt);
	if (l->alt)
		dwarf_setalt(l->dwarf, l->alt);
	return r == -EFBIG ? r : 0;
}

int spoor_lines_open(int fd, int alt_fd, const char *debug_root, struct spoor_lines **ret)
{
	struct spoor_lines *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	l->alt_fd = -1;
	elf_version(EV_CURRENT);
	l->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	r = l->fd < 0 ? -errno : open_dwarf(l->fd, &l->elf, &l->dwarf);
	if (r == 0)
		r = open_alt(l, alt_fd, debug_root);
	if (r == 0)
		r = spoor_dwarf_names_new(&l->names);
	if (r == 0)
		r = index_units(l);
	if (r == 0 && l->ranges.n == 0)
		r = -ENODATA;
	if (r < 0) {
		spoor_lines_free(l);
		return r;
	}
	*ret = l;
	return 0;
}

void spoor_lines_free(struct spoor_lines *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n_units; i++)
		free(l->units[i].functions.list);
	free(l->units);
	free(l->ranges.list);
	spoor_dwarf_names_free(l->names);
	if (l->dwarf)
		dwarf_end(l->dwarf);
	if (l->elf)
		elf_end(l->elf);
	if (l->alt)
		dwarf_end(l->alt);
	if (l->alt_elf)
		elf_end(l->alt_elf);
	spoor_closep(&l->fd);
	spoor_closep(&l->alt_fd);
	free(l);
}

/* Functions can hide in these; types and variables have no code of their own. */
static int may_hold_functions(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_subprogram ||
	       tag == DW_TAG_lexical_block || tag == DW_TAG_compile_unit || tag == DW_TAG_structure_type ||
	       tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

static int index_functions(struct unit *u, Dwarf_Die *parent, int depth, unsigned *visited)
{
	Dwarf_Die die;

	if (depth > MAX_DEPTH || dwarf_child(parent, &die) != 0)
		return 0;
	do {
		int tag = dwarf_tag(&die);

		if (++*visited > MAX_ENTRIES)
			return 0;
		if (tag == DW_TAG_subprogram && add_die_ranges(&u->functions, &die, dwarf_dieoffset(&die)) < 0)
			return -ENOMEM;
		if (may_hold_functions(tag) && dwarf_haschildren(&die) &&
		    index_functions(u, &die, depth + 1, visited) < 0)
			return -ENOMEM;
	} while (dwarf_siblingof(&die, &die) == 0);
	return 0;
}

static int find_function(struct spoor_lines *l, struct unit *u, Dwarf_Die *unit_die, uint64_t addr, Dwarf_Die *ret)
{
	const struct range *range;

	if (!u->indexed) {
		unsigned visited = 0;

		u->indexed = 1;
		if (index_functions(u, unit_die, 0, &visited) < 0)
			return -ENOMEM;
		sort_ranges(&u->functions);
	}
	range = find_range(&u->functions, addr);
	if (!range || !dwarf_offdie(l->dwarf, range->what, ret))
		return -ENOENT;
	return 0;
}

static int is_block(int tag)
{
	return tag == DW_TAG_lexical_block || tag == DW_TAG_try_block || tag == DW_TAG_catch_block ||
	       tag == DW_TAG_with_stmt;
}

/* Follows blocks and inlined calls that contain addr, outermost first. Returns how many calls were found. */
static int find_inlined(Dwarf_Die *parent, uint64_t addr, Dwarf_Die *ret, int max, int depth, unsigned *visited)
{
	Dwarf_Die die;

	if (depth > MAX_DEPTH || max <= 0 || dwarf_child(parent, &die) != 0)
		return 0;
	do {
		int tag = dwarf_tag(&die), inlined = tag == DW_TAG_inlined_subroutine, n;

		if (++*visited > MAX_ENTRIES)
			return 0;
		if (!inlined && !is_block(tag))
			continue;
		if (dwarf_haspc(&die, addr) == 1) {
			if (inlined)
				ret[0] = die;
			return inlined + find_inlined(&die, addr, ret + inlined, max - inlined, depth + 1, visited);
		}
		/* A block without addresses of its own may still hold calls that have them. */
		if (is_block(tag) && !dwarf_hasattr(&die, DW_AT_low_pc) && !dwarf_hasattr(&die, DW_AT_ranges)) {
			n = find_inlined(&die, addr, ret, max, depth + 1, visited);
			if (n)
				return n;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
	return 0;
}

static void line_of_address(Dwarf_Die *unit_die, uint64_t addr, struct spoor_source_line *ret)
{
	Dwarf_Line *line = dwarf_getsrc_die(unit_die, addr);
	int number = 0;

	if (!line)
		return;
	ret->file = dwarf_linesrc(line, NULL, NULL);
	if (dwarf_lineno(line, &number) == 0 && number > 0)
		ret->line = (uint32_t)number;
}

/* Where the inlined function was called from. */
static void line_of_call(Dwarf_Die *unit_die, Dwarf_Die *inlined, struct spoor_source_line *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Word value;
	Dwarf_Files *files;
	size_t n;

	if (dwarf_attr(inlined, DW_AT_call_line, &attr) && dwarf_formudata(&attr, &value) == 0 && value <= UINT32_MAX)
		ret->line = (uint32_t)value;
	if (dwarf_attr(inlined, DW_AT_call_file, &attr) && dwarf_formudata(&attr, &value) == 0 &&
	    dwarf_getsrcfiles(unit_die, &files, &n) == 0 && value < n)
		ret->file = dwarf_filesrc(files, value, NULL, NULL);
}

static uint64_t start_of(Dwarf_Die *function, uint64_t addr)
{
	Dwarf_Addr base, low = 0, high, best = 0;
	ptrdiff_t at = 0;

	if (dwarf_entrypc(function, &low) == 0 && low <= addr)
		return low;
	/* A cold part in front of its function: count from the part's start. */
	for (int steps = 0; steps < 1024; steps++) {
		at = dwarf_ranges(function, at, &base, &low, &high);
		if (at <= 0)
			break;
		if (low <= addr && addr < high)
			best = low;
	}
	return best;
}

int spoor_lines_resolve(struct spoor_lines *l, uint64_t vaddr, struct spoor_source_line *lines, int max,
			uint64_t *ret_start, int *ret_unqualified)
{
	const struct range *range = find_range(&l->ranges, vaddr);
	struct spoor_source_line here = {};
	Dwarf_Die unit_die, chain[MAX_INLINED + 1];
	unsigned visited = 0;
	int n = 0, filled = 0;

	if (!range || max < 1 || !dwarf_offdie(l->dwarf, l->units[range->what].die, &unit_die))
		return 0;
	*ret_start = 0;
	*ret_unqualified = 0;
	line_of_address(&unit_die, vaddr, &here);
	if (find_function(l, &l->units[range->what], &unit_die, vaddr, &chain[0]) == 0) {
		n = 1 + find_inlined(&chain[0], vaddr, chain + 1, MAX_INLINED, 0, &visited);
		*ret_start = start_of(&chain[0], vaddr);
	}
	for (int i = n - 1; i >= 0; i--) {
		/* Too many for the caller: keep the innermost and the owner. */
		if (filled < max - 1 || i == 0) {
			lines[filled] = here;
			lines[filled].function = spoor_dwarf_name(l->names, &chain[i], ret_unqualified);
			lines[filled++].inlined = i > 0;
		}
		here = (struct spoor_source_line){};
		if (i > 0)
			line_of_call(&unit_die, &chain[i], &here);
	}
	if (n == 0 && (here.file || here.line))
		lines[filled++] = here;
	return filled;
}
