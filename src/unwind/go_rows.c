/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "unwind/go_rows.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "object/go_table.h"
#include "unwind/cursor.h"

enum { GO_1_2 = 0xfffffffb, GO_1_16 = 0xfffffffa, GO_1_18 = 0xfffffff0, GO_1_20 = 0xfffffff1 };
enum { FLAG_SPWRITE = 2 };
enum { REG_RBP = 6, REG_RSP = 7, REG_R12 = 12 };

#define MAX_DELTA (1 << 30)

struct go {
	const struct spoor_elf_view *elf;
	struct spoor_view_range bytes;
	uint32_t magic;
	bool relative; /* addresses are 32-bit offsets from text */
	uint64_t text, n_functions;
	uint64_t names, pcs, functions; /* offsets of the tables */
};

struct function {
	uint64_t start, end;
	uint64_t deltas; /* offset into the pc tables; 0: none */
	bool moves_stack; /* assembler that writes rsp by other means than push, pop and sub */
	const char *name;
	size_t name_room;
};

static struct cursor at(const struct go *g, uint64_t offset)
{
	const uint8_t *end = g->bytes.data + g->bytes.size;

	if (offset > g->bytes.size)
		return (struct cursor){ end, end, true };
	return (struct cursor){ g->bytes.data + offset, end, false };
}

static int read_header(struct go *g)
{
	struct cursor c = at(g, 0);
	uint32_t magic = cursor_u32(&c);
	uint8_t quantum, pointer;

	g->magic = magic;
	cursor_skip(&c, 2);
	quantum = cursor_u8(&c);
	pointer = cursor_u8(&c);
	if (c.bad || quantum != 1 || pointer != 8)
		return -EBADMSG;
	g->n_functions = cursor_u64(&c);
	if (magic == GO_1_2) {
		g->functions = 16;
		return g->n_functions > g->bytes.size / 16 ? -EBADMSG : 0;
	}
	if (magic != GO_1_16 && magic != GO_1_18 && magic != GO_1_20)
		return -EBADMSG;
	cursor_u64(&c); /* files */
	g->relative = magic != GO_1_16;
	if (g->relative) {
		cursor_u64(&c); /* text: go_table.h has it */
		if (!g->text)
			return -EBADMSG;
	}
	g->names = cursor_u64(&c);
	cursor_skip(&c, 16); /* compilation units, file names */
	g->pcs = cursor_u64(&c);
	g->functions = cursor_u64(&c);
	if (c.bad || g->names >= g->bytes.size || g->pcs >= g->bytes.size || g->functions >= g->bytes.size)
		return -EBADMSG;
	return g->n_functions > (g->bytes.size - g->functions) / (g->relative ? 8 : 16) ? -EBADMSG : 0;
}

static uint64_t word(const struct go *g, struct cursor *c)
{
	return g->relative ? cursor_u32(c) : cursor_u64(c);
}

/* Since Go 1.17 (whose header is 1.16's, and where these bytes were 0): after files, lines, counts and unit. */
static uint8_t read_flags(const struct go *g, struct cursor c)
{
	if (!g->pcs)
		return 0;
	cursor_skip(&c, g->magic == GO_1_20 ? 21 : 17); /* and since 1.20 the line; then the function's id */
	return cursor_u8(&c);
}

static int read_function(const struct go *g, uint64_t i, struct function *ret)
{
	struct cursor c = at(g, g->functions + i * (g->relative ? 8 : 16));
	uint64_t record, name;

	ret->start = g->text + word(g, &c);
	record = word(g, &c);
	ret->end = g->text + word(g, &c);
	if (c.bad || record > g->bytes.size)
		return -EBADMSG;
	/* The first format counts from the beginning, the others from the function table. */
	c = at(g, g->pcs ? g->functions + record : record);
	word(g, &c); /* entry */
	name = cursor_u32(&c);
	cursor_skip(&c, 8); /* argument size, deferreturn */
	ret->deltas = cursor_u32(&c);
	if (c.bad)
		return -EBADMSG;
	ret->moves_stack = read_flags(g, c) & FLAG_SPWRITE;
	c = at(g, g->names + name);
	ret->name = (const char *)c.at;
	ret->name_room = cursor_left(&c);
	return 0;
}

static bool is_named(const struct function *f, const char *name)
{
	size_t len = strlen(name) + 1;

	return len <= f->name_room && !memcmp(f->name, name, len);
}

static bool is_one_of(const struct function *f, const char *const *names)
{
	for (; *names; names++)
		if (is_named(f, *names))
			return true;
	return false;
}

/* Where the runtime itself stops a traceback: what lies beyond is no caller, or (gogo) the stack is another one. */
static bool is_outermost(const struct function *f)
{
	static const char *const names[] = { "runtime.goexit", "runtime.mstart", "runtime.rt0_go", "runtime.mcall",
		"runtime.morestack", "gogo", "runtime.gogo", "_rt0_amd64", "_rt0_amd64_linux", NULL };

	return is_one_of(f, names);
}

/* What a signal handler makes the interrupted code call: it goes on, or is found, where it was. */
static bool is_injected(const struct function *f)
{
	static const char *const names[] = { "runtime.asyncPreempt", "runtime.sigpanic", "runtime.sigpanic0",
		"runtime.debugCallV1", "runtime.debugCallV2", NULL };

	return is_one_of(f, names);
}

/* push rbp; mov rbp, rsp; or, before Go 1.21, sub rsp, N; mov [rsp+N-8], rbp; lea rbp, [rsp+N-8] */
static bool keeps_frame_pointer(const struct go *g, const struct function *f)
{
	static const uint8_t prologue[] = { 0x55, 0x48, 0x89, 0xe5 }, sub[] = { 0x48, 0x83, 0xec };
	static const uint8_t save[] = { 0x48, 0x89, 0x6c, 0x24 }, lea[] = { 0x48, 0x8d, 0x6c, 0x24 };
	struct spoor_view_range code;
	const uint8_t *p;

	if (spoor_view_mapped(g->elf, f->start, &code) < 0 || code.size < 14)
		return false;
	p = code.data;
	if (!memcmp(p, prologue, sizeof(prologue)))
		return true;
	return !memcmp(p, sub, 3) && !memcmp(p + 4, save, 4) && !memcmp(p + 9, lea, 4) &&
	       p[8] == p[3] - 8 && p[13] == p[8];
}

static bool is_switch(const struct function *f)
{
	return is_named(f, "runtime.systemstack") || is_named(f, "runtime.asmcgocall");
}

/*
 * These move to another stack, or align it for C, but leave the frame pointer of the old one: it alone finds the
 * caller.
 */
static bool switches_stack(const struct go *g, const struct function *f)
{
	return (f->moves_stack || is_switch(f)) && keeps_frame_pointer(g, f);
}

/*
 * Before Go 1.21 the two have no frame of their own: the frame pointer is their caller's, and finds who called that.
 * By the stack pointer one would find what an earlier switch left behind.
 */
static bool switches_without_frame(const struct go *g, const struct function *f)
{
	return is_switch(f) && !keeps_frame_pointer(g, f);
}

/* Where in runtime.clone the new thread goes on: mov rsp, rsi, to a stack on which nobody has called. */
static uint64_t new_thread_of(const struct go *g, const struct function *f)
{
	struct spoor_view_range code;
	const uint8_t *at;
	size_t size;

	if (!is_named(f, "runtime.clone") || spoor_view_mapped(g->elf, f->start, &code) < 0)
		return f->end;
	size = code.size < f->end - f->start ? code.size : f->end - f->start;
	at = memmem(code.data, size, "\x48\x89\xf4", 3);
	return at ? f->start + (at - code.data) : f->end;
}

/* Where signal handlers return to: it makes the one call, with rsp at the context. */
static bool is_trampoline(const struct function *f)
{
	return is_named(f, "runtime.sigreturn") || is_named(f, "runtime.sigreturn__sigaction");
}

static const struct spoor_rule frame_pointer = {
	.op = SPOOR_RULE_FP,
	.reg_rbp = REG_RBP | SPOOR_RBP_AT_CFA << 4,
	.rbp_off = -16,
};

static struct spoor_rule rule_of(const struct function *f, int64_t delta, bool switching)
{
	struct spoor_rule rule = { .op = is_injected(f) ? SPOOR_RULE_INJECTED : SPOOR_RULE_CFA,
				   .reg_rbp = REG_RSP,
				   .cfa_off = delta + 8 };

	if (switching && delta)
		return frame_pointer;
	/* It takes its return address off the stack, which its child will use. */
	if (delta == -8 && is_named(f, "syscall.rawVforkSyscall"))
		return (struct spoor_rule){ .op = SPOOR_RULE_RA_REG, .reg_rbp = REG_RSP, .cfa_off = REG_R12 << 16 };
	if (delta < 0)
		return (struct spoor_rule){ 0 };
	/* The compiler saves rbp just below the return address in every function that has a frame. */
	if (delta) {
		rule.reg_rbp |= SPOOR_RBP_AT_CFA << 4;
		rule.rbp_off = -16;
	}
	return rule;
}

static int add_row(struct rowset *rows, uint64_t pc, const struct spoor_rule *rule)
{
	int r = spoor_rowset_rule(rows, rule);

	return r < 0 ? r : spoor_rowset_add(rows, pc, r);
}

/*
 * mov [rsp+N], rbp and lea rbp, [rsp+N], with a byte or four for N: before Go 1.21 these follow where a function has
 * made its frame, and until they are done rbp is the caller's. Returns their bytes, 0 if they do not stand at pc.
 */
static size_t saves_frame_pointer(const struct go *g, uint64_t pc)
{
	struct spoor_view_range code;
	size_t len;

	if (spoor_view_mapped(g->elf, pc, &code) < 0 || code.size < 16 || memcmp(code.data, "\x48\x89", 2) ||
	    (code.data[2] & 0x3f) != 0x2c || code.data[3] != 0x24)
		return 0;
	len = code.data[2] == 0x6c ? 5 : code.data[2] == 0xac ? 8 : 0;
	if (!len || memcmp(code.data + len, "\x48\x8d", 2) || memcmp(code.data + len + 2, code.data + 2, len - 2))
		return 0;
	return 2 * len;
}

/* The rule from pc on, to before `end`. */
static int add_delta(const struct go *g, const struct function *f, struct rowset *rows, uint64_t pc, uint64_t end,
		     int64_t delta)
{
	struct spoor_rule rule = { .op = SPOOR_RULE_CFA, .reg_rbp = REG_RSP, .cfa_off = delta + 8 };
	size_t len = delta > 0 ? saves_frame_pointer(g, pc) : 0;

	if (len && len < end - pc) {
		int r = add_row(rows, pc, &rule);

		if (r < 0)
			return r;
		pc += len;
	}
	rule = rule_of(f, delta, switches_stack(g, f));
	return add_row(rows, pc, &rule);
}

/* A pc table: pairs of (difference of value, zigzag; difference of pc), the value held up to that pc. */
static int add_deltas(const struct go *g, const struct function *f, struct rowset *rows)
{
	struct cursor c = at(g, g->pcs + f->deltas);
	uint64_t pc = f->start, end, step, raw;
	int64_t delta = -1;
	int r;

	while (pc < f->end) {
		raw = cursor_uleb(&c);
		/* The table ends with the code: what follows up to the next function is padding. */
		if (!raw && !c.bad && pc != f->start)
			return spoor_rowset_add(rows, pc, 0);
		step = cursor_uleb(&c);
		if (c.bad || !step || !rows->work)
			break;
		rows->work--;
		delta = (int64_t)((uint64_t)delta + (raw >> 1 ^ -(raw & 1)));
		if (delta < -MAX_DELTA || delta > MAX_DELTA)
			break;
		end = step < f->end - pc ? pc + step : f->end;
		r = add_delta(g, f, rows, pc, end, delta);
		if (r < 0)
			return r;
		pc = end;
	}
	if (pc >= f->end)
		return 0;
	rows->n_unsupported++;
	return spoor_rowset_add(rows, pc, 0);
}

/*
 * No call stands before the trampoline: it is looked for at the byte before it, which must be of no function then (the
 * linker's int3).
 */
static int add_trampoline(const struct go *g, const struct function *f, struct rowset *rows)
{
	static const struct spoor_rule signal = { .op = SPOOR_RULE_SIGNAL, .reg_rbp = REG_RSP };
	struct spoor_view_range before;
	bool free = spoor_view_mapped(g->elf, f->start - 1, &before) >= 0 && before.size && before.data[0] == 0xcc;
	int r = spoor_rowset_open(rows, f->start - free, f->end);

	if (r < 0)
		return r == -ERANGE ? 0 : r;
	rows->n_fdes++;
	return add_row(rows, f->start - free, &signal);
}

static int add_function(const struct go *g, const struct function *f, struct rowset *rows)
{
	static const struct spoor_rule end = { .op = SPOOR_RULE_END, .reg_rbp = REG_RSP };
	struct function called = *f; /* that part of it which has a caller */
	int r;

	if (is_trampoline(f))
		return add_trampoline(g, f, rows);
	r = spoor_rowset_open(rows, f->start, f->end);
	if (r < 0)
		return r == -ERANGE ? 0 : r;
	rows->n_fdes++;
	if (is_outermost(f))
		return add_row(rows, f->start, &end);
	if (switches_without_frame(g, f))
		return add_row(rows, f->start, &frame_pointer);
	called.end = new_thread_of(g, f);
	r = f->deltas ? add_deltas(g, &called, rows) : 0;
	return r < 0 || called.end == f->end ? r : add_row(rows, called.end, &end);
}

static int find_table(struct go *g)
{
	struct spoor_image image = { .fd = -1, .mem = g->elf->image, .size = g->elf->size };
	struct spoor_go_table table;
	struct spoor_elf elf;
	int r;

	r = spoor_elf_open(&image, &elf, NULL);
	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	r = spoor_go_table_find(&elf, &table);
	spoor_elf_close(&elf);
	if (r < 0)
		return r;
	g->bytes.data = g->elf->image + table.section.sh_offset;
	g->bytes.size = table.section.sh_size;
	g->bytes.vaddr = table.section.sh_addr;
	g->text = table.text;
	return 0;
}

int spoor_go_read(const struct spoor_elf_view *elf, struct rowset *rows)
{
	struct go g = { .elf = elf };
	struct function f;
	uint64_t i;
	int r;

	r = find_table(&g);
	if (r >= 0)
		r = read_header(&g);
	if (r < 0)
		return r;
	for (i = 0; i < g.n_functions; i++) {
		if (!rows->work--) {
			rows->work = 0;
			return -EBADMSG;
		}
		if (read_function(&g, i, &f) < 0)
			continue;
		r = add_function(&g, &f, rows);
		if (r < 0)
			return r;
	}
	return 0;
}
