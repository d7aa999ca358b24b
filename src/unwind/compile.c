/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One ELF image -> one row table. Call frame information comes first; what it leaves open, Go's tables fill. */
#include <dwarf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "unwind/cfi.h"
#include "unwind/cfi_run.h"
#include "unwind/debug_frame.h"
#include "unwind/frame_pointer_rows.h"
#include "unwind/go_rows.h"
#include "unwind/plt_rows.h"

/* Real objects need less than one step for a byte of their unwind information. */
#define WORK_PER_BYTE 4
#define WORK_BASE (1u << 20)

/* The value of an entry of the dynamic section, or 0. gABI chapter 5. */
static uint64_t dynamic_value(const struct spoor_elf_view *elf, Elf64_Sxword tag)
{
	struct spoor_view_range table = { 0 };
	Elf64_Phdr p;
	Elf64_Dyn d;

	for (unsigned i = 0; spoor_view_segment(elf, i, &p) && !table.size; i++)
		if (p.p_type == PT_DYNAMIC && spoor_view_mapped(elf, p.p_vaddr, &table) < 0)
			return 0;
	for (size_t at = 0; at + sizeof(d) <= table.size; at += sizeof(d)) {
		memcpy(&d, table.data + at, sizeof(d));
		if (d.d_tag == DT_NULL || d.d_tag == tag)
			return d.d_tag == tag ? d.d_un.d_val : 0;
	}
	return 0;
}

/*
 * glibc's loader binds lazily: it is called by a trampoline whose CFA is in rbx, and saves that. Where it does is in
 * the rules of this object alone, since they are dearer to go by.
 */
static bool is_loader(const struct spoor_elf_view *elf)
{
	static const char name[] = "ld-linux-x86-64.so.2";
	uint64_t names = dynamic_value(elf, DT_STRTAB), at = dynamic_value(elf, DT_SONAME);
	struct spoor_view_range soname;

	return names && at && spoor_view_mapped(elf, names + at, &soname) == 0 && soname.size >= sizeof(name) &&
	       !memcmp(soname.data, name, sizeof(name));
}

static int text_of(const struct spoor_elf_view *elf, uint64_t *ret_first, uint64_t *ret_end)
{
	uint64_t first = UINT64_MAX, end = 0, size;
	unsigned int i;
	Elf64_Phdr p;

	for (i = 0; spoor_view_segment(elf, i, &p); i++) {
		if (p.p_type != PT_LOAD || !(p.p_flags & PF_X) || p.p_offset >= elf->size)
			continue;
		size = p.p_filesz < elf->size - p.p_offset ? p.p_filesz : elf->size - p.p_offset;
		if (!size)
			continue;
		if (size > UINT64_MAX - p.p_vaddr)
			return -EBADMSG;
		first = p.p_vaddr < first ? p.p_vaddr : first;
		end = p.p_vaddr + size > end ? p.p_vaddr + size : end;
	}
	if (!end)
		return -ENODATA;
	*ret_first = first;
	*ret_end = end;
	return 0;
}

/* An object without section headers names its .eh_frame in the header of the search table. LSB 5.0, 10.6.2. */
static int find_by_segment(const struct spoor_elf_view *elf, struct cfi_section *ret)
{
	struct spoor_view_range head;
	struct cfi_bases bases = { .elf = elf };
	uint8_t version, encoding;
	struct cursor c;
	uint64_t vaddr;
	unsigned int i;
	Elf64_Phdr p;

	for (i = 0; spoor_view_segment(elf, i, &p); i++)
		if (p.p_type == PT_GNU_EH_FRAME)
			break;
	if (!spoor_view_segment(elf, i, &p) || spoor_view_mapped(elf, p.p_vaddr, &head) < 0)
		return -ENOENT;

	c = (struct cursor){ head.data, head.data + head.size, false };
	bases.bytes = head.data;
	bases.vaddr = bases.data = head.vaddr;
	version = cursor_u8(&c);
	encoding = cursor_u8(&c);
	cursor_skip(&c, 2);
	if (c.bad || version != 1 || spoor_cfi_pointer(&c, encoding, &bases, &vaddr) < 0)
		return -ENOENT;
	ret->ends_with_zero = true;
	return spoor_view_mapped(elf, vaddr, &ret->bytes);
}

static uint64_t got_of(const struct spoor_elf_view *elf)
{
	struct spoor_view_range got;

	if (spoor_view_section(elf, ".got.plt", &got) == 0 || spoor_view_section(elf, ".got", &got) == 0)
		return got.vaddr;
	return 0;
}

/* 0, -ENOENT, or as spoor_cfi_read(). */
static int add_eh_frame(const struct spoor_elf_view *elf, struct rowset *rows)
{
	struct cfi_section section = { .eh_frame = true, .data_base = got_of(elf) };
	__u32 settled = rows->n_ranges;
	int r;

	r = spoor_view_section(elf, ".eh_frame", &section.bytes);
	if (r < 0)
		r = find_by_segment(elf, &section);
	if (r < 0)
		return r;
	r = spoor_cfi_read(elf, &section, rows);
	return r < 0 ? r : spoor_rowset_settle(rows, settled);
}

/* 0, -ENOENT, or as spoor_cfi_read(). */
static int add_debug_frame(const struct spoor_elf_view *elf, struct rowset *rows)
{
	_cleanup_(spoor_freep) void *unpacked = NULL;
	struct cfi_section section = { .data_base = got_of(elf) };
	__u32 settled = rows->n_ranges;
	int r;

	r = spoor_debug_frame(elf, &section.bytes, &unpacked);
	if (r < 0)
		return r;
	if (unpacked)
		rows->work += WORK_PER_BYTE * (__u64)section.bytes.size;
	r = spoor_cfi_read(elf, &section, rows);
	return r < 0 ? r : spoor_rowset_settle(rows, settled);
}

static int add_go(const struct spoor_elf_view *elf, struct rowset *rows)
{
	__u32 settled = rows->n_ranges;
	int r;

	r = spoor_go_read(elf, rows);
	return r < 0 ? r : spoor_rowset_settle(rows, settled);
}

/*
 * glibc's clone and clone3 end their description just before the system call, because it would be wrong in the child,
 * and take it up again behind. The caller's stack is still as it was; the child makes no call there.
 */
#define CLONE_CODE 16

static bool is_clone(const struct spoor_elf_view *elf, uint64_t vaddr)
{
	static const uint8_t code[] = { 0x0f, 0x05, 0x48, 0x85, 0xc0 }; /* syscall; test rax, rax */
	struct spoor_view_range bytes;

	return spoor_view_mapped(elf, vaddr, &bytes) == 0 && bytes.size >= sizeof(code) &&
	       !memcmp(bytes.data, code, sizeof(code));
}

static int add_clone(const struct spoor_elf_view *elf, struct rowset *rows)
{
	__u32 settled = rows->n_ranges;

	for (__u32 i = 0; i + 1 < settled; i++) {
		const struct rowset_range *before = &rows->ranges[i];
		uint64_t start = rows->text_base + before->end, end = rows->text_base + before[1].start;
		int r;

		if (!before->count || end <= start || end - start > CLONE_CODE || !is_clone(elf, start))
			continue;
		r = rows->rows[before->first + before->count - 1].rule;
		if (spoor_rowset_open(rows, start, end) < 0)
			continue;
		r = spoor_rowset_add(rows, start, r);
		if (r < 0)
			return r;
	}
	return spoor_rowset_settle(rows, settled);
}

/*
 * Code at the entry point that has no unwind information (the dynamic loader's _start, hand-written programs) has no
 * caller: that is where a stack ends. What follows it up to the next described function belongs to it.
 */
#define ENTRY_CODE 256

/* Where the code at vaddr ends, at most at end: at the next described function. vaddr itself if that is described. */
static uint64_t undescribed_end(const struct rowset *rows, uint64_t vaddr, uint64_t end)
{
	for (__u32 i = 0; i < rows->n_ranges; i++) {
		uint64_t first = rows->text_base + rows->ranges[i].start;

		if (vaddr >= first && vaddr < rows->text_base + rows->ranges[i].end)
			return vaddr;
		if (first > vaddr && first < end)
			end = first;
	}
	return end;
}

static int add_entry(const struct spoor_elf_view *elf, struct rowset *rows)
{
	const struct spoor_rule end = { .op = SPOOR_RULE_END, .reg_rbp = 7 };
	__u32 settled = rows->n_ranges;
	uint64_t entry = elf->header.e_entry;
	int r, rule;

	if (!entry || spoor_rowset_open(rows, entry, undescribed_end(rows, entry, entry + ENTRY_CODE)) < 0)
		return 0;
	rule = spoor_rowset_rule(rows, &end);
	if (rule < 0)
		return rule;
	r = spoor_rowset_add(rows, entry, rule);
	return r < 0 ? r : spoor_rowset_settle(rows, settled);
}

static int add_undescribed(const struct spoor_elf_view *elf, struct rowset *rows)
{
	int r = add_clone(elf, rows);

	if (r >= 0)
		r = spoor_plt_rows(elf, rows);
	if (r >= 0)
		r = add_entry(elf, rows);
	return r < 0 ? r : spoor_frame_pointer_rows(elf, rows);
}

/*
 * Best first. Go's own tables know more than the .debug_frame that its linker writes: where a stack ends, and where a
 * return address is in a register.
 */
static const struct {
	enum spoor_rows_source source;
	int (*add)(const struct spoor_elf_view *elf, struct rowset *rows);
} sources[] = {
	{ SPOOR_ROWS_EH_FRAME, add_eh_frame },
	{ SPOOR_ROWS_GOPCLNTAB, add_go },
	{ SPOOR_ROWS_DEBUG_FRAME, add_debug_frame },
};

static int read_all(const struct spoor_elf_view *elf, struct rowset *rows, enum spoor_rows_source *ret_source)
{
	enum spoor_rows_source source = SPOOR_ROWS_NOTHING;
	int r, damaged = 0;
	size_t i;

	for (i = 0; i < sizeof(sources) / sizeof(*sources); i++) {
		r = sources[i].add(elf, rows);
		if (r == -ENOMEM)
			return r;
		if (r == -EBADMSG)
			damaged = r;
		if (!source && rows->n_ranges)
			source = sources[i].source;
	}
	*ret_source = source;
	if (source)
		return add_undescribed(elf, rows);
	return damaged ? damaged : -ENODATA;
}

static int fail(struct spoor_error *e, int r)
{
	switch (r) {
	case -ENOEXEC:
		return spoor_fail(e, ENOEXEC, "no unwind rows: not an x86-64 executable or shared object");
	case -ENODATA:
		return spoor_fail(e, ENODATA, "no unwind rows: the object has no unwind information");
	case -ENOMEM:
		return spoor_fail(e, ENOMEM, "no unwind rows: out of memory");
	default:
		return spoor_fail(e, EBADMSG, "no unwind rows: the object or its unwind information is damaged");
	}
}

int spoor_rows_compile(const void *image, size_t size, struct spoor_rows *ret_rows, struct spoor_error *e)
{
	_cleanup_(spoor_rowset_free) struct rowset rows = { 0 };
	struct spoor_rows result = { 0 };
	struct spoor_elf_view elf;
	uint64_t first, end;
	int r;

	r = spoor_view_open(image, size, &elf);
	if (r == 0)
		r = text_of(&elf, &first, &end);
	if (r == 0)
		r = spoor_rowset_init(&rows, first, end, WORK_BASE + WORK_PER_BYTE * (__u64)size);
	rows.keeps_rbx = r == 0 && is_loader(&elf);
	if (r == 0)
		r = read_all(&elf, &rows, &result.source);
	if (r == 0)
		r = spoor_rowset_table(&rows, &result);
	if (r < 0)
		return fail(e, r);
	*ret_rows = result;
	return 0;
}
