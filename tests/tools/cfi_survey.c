/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Asks libdw what an object's call frame information says at every row of ours: tabulates the shapes, and checks that
 * each of our rules says the same. For every object named on standard input one line a shape:
 *
 *   shape TAB count TAB ours TAB start TAB end TAB object
 *
 * shape is "cfa / rbp / ra" as libdw gives it with numbers replaced by N; ours is the rule's op (0: we have none) and
 * start and end its first example. A rule that disagrees is a line that begins with "WRONG". Rows whose CFA hangs on
 * a register other than rsp and rbp are listed one by one, as lines that begin with "REG".
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "unwind/rows.h"

enum { REG_RBP = 6, REG_RSP = 7, REG_RA = 16 };

struct shape {
	char text[512];
	unsigned long count;
	int ours;
	__u64 start, end;
};

#define MAX_SHAPES 4096
static struct shape shapes[MAX_SHAPES];
static int n_shapes;

static void say_ops(char *out, size_t room, const Dwarf_Op *ops, size_t n)
{
	size_t i, len;
	int op;

	for (i = 0; i < n; i++) {
		len = strlen(out);
		if (room - len < 32)
			return;
		op = ops[i].atom;
		if (op >= DW_OP_breg0 && op <= DW_OP_breg31)
			snprintf(out + len, room - len, "r%d+N ", op - DW_OP_breg0);
		else if (op == DW_OP_bregx)
			snprintf(out + len, room - len, "r%d+N ", (int)ops[i].number);
		else if (op >= DW_OP_lit0 && op <= DW_OP_lit31)
			snprintf(out + len, room - len, "%d ", op - DW_OP_lit0);
		else if (op == DW_OP_call_frame_cfa)
			snprintf(out + len, room - len, "cfa ");
		else if (op == DW_OP_plus_uconst)
			snprintf(out + len, room - len, "+N ");
		else if (op == DW_OP_stack_value)
			snprintf(out + len, room - len, "value ");
		else if (op == DW_OP_deref)
			snprintf(out + len, room - len, "deref ");
		else if (op == DW_OP_regx || (op >= DW_OP_reg0 && op <= DW_OP_reg31))
			snprintf(out + len, room - len, "in r%d ",
				 op == DW_OP_regx ? (int)ops[i].number : op - DW_OP_reg0);
		else
			snprintf(out + len, room - len, "op%02x ", op);
	}
}

static void say_register(char *out, size_t room, Dwarf_Frame *frame, int reg)
{
	Dwarf_Op mem[3], *ops;
	size_t n;

	if (dwarf_frame_register(frame, reg, mem, &ops, &n) < 0)
		strcat(out, "error");
	else if (!n && ops == mem)
		strcat(out, "undefined");
	else if (!n)
		strcat(out, "same");
	else
		say_ops(out, room, ops, n);
}

static void say(char *out, size_t room, Dwarf_Frame *frame, bool signal)
{
	Dwarf_Op *ops;
	size_t n;

	*out = 0;
	if (signal)
		strcat(out, "S ");
	if (dwarf_frame_cfa(frame, &ops, &n) == 0)
		say_ops(out, room, ops, n);
	strcat(out, "/ ");
	say_register(out, room, frame, REG_RBP);
	strcat(out, "/ ");
	say_register(out, room, frame, REG_RA);
}

static bool is_breg(const Dwarf_Op *op, int reg, int64_t off)
{
	if (op->atom == DW_OP_bregx)
		return (int)op->number == reg && (int64_t)op->number2 == off;
	return op->atom == DW_OP_breg0 + reg && (int64_t)op->number == off;
}

static bool cfa_agrees(const struct spoor_rule *rule, const Dwarf_Op *ops, size_t n)
{
	int reg = rule->reg_rbp & 15;

	switch (rule->op) {
	case SPOOR_RULE_CFA:
		return n == 1 && is_breg(ops, reg, rule->cfa_off);
	case SPOOR_RULE_RBX:
		return n == 1 && is_breg(ops, reg, (__s32)((__u32)rule->cfa_off << 8) >> 8);
	case SPOOR_RULE_DEREF:
		if (n < 2 || n > 4 || !is_breg(ops, reg, (__s16)rule->cfa_off) || ops[1].atom != DW_OP_deref)
			return false;
		if (n == 2)
			return !(rule->cfa_off >> 16);
		return n == 4 || (ops[2].atom == DW_OP_plus_uconst && (int)ops[2].number == rule->cfa_off >> 16);
	case SPOOR_RULE_PLT:
		return n == 9 && ops[4].atom == DW_OP_lit0 + rule->cfa_off;
	case SPOOR_RULE_SIGNAL:
		return n == 2 && is_breg(ops, REG_RSP, 160);
	case SPOOR_RULE_RA_REG:
	case SPOOR_RULE_RA_OFF:
		return n == 1 && is_breg(ops, reg, (__s16)rule->cfa_off);
	default:
		return false;
	}
}

static bool at_cfa(const Dwarf_Op *ops, size_t n, int64_t off)
{
	if (n < 1 || ops[0].atom != DW_OP_call_frame_cfa)
		return false;
	if (n == 1)
		return !off;
	return n == 2 && ops[1].atom == DW_OP_plus_uconst && (int64_t)ops[1].number == off;
}

static bool ra_agrees(const struct spoor_rule *rule, const Dwarf_Op *ops, size_t n)
{
	if (rule->op == SPOOR_RULE_SIGNAL)
		return true;
	if (rule->op == SPOOR_RULE_RA_REG)
		return n == 1 && (ops[0].atom == DW_OP_regx ? (int)ops[0].number : ops[0].atom - DW_OP_reg0) ==
					 (rule->cfa_off >> 16 & 15);
	return at_cfa(ops, n, rule->op == SPOOR_RULE_RA_OFF ? rule->cfa_off >> 16 : -8);
}

static bool rbp_agrees(const struct spoor_rule *rule, const Dwarf_Op *ops, size_t n, bool same)
{
	int reg = rule->reg_rbp & 15;

	/* Before an expression that finds where a register is saved, libdw pushes the CFA. */
	if (n == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom != DW_OP_plus_uconst) {
		ops++;
		n--;
	}
	switch (rule->op == SPOOR_RULE_SIGNAL ? SPOOR_RBP_UNDEF : rule->reg_rbp >> 4) {
	case SPOOR_RBP_SAME:
		return same;
	case SPOOR_RBP_AT_CFA:
		return at_cfa(ops, n, rule->rbp_off);
	case SPOOR_RBP_AT_RBP:
		return n == 1 && is_breg(ops, REG_RBP, rule->rbp_off);
	case SPOOR_RBP_AT_REG:
		return n == 1 && is_breg(ops, reg, rule->rbp_off);
	default:
		return true;
	}
}

static bool agrees(const struct spoor_rule *rule, Dwarf_Frame *frame)
{
	Dwarf_Op mem[3], *ops;
	size_t n;

	if (rule->op == SPOOR_RULE_NONE)
		return true; /* counted, not wrong */
	if (dwarf_frame_register(frame, REG_RA, mem, &ops, &n) < 0)
		return false;
	if (rule->op == SPOOR_RULE_END || (!n && ops == mem))
		return rule->op == SPOOR_RULE_END && !n && ops == mem;
	if (!ra_agrees(rule, ops, n) || dwarf_frame_cfa(frame, &ops, &n) < 0 || !cfa_agrees(rule, ops, n))
		return false;
	if (dwarf_frame_register(frame, REG_RBP, mem, &ops, &n) < 0)
		return false;
	/* libdw's ABI defaults leave rbp at "same"; "nothing said" and "undefined" look alike to a walk. */
	return rbp_agrees(rule, ops, n, !n);
}

static void count(const char *text, const struct spoor_rule *rule, __u64 start, __u64 end)
{
	int i;

	for (i = 0; i < n_shapes; i++)
		if (!strcmp(shapes[i].text, text) && shapes[i].ours == rule->op)
			break;
	if (i == MAX_SHAPES)
		return;
	if (i == n_shapes) {
		n_shapes++;
		shapes[i] = (struct shape){ .ours = rule->op, .start = start, .end = end };
		snprintf(shapes[i].text, sizeof(shapes[i].text), "%s", text);
	}
	shapes[i].count++;
}

static void look(Dwarf_CFI *cfi, const char *path, const struct spoor_rule *rule, __u64 start, __u64 end, __u64 bias)
{
	char text[512], last[512] = "";
	Dwarf_Addr from, to;
	Dwarf_Frame *frame;
	bool signal;
	__u64 pc;

	for (pc = start; pc < end; pc = to) {
		if (dwarf_cfi_addrframe(cfi, pc - bias, &frame) != 0) {
			if (rule->op != SPOOR_RULE_NONE && rule->op != SPOOR_RULE_END)
				printf("OTHER\t%s\t%llx\t%d\n", path, pc, rule->op);
			return;
		}
		dwarf_frame_info(frame, &from, &to, &signal);
		to += bias;
		say(text, sizeof(text), frame, signal);
		if (strcmp(text, last))
			count(text, rule, pc, to);
		strcpy(last, text);
		if (!agrees(rule, frame))
			printf("WRONG\t%s\t%llx\t%s\t%d %02x %d %d\n", path, pc, text, rule->op, rule->reg_rbp,
			       rule->rbp_off, rule->cfa_off);
		free(frame);
		if (to <= pc)
			return;
	}
	if ((rule->op == SPOOR_RULE_CFA || rule->op == SPOOR_RULE_DEREF) && (rule->reg_rbp & 15) != REG_RSP &&
	    (rule->reg_rbp & 15) != REG_RBP)
		printf("REG\t%d\t%llx\t%llx\t%s\n", rule->reg_rbp & 15, start, end, path);
}

static void look_at_rows(Dwarf_CFI *cfi, const char *path, const struct spoor_row_table *t, __u64 bias)
{
	const struct spoor_row *row, *last;
	__u64 base;
	__u32 i;

	for (i = 0; i < t->n_pages; i++) {
		base = t->text_base + ((__u64)i << SPOOR_TEXT_PAGE_SHIFT);
		row = t->rows + t->pages[i].first;
		for (last = row + t->pages[i].count; row < last; row++)
			look(cfi, path, &t->rules[row->rule], base + row->pc,
			     base + (row + 1 < last ? row[1].pc : 1 << SPOOR_TEXT_PAGE_SHIFT), bias);
	}
}

static void survey(const char *path)
{
	_cleanup_(spoor_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct spoor_rows rows;
	struct stat st;
	Dwarf_CFI *cfi;
	void *image;
	Elf *elf;
	int i, r;

	if (fd < 0 || fstat(fd, &st) < 0 || !st.st_size)
		return;
	image = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (image == MAP_FAILED)
		return;
	r = spoor_rows_compile(image, st.st_size, &rows, NULL);
	if (r < 0) {
		if (r != -ENOEXEC)
			printf("NOROWS\t%d\t%s\n", r, path);
		munmap(image, st.st_size);
		return;
	}
	printf("OBJECT\t%d\t%u\t%u\t%u\t%u\t%s\n", rows.source, rows.n_fdes, rows.table.n_rows, rows.table.n_rules,
	       rows.n_unsupported, path);
	elf = elf_memory(image, st.st_size);
	cfi = elf ? dwarf_getcfi_elf(elf) : NULL;
	n_shapes = 0;
	if (cfi)
		look_at_rows(cfi, path, &rows.table, 0);
	for (i = 0; i < n_shapes; i++)
		printf("%s\t%lu\t%d\t%llx\t%llx\t%s\n", shapes[i].text, shapes[i].count, shapes[i].ours,
		       shapes[i].start, shapes[i].end, path);
	dwarf_cfi_end(cfi);
	elf_end(elf);
	spoor_rows_free(&rows);
	munmap(image, st.st_size);
}

int main(void)
{
	char path[4096];

	elf_version(EV_CURRENT);
	while (fgets(path, sizeof(path), stdin)) {
		path[strcspn(path, "\n")] = 0;
		survey(path);
	}
	return 0;
}
