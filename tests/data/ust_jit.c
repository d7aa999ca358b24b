/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ust_jit: an event beneath a function that is made at run time, in memory of no object, and keeps a frame pointer:
 * main, outer, made code, inner. Says "made at ADDRESS, SIZE bytes" and "inner returns to ADDRESS".
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <spoor/tracepoint.h>

SPOOR_TRACEPOINT(jit, called, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))

#define APART __attribute__((noinline, noclone))

static const unsigned char code[] = {
	0x55,		  /* push %rbp */
	0x48, 0x89, 0xe5, /* mov %rsp,%rbp */
	0x48, 0x89, 0xf8, /* mov %rdi,%rax */
	0x89, 0xf7,	  /* mov %esi,%edi */
	0xff, 0xd0,	  /* call *%rax */
	0x5d,		  /* pop %rbp */
	0xc3,		  /* ret */
};

static APART int inner(int n)
{
	spoor_trace(jit, called, n);
	if (!n)
		printf("inner returns to %p\n", __builtin_return_address(0));
	return n + 1;
}

static APART int outer(int (*made)(int (*)(int), int), int n)
{
	int r = made(inner, n);

	__asm__ volatile("" ::: "memory");
	return r + 1;
}

int main(void)
{
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int (*made)(int (*)(int), int);

	if (page == MAP_FAILED)
		return 1;
	memcpy(page, code, sizeof(code));
	if (mprotect(page, 4096, PROT_READ | PROT_EXEC))
		return 1;
	memcpy(&made, &page, sizeof(made));
	printf("made at %p, %zu bytes\n", (void *)page, sizeof(code));
	for (int n = 0; n < 5; n++)
		outer(made, n);
	return 0;
}
