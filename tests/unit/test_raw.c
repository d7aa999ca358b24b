/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Raw stacks of code without rows: when frame pointers are believed. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
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

/*
 * The status of a walk from CODE + 1, where rbp is that, by these words: n from the stack pointer on, and as `parts`
 * has it others beneath.
 */
static int walk_parts(uint64_t bp, const uint64_t *words, size_t n, const struct spoor_ctl_raw *parts, unsigned *ret_n)
{
	static union {
		struct spoor_ctl_raw raw;
		uint8_t room[sizeof(struct spoor_ctl_raw) + 256];
	} u;
	struct spoor_layout_range code = { .start = CODE, .end = CODE + 4096 };
	struct spoor_layout layout = { .n = 1, .ranges = &code };
	uint64_t frames[SPOOR_MAX_FRAMES];

	memset(&u, 0, sizeof(u));
	u.raw = *parts;
	u.raw.pc = CODE + 1;
	u.raw.dwarf_regs[6] = bp;
	u.raw.dwarf_regs[7] = SP;
	u.raw.mode = SPOOR_MODE_ALL;
	u.raw.budget = 64;
	u.raw.len = n * sizeof(*words);
	memcpy(u.raw.bytes, words, u.raw.len + parts->beneath_len);
	return spoor_raw_unwind(&u.raw, &layout, anonymous, NULL, frames, ret_n);
}

static int walk(uint64_t bp, const uint64_t *words, size_t n, unsigned *ret_n)
{
	return walk_parts(bp, words, n, &(struct spoor_ctl_raw){}, ret_n);
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

/* As of a handler on an alternate stack; each part of the copy may lack pages. */
static void test_two_stacks(void **state)
{
	const uint64_t words[] = { SP + 16, CODE + 0x100, 0, CODE + 0x200, 0 };
	struct spoor_ctl_raw parts = { .beneath = SP + 16, .beneath_len = 24 };
	unsigned n;

	assert_int_equal(walk_parts(SP, words, 2, &parts, &n), SPOOR_WALK_COMPLETE);
	assert_int_equal(n, 3);
	parts.beneath_holes = 2; /* the page above */
	assert_int_equal(walk_parts(SP, words, 2, &parts, &n), SPOOR_WALK_COMPLETE);
	parts.beneath_holes = 1;
	assert_int_equal(walk_parts(SP, words, 2, &parts, &n), SPOOR_WALK_TRUNCATED);
	assert_int_equal(n, 2);
	parts.beneath_holes = 0;
	parts.holes = 1;
	assert_int_equal(walk_parts(SP, words, 2, &parts, &n), SPOOR_WALK_TRUNCATED);
	assert_int_equal(n, 1);
}

#define GONE (SPOOR_OBJECT_VDSO + 1)

static const struct spoor_object_entry *gone(void *ctx, uint32_t id)
{
	static const struct spoor_object_entry failed = { .id = GONE, .loaded = true, .failed = true };

	return id == failed.id ? &failed : NULL;
}

/* Code of a file that could not be opened, or for which there was no id: its address is told as in the kernel. */
static void test_gone(void **state)
{
	struct spoor_ctl_raw raw = { .pc = CODE + 1, .mode = SPOOR_MODE_ALL, .budget = 64 };
	struct spoor_layout_range code = { .start = CODE, .end = CODE + 4096, .object = GONE };
	struct spoor_layout layout = { .n = 1, .ranges = &code };
	uint64_t frames[SPOOR_MAX_FRAMES];
	unsigned n;

	assert_int_equal(spoor_raw_unwind(&raw, &layout, gone, NULL, frames, &n), SPOOR_WALK_GONE);
	assert_int_equal(n, 1);
	assert_int_equal(frames[0], SPOOR_FRAME(SPOOR_OBJECT_NONE, CODE + 1));
	code = (struct spoor_layout_range){ .start = CODE, .end = CODE + 4096, .unknown = true };
	assert_int_equal(spoor_raw_unwind(&raw, &layout, gone, NULL, frames, &n), SPOOR_WALK_GONE);
	assert_int_equal(n, 1);
	raw.mode = SPOOR_MODE_APP;
	assert_int_equal(spoor_raw_unwind(&raw, &layout, gone, NULL, frames, &n), SPOOR_WALK_GONE);
	assert_int_equal(n, 0);
}

/* ---- of a thread that sleeps: memory of our own plays the stack ---- */

#define PAGE 4096
#define FRAME 12288 /* bytes */
#define RETURNS 0x105 /* behind a call */

/* From its first byte on, where rbp is that; all returns are to code + RETURNS. */
static int walk_asleep(const uint64_t *sp, const uint64_t *bp, const uint8_t *code, unsigned *ret_n)
{
	struct spoor_ctl_raw raw = { .h.tid = gettid(), .remote = true, .mode = SPOOR_MODE_ALL, .budget = 64 };
	struct spoor_layout_range range = { .start = (uintptr_t)code, .end = (uintptr_t)code + PAGE };
	struct spoor_layout layout = { .n = 1, .ranges = &range };
	uint64_t frames[SPOOR_MAX_FRAMES];

	raw.pc = (uintptr_t)code + 1;
	raw.dwarf_regs[6] = (uintptr_t)bp;
	raw.dwarf_regs[7] = (uintptr_t)sp;
	return spoor_raw_unwind(&raw, &layout, anonymous, NULL, frames, ret_n);
}

static uint8_t *map(size_t size)
{
	uint8_t *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

static uint8_t *map_code(void)
{
	uint8_t *code = map(PAGE);

	memset(code, 0x90, PAGE);
	code[RETURNS - 5] = 0xe8;
	return code;
}

/* n frames that begin at `sp`, each with rbp at its end. Returns what rbp is in the first. */
static uint64_t *make_frames(uint8_t *sp, unsigned n, const uint8_t *code)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t *bp = (uint64_t *)(sp + (i + 1) * FRAME - 16);

		bp[0] = i + 1 < n ? (uintptr_t)bp + FRAME : 0;
		bp[1] = (uintptr_t)code + RETURNS;
	}
	return (uint64_t *)(sp + FRAME - 16);
}

/* Who has made an endless stack does not keep us reading it: from some frame on it is guessed. */
static void test_searched(void **state)
{
	uint8_t *code = map_code(), *stack = map(32 * FRAME);
	unsigned n;

	memset(stack, 0, 32 * FRAME); /* so that all of it is there */
	assert_int_equal(walk_asleep((void *)stack, make_frames(stack, 7, code), code, &n), SPOOR_WALK_COMPLETE);
	assert_int_equal(n, 8);
	assert_int_equal(walk_asleep((void *)stack, make_frames(stack, 30, code), code, &n), SPOOR_WALK_GUESSED);
	assert_int_equal(n, 31);
	munmap(stack, 32 * FRAME);
	munmap(code, PAGE);
}

static bool skipped; /* which cmocka does not tell by its status */

/* Pages for which the kernel waits, as it does for a file whose server does not answer. */
static int let_wait(void *at, size_t size, uint64_t features, unsigned mode)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	struct uffdio_register of = { .range = { (uintptr_t)at, size }, .mode = mode };

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &of)) {
		skipped = true; /* only root may have it wait for a system call, too, and a new kernel */
		skip();
	}
	return fd;
}

static void test_stack_that_does_not_come(void **state)
{
	uint8_t *code = map_code(), *stack = map(4 * FRAME);
	int fd = let_wait(stack + FRAME, FRAME, 0, UFFDIO_REGISTER_MODE_MISSING);
	uint64_t *bp = (uint64_t *)(stack + FRAME - 16);
	unsigned n;

	alarm(60);
	bp[0] = (uintptr_t)stack + 2 * FRAME - 16;
	bp[1] = (uintptr_t)code + RETURNS;
	memset(stack, 0, FRAME - 16);
	assert_int_equal(walk_asleep((void *)stack, bp, code, &n), SPOOR_WALK_UNREADABLE);
	assert_int_equal(n, 2);
	alarm(0);
	close(fd);
	munmap(stack, 4 * FRAME);
	munmap(code, PAGE);
}

/* What is there no more than as a mark of that kind, of a file here. */
static void test_stack_that_seems_swapped(void **state)
{
	const uint64_t unpopulated = 1 << 13, async = 1 << 15; /* no header has them that is as old as Debian 12's */
	char name[] = "/tmp/spoor-raw-XXXXXX";
	int file = mkstemp(name), fd;
	uint8_t *code = map_code(), *stack;
	struct uffdio_writeprotect marks = { .mode = UFFDIO_WRITEPROTECT_MODE_WP };
	unsigned n;

	unlink(name);
	assert_int_equal(ftruncate(file, PAGE), 0);
	stack = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	fd = let_wait(stack, PAGE, unpopulated | async, UFFDIO_REGISTER_MODE_WP);
	marks.range = (struct uffdio_range){ (uintptr_t)stack, PAGE };
	assert_int_equal(ioctl(fd, UFFDIO_WRITEPROTECT, &marks), 0);
	assert_int_equal(walk_asleep((void *)stack, (void *)(stack + 64), code, &n), SPOOR_WALK_UNREADABLE);
	close(fd);
	close(file);
	munmap(stack, PAGE);
	munmap(code, PAGE);
}

/* It may well be a call before the address. */
static void test_code_that_does_not_come(void **state)
{
	uint8_t *code = map(PAGE), *stack = map(FRAME);
	int fd = let_wait(code, PAGE, 0, UFFDIO_REGISTER_MODE_MISSING);
	unsigned n;

	alarm(60);
	memset(stack, 0, FRAME);
	assert_int_equal(walk_asleep((void *)stack, make_frames(stack, 1, code), code, &n), SPOOR_WALK_COMPLETE);
	assert_int_equal(n, 2);
	alarm(0);
	close(fd);
	munmap(stack, FRAME);
	munmap(code, PAGE);
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
		cmocka_unit_test(test_two_stacks),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_searched),
		cmocka_unit_test(test_stack_that_does_not_come),
		cmocka_unit_test(test_stack_that_seems_swapped),
		cmocka_unit_test(test_code_that_does_not_come),
		cmocka_unit_test(test_addresses_to_return_to),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	return failed || !skipped ? failed : 77;
}
