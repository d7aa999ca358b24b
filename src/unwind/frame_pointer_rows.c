/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "unwind/frame_pointer_rows.h"

#include <string.h>

#define PUSH 0x55 /* push rbp */
#define CALL 0xe8 /* call, followed by a distance of 4 bytes */
#define CALL_SIZE 5
#define LEAST_FRAMED 3 /* one of so many */
#define FEW_CALLS 3
#define MAX_BETWEEN 24 /* bytes of other instructions that compilers put between push and mov */
static const uint8_t mov[] = { 0x48, 0x89, 0xe5 }; /* mov rbp, rsp */
static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

static int add_row(struct rowset *rows, uint64_t pc, const struct spoor_rule *rule)
{
	int r = spoor_rowset_rule(rows, rule);

	return r < 0 ? r : spoor_rowset_add(rows, pc, r);
}

/* The push that begins the function whose mov this is, if it is near; else NULL. Functions begin at multiples of 16. */
static const uint8_t *find_push(const uint8_t *code, uint64_t start, const uint8_t *at)
{
	const uint8_t *p;

	for (p = at - 1; p >= code && at - p <= MAX_BETWEEN; p--) {
		uint64_t pc = start + (p - code);

		if (*p == PUSH && (pc % 16 == 0 || (pc % 16 == 4 && p - code >= 4 && !memcmp(p - 4, endbr64, 4))))
			return p;
	}
	return NULL;
}

static int add_prologue(struct rowset *rows, uint64_t push, uint64_t after)
{
	static const struct spoor_rule entered = { .op = SPOOR_RULE_CFA, .reg_rbp = 7, .cfa_off = 8 };
	static const struct spoor_rule pushed = {
		.op = SPOOR_RULE_CFA,
		.reg_rbp = 7 | SPOOR_RBP_AT_CFA << 4,
		.rbp_off = -16,
		.cfa_off = 16,
	};
	static const struct spoor_rule framed = {
		.op = SPOOR_RULE_FP,
		.reg_rbp = 6 | SPOOR_RBP_AT_CFA << 4,
		.rbp_off = -16,
	};
	int r = 0;

	if (push) {
		r = add_row(rows, push, &entered);
		if (r >= 0)
			r = add_row(rows, push + 1, &pushed);
	}
	return r < 0 ? r : add_row(rows, after, &framed);
}

/* Does the function there begin by keeping frame pointers? */
static bool begins_framed(const uint8_t *at, const uint8_t *last)
{
	if ((size_t)(last - at) > sizeof(endbr64) && !memcmp(at, endbr64, sizeof(endbr64)))
		at += sizeof(endbr64);
	if (at == last || *at != PUSH)
		return false;
	if (last - at > MAX_BETWEEN + (ptrdiff_t)sizeof(mov))
		last = at + MAX_BETWEEN + sizeof(mov);
	return memmem(at, last - at, mov, sizeof(mov)) != NULL;
}

/*
 * Code that keeps none has such an instruction, too, where a function needs the register (alloca()). What its own calls
 * lead to tells them apart: of functions that keep frame pointers nearly all, else hardly any begin so. Data that looks
 * like calls is among it. Where hardly anything calls, the instruction is believed: in the C runtime's
 * __do_global_dtors_aux(), which every object has.
 */
static bool keeps_frame_pointers(const uint8_t *code, size_t size)
{
	const uint8_t *p, *last = code + size;
	size_t called = 0, framed = 0;
	int32_t distance;

	for (p = code; (p = memchr(p, CALL, last - p)) && last - p >= CALL_SIZE; p++) {
		ptrdiff_t to;

		memcpy(&distance, p + 1, sizeof(distance));
		to = p - code + CALL_SIZE + distance;
		if (to < 0 || to >= (ptrdiff_t)size)
			continue;
		called++;
		framed += begins_framed(code + to, last);
	}
	return called < FEW_CALLS || framed * LEAST_FRAMED >= called;
}

static int add_gap(const struct spoor_elf_view *elf, uint64_t start, uint64_t end, struct rowset *rows)
{
	struct spoor_view_range code;
	const uint8_t *p, *last;
	bool opened = false;
	int r;

	if (end - start < sizeof(mov) || spoor_view_mapped(elf, start, &code) < 0)
		return 0;
	if (code.size > end - start)
		code.size = end - start;
	if (rows->work < code.size / 8)
		return 0;
	rows->work -= code.size / 8;
	last = code.data + code.size;
	if (!memmem(code.data, code.size, mov, sizeof(mov)) || !keeps_frame_pointers(code.data, code.size))
		return 0;
	for (p = code.data; (p = memmem(p, last - p, mov, sizeof(mov))); p += sizeof(mov)) {
		const uint8_t *push = find_push(code.data, start, p);
		uint64_t after = start + (p - code.data) + sizeof(mov);
		uint64_t begin = push ? start + (push - code.data) : after;

		if (!opened && spoor_rowset_open(rows, begin, start + code.size) < 0)
			return 0;
		opened = true;
		r = add_prologue(rows, push ? begin : 0, after);
		if (r < 0)
			return r;
	}
	return 0;
}

int spoor_frame_pointer_rows(const struct spoor_elf_view *elf, struct rowset *rows)
{
	uint64_t from = rows->text_first, to;
	__u32 settled = rows->n_ranges;
	int r;

	for (__u32 i = 0; i <= settled; i++) {
		to = rows->text_base + (i < settled ? rows->ranges[i].start : rows->text_size);
		if (to > from) {
			r = add_gap(elf, from, to, rows);
			if (r < 0)
				return r;
		}
		if (i < settled)
			from = rows->text_base + rows->ranges[i].end;
	}
	return spoor_rowset_settle(rows, settled);
}
