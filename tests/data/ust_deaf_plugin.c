/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Code without frame pointers, between a program's. */
void same(void (*f)(int), int way);
void none(void (*f)(int), int way);

static __attribute__((noinline)) void twice(void (*f)(int), int way)
{
	f(way);
	__asm__ volatile("");
}

void same(void (*f)(int), int way)
{
	twice(f, way);
	__asm__ volatile("");
}

void none(void (*f)(int), int way)
{
	__asm__ volatile("xor %%ebp, %%ebp" ::: "rbp");
	twice(f, way);
	__asm__ volatile("" ::: "rbp");
}
