/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls getegid() from code that nobody knows, on stacks that a walk by frame pointers is never done with. "far":
 * hundreds of frames, as large as are searched, in each of which all words are addresses, and an old return address
 * lies before the one beside rbp. "round": rbp leads to itself. "back": two frames lead to each other.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define FRAMES 500
#define FRAME 2000 /* words */
#define CALLS 20

/* getegid() with this stack pointer and rbp, by that code. */
long call_on(void *sp, void *bp, const void *code);
__asm__(".text\n.globl call_on\n.type call_on,@function\ncall_on:\n"
	"push %rbp\npush %rbx\nmov %rsp, %rbx\nmov %rdi, %rsp\nmov %rsi, %rbp\n"
	"lea 1f(%rip), %r8\njmp *%rdx\n"
	"1: mov %rbx, %rsp\npop %rbx\npop %rbp\nret\n.size call_on,.-call_on\n");

static const uint8_t syscall_code[] = "\xb8\x6c\0\0\0\x0f\x05\x41\xff\xe0"; /* mov $108, %eax; syscall; jmp *%r8 */

static void *map(size_t size, int prot)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE | prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* The i-th address to return to: behind a call. */
static uint64_t returns(uint8_t *code, unsigned i)
{
	return (uintptr_t)code + 64 + i * 16 + 5;
}

int main(int argc, char **argv)
{
	uint8_t *code = map(64 + (FRAMES + CALLS) * 16, PROT_EXEC), *a = map(4096, 0), *between = map(4096, PROT_EXEC);
	uint64_t *stack = map((FRAMES + 2) * FRAME * 8, 0), *b = map(4096, 0), *bp = NULL;

	mprotect(between, 4096, PROT_NONE); /* so that they are two mappings */
	if (argc != 2)
		return 2;
	memcpy(code, syscall_code, sizeof(syscall_code));
	for (unsigned i = 0; i < FRAMES + CALLS; i++)
		memcpy(code + 64 + i * 16, "\xe8\0\0\0\0\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90", 16);
	for (unsigned i = 0; i < FRAMES * FRAME; i++)
		stack[i] = i % 2 ? (uintptr_t)b : (uintptr_t)a;
	for (unsigned i = 0; i < FRAMES; i++) {
		bp = stack + (i + 1) * FRAME - 2;
		bp[-1] = bp[1] = returns(code, i);
		bp[0] = (uintptr_t)(bp + FRAME);
	}
	bp[0] = 0;
	if (!strcmp(argv[1], "round"))
		stack[FRAME - 2] = (uintptr_t)&stack[FRAME - 2];
	else if (!strcmp(argv[1], "back"))
		stack[2 * FRAME - 2] = (uintptr_t)&stack[FRAME - 2];
	for (unsigned i = 0; i < CALLS; i++) {
		bp[1] = returns(code, FRAMES + i); /* as it never was before */
		call_on(stack, stack + FRAME - 2, code);
	}
	return 0;
}
