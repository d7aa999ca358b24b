/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Raw stacks of code without rows: when frame pointers are believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "collect/session/raw.h"

struct nothing;
#define SPOOR_WALK_CTX nothing
static int spoor_load(struct nothing *c, __u64 addr, __u64 *ret)
{
	return SPOOR_WALK_UNREADABLE;
}
static int spoor_reg(struct nothing *c, __u32 reg, __u64 *ret)
{
	return SPOOR_WALK_NO_ROWS;
}
#include "unwind/walk_core.h"

#define SP 0x70000000ULL
#define CODE 0x10000000ULL

static const struct spoor_object_entry *anonymous(void *ctx, uint32_t id)
{
	static const struct spoor_object_entry made = { .loaded = true };

	assert_int_equal(id, SPOOR_OBJECT_NONE);
	return &made;
}

/* The status of a walk from CODE + 1, where rbp is that, by these words from the stack pointer on. */
static int walk(uint64_t bp, const uint64_t *words, size_t n, unsigned *ret_n)
{
	static union {
		struct spoor_ctl_raw raw;
		uint8_t room[sizeof(struct spoor_ctl_raw) + 256];
	} u;
	struct spoor_layout_range code = { .start = CODE, .end = CODE + 4096 };
	struct spoor_layout layout = { .n = 1, .ranges = &code };
	uint64_t frames[SPOOR_MAX_FRAMES];

	memset(&u, 0, sizeof(u));
	u.raw.pc = CODE + 1;
	u.raw.dwarf_regs[6] = bp;
	u.raw.dwarf_regs[7] = SP;
	u.raw.mode = SPOOR_MODE_ALL;
	u.raw.budget = 64;
	u.raw.len = n * sizeof(*words);
	memcpy(u.raw.bytes, words, u.raw.len);
	return spoor_raw_unwind(&u.raw, &layout, anonymous, NULL, frames, ret_n);
}

static void test_kept(void **state)
{
	const uint64_t words[] = { 5, 0, CODE + 0x100, 7 };
	unsigned n;

	assert_int_equal(walk(SP + 8, words, 4, &n), SPOOR_WALK_COMPLETE);
	assert_int_equal(n, 2);
}

/* The return address beside rbp is not the first one: a caller is skipped. */
static void test_not_kept(void **state)
{
	const uint64_t words[] = { CODE + 0x200, 5, 0, CODE + 0x100, 7 };
	unsigned n;

	assert_int_equal(walk(SP + 16, words, 5, &n), SPOOR_WALK_GUESSED);
	assert_int_equal(n, 2);
}

/* As in an outermost frame, but there is a return address. */
static void test_zero(void **state)
{
	const uint64_t words[] = { 5, 0, CODE + 0x100, 7 };
	unsigned n;

	assert_int_equal(walk(0, words, 4, &n), SPOOR_WALK_GUESSED);
	assert_int_equal(n, 1);
	assert_int_equal(walk(0, words, 2, &n), SPOOR_WALK_COMPLETE);
}

static bool may_return(const char before[8], const char after[8])
{
	__u64 code[2];

	memcpy(&code[0], before, 8);
	memcpy(&code[1], after, 8);
	return spoor_may_return(code);
}

static void test_addresses_to_return_to(void **state)
{
	static const char *const calls[] = {
		"\x90\x90\x90\xe8\x90\x90\x90\x90", "\x90\x90\x90\x90\x90\x90\xff\xd0", /* rel32; rax */
		"\x90\x90\x90\x90\x90\x41\xff\xd4", "\x90\x90\x90\x90\x90\xff\x55\x10", /* r12; 0x10(rbp) */
		"\x90\x90\x90\x90\xff\x54\x24\x08", "\x90\x90\xff\x15\x90\x90\x90\x90", /* 8(rsp); by rip */
		"\x90\xff\x94\x24\x90\x90\x90\x90",                                     /* 0x90909090(rsp) */
	}, *const others[] = {
		"\x90\x90\x90\x90\x90\x90\x90\xc3", "\x90\x90\x90\x90\x90\x90\xff\xe0", /* ret; jmp rax */
		"\x90\x90\xff\x25\x90\x90\x90\x90", "\x90\x90\x90\x90\xe8\x90\x90\x90", /* jmp; within a call */
		"\xff\x90\x90\x90\x90\x90\x90\x90", "\x90\x90\x90\x90\x90\x90\x90\xff",
	};
	static const char nops[] = "\x90\x90\x90\x90\x90\x90\x90\x90";

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		assert_true(may_return(calls[i], nops));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(may_return(others[i], nops));
	assert_true(may_return(nops, "\x48\x8b\x65\xf0\x90\x90\x90\x90"));  /* mov rsp, -0x10(rbp) */
	assert_true(may_return(nops, "\x4c\x8b\x55\xf0\x90\x90\x90\x90"));  /* mov r10, -0x10(rbp) */
	assert_false(may_return(nops, "\x55\x48\x89\xe5\x90\x90\x90\x90")); /* push rbp; mov rbp, rsp */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_not_kept),
		cmocka_unit_test(test_zero),
		cmocka_unit_test(test_addresses_to_return_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
