/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "unwind/plt_rows.h"

#include <errno.h>
#include <string.h>

#define IMMEDIATE 4 /* bytes */
#define MOST_PARTS 5

/* What stubs are made of. Each ends with its first jump. */
enum kind { OTHER, PUSH, PUSH_SECOND, JUMP };

static const struct part {
	enum kind kind;
	uint8_t n, code[4], operand; /* bytes */
} parts[] = {
	{ OTHER, 4, { 0xf3, 0x0f, 0x1e, 0xfa }, 0 },   /* endbr64 */
	{ PUSH, 2, { 0x41, 0x53 }, 0 },                /* push r11 */
	{ PUSH, 1, { 0x68 }, IMMEDIATE },              /* push number */
	{ OTHER, 2, { 0x41, 0xbb }, IMMEDIATE },       /* mov r11d, number */
	{ PUSH_SECOND, 2, { 0xff, 0x35 }, IMMEDIATE }, /* push [rip + N], of what all others jump to */
	{ JUMP, 2, { 0xff, 0x25 }, IMMEDIATE },        /* jmp [rip + N] */
	{ JUMP, 3, { 0xf2, 0xff, 0x25 }, IMMEDIATE },
	{ JUMP, 1, { 0xe9 }, IMMEDIATE }, /* jmp */
	{ JUMP, 2, { 0xf2, 0xe9 }, IMMEDIATE },
};

/* What lies between stubs: never run. Longer ones first. */
static const struct {
	uint8_t n, code[6];
} padding[] = {
	{ 6, { 0x66, 0x0f, 0x1f, 0x44, 0, 0 } },
	{ 5, { 0x0f, 0x1f, 0x44, 0, 0 } },
	{ 4, { 0x0f, 0x1f, 0x40, 0 } },
	{ 2, { 0x66, 0x90 } },
	{ 1, { 0x90 } },
	{ 1, { 0xcc } },
};

static const struct part *part_at(const uint8_t *code, size_t size)
{
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (size >= (size_t)parts[i].n + parts[i].operand && !memcmp(code, parts[i].code, parts[i].n))
			return &parts[i];
	return NULL;
}

static size_t skip_padding(const struct spoor_view_range *code, size_t at)
{
	size_t i = 0;

	while (i < sizeof(padding) / sizeof(*padding)) {
		if (code->size - at < padding[i].n || memcmp(code->data + at, padding[i].code, padding[i].n)) {
			i++;
			continue;
		}
		at += padding[i].n;
		i = 0;
	}
	return at;
}

struct stub {
	const struct part *parts[MOST_PARTS];
	size_t n;
	int cfa; /* where it begins, from rsp */
	size_t begin, end;
};

/* The stub that begins there, or behind padding; false: none that is known. */
static bool stub_at(const struct spoor_view_range *code, size_t at, struct stub *ret)
{
	struct stub s = { .cfa = 8 };
	bool pushed = false;

	s.begin = s.end = skip_padding(code, at);
	while (s.n < MOST_PARTS) {
		const struct part *p = part_at(code->data + s.end, code->size - s.end);

		if (!p)
			return false;
		if (p->kind == PUSH_SECOND && !pushed)
			s.cfa = 16; /* the first was pushed by who jumped here */
		pushed |= p->kind == PUSH || p->kind == PUSH_SECOND;
		s.parts[s.n++] = p;
		s.end += p->n + p->operand;
		if (p->kind == JUMP) {
			*ret = s;
			return true;
		}
	}
	return false;
}

static int add_stub(struct rowset *rows, uint64_t pc, const struct stub *s)
{
	struct spoor_rule rule = { .op = SPOOR_RULE_CFA, .reg_rbp = 7, .cfa_off = s->cfa };

	for (size_t i = 0; i < s->n; i++) {
		const struct part *p = s->parts[i];
		int r = spoor_rowset_rule(rows, &rule);

		if (r >= 0)
			r = spoor_rowset_add(rows, pc, r);
		if (r < 0)
			return r;
		pc += p->n + p->operand;
		rule.cfa_off += p->kind == PUSH || p->kind == PUSH_SECOND ? 8 : 0;
	}
	return 0;
}

static int add_section(struct rowset *rows, const struct spoor_view_range *code)
{
	struct stub first, s;
	uint64_t end;
	int r;

	if (!stub_at(code, 0, &first))
		return 0;
	for (s = first; stub_at(code, s.end, &s);)
		;
	end = code->vaddr + s.end;
	r = spoor_rowset_open(rows, code->vaddr + first.begin, end);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	s = first;
	do
		r = add_stub(rows, code->vaddr + s.begin, &s);
	while (r >= 0 && stub_at(code, s.end, &s));
	return r < 0 ? r : 0;
}

int spoor_plt_rows(const struct spoor_elf_view *elf, struct rowset *rows)
{
	static const char *const names[] = { ".plt", ".plt.got", ".plt.sec", ".iplt" };
	__u32 settled = rows->n_ranges;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct spoor_view_range section, code;
		int r;

		if (spoor_view_section(elf, names[i], &section) < 0 || spoor_view_mapped(elf, section.vaddr, &code) < 0)
			continue;
		if (code.size > section.size)
			code.size = section.size;
		if (rows->work < code.size)
			continue;
		rows->work -= code.size;
		r = add_section(rows, &code);
		if (r < 0)
			return r;
	}
	return spoor_rowset_settle(rows, settled);
}
