/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names and lines of this very program, of broken files, and the demangler. tests/oracle compares with other tools. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "object/demangle.h"
#include "object/symbols.h"
#include "object/symtab.h"

static volatile int sink;

/* Returns its own pc from within. */
__attribute__((noinline)) static void *here(unsigned *ret_line)
{
	void *pc;

	*ret_line = __LINE__ + 1;
	__asm__ volatile("lea 0(%%rip), %0" : "=r"(pc));
	sink++;
	return pc;
}

static struct spoor_symbols *open_self(void)
{
	struct spoor_symbols *s = NULL;
	struct spoor_error e;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_int_equal(spoor_symbols_open(fd, NULL, &s, &e), 0);
	close(fd);
	return s;
}

static uint64_t load_address(void)
{
	Dl_info info;
	struct link_map *map;

	assert_true(dladdr1((void *)open_self, &info, (void **)&map, RTLD_DL_LINKMAP));
	return map->l_addr;
}

static void own_function_and_line(void **state)
{
	struct spoor_symbols *s = open_self();
	struct spoor_source_line lines[8];
	unsigned line;
	uint64_t vaddr = (uint64_t)here(&line) - load_address();
	int n = spoor_symbols_resolve(s, vaddr - 1, lines, 8);

	assert_int_equal(n, 1);
	assert_string_equal(lines[0].function, "here");
	assert_non_null(strstr(lines[0].file, "test_symbols.c"));
	assert_int_equal(lines[0].line, line);
	assert_int_equal(lines[0].inlined, 0);
	assert_int_equal(lines[0].function_offset, vaddr - 1 - ((uint64_t)here - load_address()));
	spoor_symbols_free(s);
}

__attribute__((always_inline)) static inline void *inner(void)
{
	void *pc;

	__asm__ volatile("lea 0(%%rip), %0" : "=r"(pc));
	return pc;
}

__attribute__((always_inline)) static inline void *middle(void)
{
	sink++;
	return inner();
}

__attribute__((noinline)) static void *outer(void)
{
	void *pc = middle();

	sink++;
	return pc;
}

static void inlined_frames(void **state)
{
	static const char *const names[] = { "inner", "middle", "outer" };
	struct spoor_symbols *s = open_self();
	struct spoor_source_line lines[8];
	uint64_t vaddr = (uint64_t)outer() - load_address() - 1;

	assert_int_equal(spoor_symbols_resolve(s, vaddr, lines, 8), 3);
	for (int i = 0; i < 3; i++) {
		assert_string_equal(lines[i].function, names[i]);
		assert_int_equal(lines[i].inlined, i < 2);
	}
	/* A short buffer keeps the innermost and the owner. */
	assert_int_equal(spoor_symbols_resolve(s, vaddr, lines, 2), 2);
	assert_string_equal(lines[0].function, "inner");
	assert_string_equal(lines[1].function, "outer");
	assert_int_equal(spoor_symbols_resolve(s, vaddr, lines, 1), 1);
	assert_string_equal(lines[0].function, "outer");
	assert_int_equal(spoor_symbols_resolve(s, vaddr, lines, 0), -EINVAL);
	spoor_symbols_free(s);
}

static void nothing_known(void **state)
{
	struct spoor_symbols *s = open_self();
	struct spoor_source_line lines[2];

	assert_int_equal(spoor_symbols_resolve(s, 0, lines, 2), 0);
	assert_int_equal(spoor_symbols_resolve(s, 1, lines, 2), 0);
	assert_int_equal(spoor_symbols_resolve(s, UINT64_MAX, lines, 2), 0);
	spoor_symbols_free(s);
	spoor_symbols_free(NULL);
}

static void no_elf(void **state)
{
	static const char *const paths[] = { "/dev/null", "/proc/self/status", "/etc/passwd", "/etc" };
	struct spoor_symbols *s = NULL;

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
		struct spoor_error e = {};

		assert_int_equal(spoor_symbols_open(fd, NULL, &s, &e), -ENOEXEC);
		assert_true(e.text[0]);
		assert_null(s);
		close(fd);
	}
}

/* A copy of this program, cut to `size` bytes, with one byte changed. */
static int damaged_copy(const char *image, size_t size, size_t at, char value)
{
	int fd = memfd_create("damaged", MFD_CLOEXEC);

	assert_int_equal(write(fd, image, size), (ssize_t)size);
	if (at < size)
		assert_int_equal(pwrite(fd, &value, 1, (off_t)at), 1);
	return fd;
}

static void try_damaged(int fd)
{
	struct spoor_source_line lines[16];
	struct spoor_symbols *s;

	if (spoor_symbols_open(fd, "/nonexistent", &s, NULL) == 0) {
		for (uint64_t vaddr = 0; vaddr < 0x8000; vaddr += 0x101)
			assert_true(spoor_symbols_resolve(s, vaddr, lines, 16) >= 0);
		spoor_symbols_free(s);
	}
	close(fd);
}

static void damaged_files(void **state)
{
	_cleanup_(spoor_freep) char *image = malloc(1 << 22);
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ssize_t size = read(fd, image, 1 << 22);

	close(fd);
	assert_true(size > 4096);
	for (int i = 0; i < 20; i++)
		try_damaged(damaged_copy(image, (size_t)size * (size_t)i / 20, SIZE_MAX, 0));
	for (size_t at = 0; at < 64; at++)
		try_damaged(damaged_copy(image, (size_t)size, at, (char)0xff));
	srand(7);
	for (int i = 0; i < 40; i++)
		try_damaged(damaged_copy(image, (size_t)size, (size_t)rand() % (size_t)size, (char)rand()));
}

/* Writes an object of n sections, which are all as `last`, but for the one that has the names; its bytes are holes. */
static void make_object(int fd, unsigned n, const Elf64_Shdr *last, const char *names, size_t size)
{
	const Elf64_Shdr strings = { .sh_type = SHT_STRTAB, .sh_offset = 1024, .sh_size = size };
	Elf64_Ehdr h = {
		.e_ident = ELFMAG, .e_type = ET_DYN, .e_machine = EM_X86_64, .e_shoff = 4096,
		.e_shentsize = sizeof(Elf64_Shdr), .e_shnum = n, .e_shstrndx = 1,
	};

	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_ident[EI_DATA] = ELFDATA2LSB;
	assert_int_equal(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	assert_int_equal(pwrite(fd, names, size, 1024), (ssize_t)size);
	for (unsigned i = 1; i < n; i++)
		assert_int_equal(pwrite(fd, i == 1 ? &strings : last, sizeof(*last), 4096 + i * (off_t)sizeof(*last)),
				 sizeof(*last));
	if (last->sh_offset + last->sh_size > 4096 + n * sizeof(*last))
		assert_int_equal(ftruncate(fd, (off_t)(last->sh_offset + last->sh_size)), 0);
}

/* Thousands of notes that are holes of a gigabyte: they cost their owner nothing, and who reads them all minutes. */
static void notes_are_read_within_bounds(void **state)
{
	const Elf64_Shdr note = { .sh_type = SHT_NOTE, .sh_offset = 1 << 20, .sh_size = 1 << 30 };
	int fd = memfd_create("notes", MFD_CLOEXEC);

	make_object(fd, 4000, &note, "", 1);
	alarm(20);
	try_damaged(fd);
	alarm(0);
}

/* A table that is a hole costs its owner nothing either, and is not to cost memory. */
static void tables_are_read_within_bounds(void **state)
{
	const Elf64_Shdr table = { .sh_type = SHT_SYMTAB, .sh_link = 2, .sh_offset = 1 << 20, .sh_size = 1 << 28,
				   .sh_entsize = sizeof(Elf64_Sym) };
	int fd = memfd_create("tables", MFD_CLOEXEC);
	struct rusage before, after;

	make_object(fd, 3, &table, "", 1);
	getrusage(RUSAGE_SELF, &before);
	try_damaged(fd);
	getrusage(RUSAGE_SELF, &after);
	assert_true(after.ru_maxrss - before.ru_maxrss < 1 << 16); /* kB */
}

/* Nor is a debug file of a terabyte, whose checksum is asked for, to cost time. */
static void debug_file_is_read_within_bounds(void **state)
{
	static const char names[] = "\0.gnu_debuglink", link[8] = "debug";
	const Elf64_Shdr section = { .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = 2048, .sh_size = 12 };
	char dir[] = "/tmp/spoor-unit-symbols-XXXXXX", object[64], debug[64];
	int fd;

	assert_non_null(mkdtemp(dir));
	snprintf(object, sizeof(object), "%s/object", dir);
	snprintf(debug, sizeof(debug), "%s/debug", dir);
	fd = open(debug, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
	close(fd);
	fd = open(object, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	make_object(fd, 3, &section, names, sizeof(names));
	assert_int_equal(pwrite(fd, link, sizeof(link), 2048), sizeof(link));
	alarm(20);
	try_damaged(fd);
	alarm(0);
	unlink(object);
	unlink(debug);
	rmdir(dir);
}

static void demangles(void **state)
{
	static const struct {
		const char *mangled, *shown;
	} names[] = {
		{ "_ZN2ns3BoxIiE3addERKi", "ns::Box<int>::add" },
		{ "_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back" },
		{ "_ZN12_GLOBAL__N_16hiddenEi", "(anonymous namespace)::hidden" },
		{ "_ZNK1AcvbEv", "A::operator bool" },
		{ "_ZSt4sortIPiEvT_S1_", "std::sort<int*>" },
		{ "_ZZ4mainENKUliE_clEi", "main::{lambda(int)#1}::operator()" },
		/* Rust, legacy (the hash goes) and v0 */
		{ "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt" },
		{ "_ZN66_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop17h0123456789abcdefE",
		  "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop" },
		{ "_RNvCs1234_7mycrate3foo", "mycrate::foo" },
		{ "_RNvMNtCs1234_7mycrate5innerINtB2_1SmE4show", "<mycrate::inner::S<u32>>::show" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		_cleanup_(spoor_freep) char *shown = spoor_demangle(names[i].mangled);

		assert_non_null(shown);
		assert_string_equal(shown, names[i].shown);
	}
	assert_null(spoor_demangle("printf"));
	assert_null(spoor_demangle("_Zq"));
	assert_null(spoor_demangle(""));
	assert_null(spoor_demangle("_Z"));
}

/* Each level doubles the text: 40 levels are a terabyte. */
static void demangler_is_bounded(void **state)
{
	char name[4096] = "_Z1f", *at = name + strlen(name);

	at += sprintf(at, "3fooIiE");
	for (int i = 0; i < 40; i++)
		at += sprintf(at, "1fIS%s_S%s_E", i ? (char[]){ (char)('0' + (i - 1) % 10), 0 } : "",
			      i ? (char[]){ (char)('0' + (i - 1) % 10), 0 } : "");
	free(spoor_demangle(name));

	memset(name, 'P', sizeof(name) - 1);
	memcpy(name, "_Z1f", 4);
	name[sizeof(name) - 1] = 0;
	free(spoor_demangle(name));
}

/* Whose table has no section of its own, or does not say where text is: tests/fuzz/make_rows_corpus.py. */
static void go_names_that_are_searched_for(void **state)
{
	static const char *const names[] = { "go_searched", "go_relocated", "go_module", "go_module_relocated" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct spoor_source_line line;
		struct spoor_symbols *s;
		char path[4096];
		int fd;

		snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/rows/%s", getenv("SPOOR_SOURCE"), names[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		assert_int_equal(spoor_symbols_open(fd, NULL, &s, NULL), 0);
		close(fd);
		assert_int_equal(spoor_symbols_resolve(s, 0x10184, &line, 1), 1);
		assert_string_equal(line.function, "main.saves");
		assert_int_equal(line.function_offset, 4);
		spoor_symbols_free(s);
	}
}

static void add(struct spoor_symtab *t, uint64_t addr, uint64_t size, const char *name, uint8_t rank)
{
	struct spoor_symbol symbol = {
		.addr = addr, .end = addr + size, .limit = 0x2000, .name = name, .rank = rank, .form = SPOOR_SYMBOL_ELF
	};

	assert_int_equal(spoor_symtab_add(t, &symbol), 0);
}

static const char *name_at(struct spoor_symtab *t, uint64_t vaddr)
{
	struct spoor_symbol *s = spoor_symtab_find(t, vaddr);

	return s ? spoor_symbol_shown(s) : "";
}

static void symbol_rules(void **state)
{
	struct spoor_symtab t = {};

	assert_null(spoor_symtab_find(&t, 5));
	add(&t, 0x1000, 0x100, "__write", 14);
	add(&t, 0x1000, 0x100, "write@@GLIBC_2.2.5", 14);
	add(&t, 0x1000, 0x100, "weak", 13);
	add(&t, 0x1040, 0x10, "nested", 12);
	add(&t, 0x1048, 0, "label", 2);
	add(&t, 0x1100, 0, "unsized", 2);
	add(&t, 0x1200, 0x10, "sized", 12);
	assert_string_equal(name_at(&t, 0xfff), "");
	assert_string_equal(name_at(&t, 0x1000), "write");
	assert_string_equal(name_at(&t, 0x103f), "write");
	assert_string_equal(name_at(&t, 0x1048), "nested");
	assert_string_equal(name_at(&t, 0x1050), "write");
	assert_string_equal(name_at(&t, 0x10ff), "write");
	assert_string_equal(name_at(&t, 0x1100), "unsized");
	assert_string_equal(name_at(&t, 0x11ff), "unsized");
	assert_string_equal(name_at(&t, 0x120f), "sized");
	assert_string_equal(name_at(&t, 0x1210), "");
	spoor_symtab_release(&t);
}

/* Code made at run time where other code was. */
static void what_was_written_last(void **state)
{
	static const struct spoor_symbol symbols[] = {
		{ .addr = 0x1000, .end = 0x1100, .name = "old", .order = 1 },
		{ .addr = 0x1040, .end = 0x1050, .name = "old_inner", .order = 2 },
		{ .addr = 0x1000, .end = 0x1080, .name = "newest_of_long_name", .order = 3 },
		{ .addr = 0x1070, .end = 0x1078, .name = "newest_inner", .order = 4 },
	};
	struct spoor_symtab t = {};

	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++)
		assert_int_equal(spoor_symtab_add(&t, &symbols[i]), 0);
	assert_string_equal(name_at(&t, 0x1000), "newest_of_long_name");
	assert_string_equal(name_at(&t, 0x1044), "newest_of_long_name");
	assert_string_equal(name_at(&t, 0x1074), "newest_inner");
	assert_string_equal(name_at(&t, 0x1090), "old");
	assert_string_equal(name_at(&t, 0x1100), "");
	spoor_symtab_release(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_function_and_line),
		cmocka_unit_test(inlined_frames),
		cmocka_unit_test(nothing_known),
		cmocka_unit_test(no_elf),
		cmocka_unit_test(damaged_files),
		cmocka_unit_test(notes_are_read_within_bounds),
		cmocka_unit_test(tables_are_read_within_bounds),
		cmocka_unit_test(debug_file_is_read_within_bounds),
		cmocka_unit_test(demangles),
		cmocka_unit_test(demangler_is_bounded),
		cmocka_unit_test(symbol_rules),
		cmocka_unit_test(what_was_written_last),
		cmocka_unit_test(go_names_that_are_searched_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
