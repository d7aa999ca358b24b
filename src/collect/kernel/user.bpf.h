/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * Memory of the current process, read without a call.
 *
 * bpf_probe_read_user() passes through some eight functions; where the kernel guards returns against speculation it
 * costs nearly as much as an empty system call. But the kernel has all memory mapped once for itself, at direct_map +
 * physical address, and the page tables tell where a page lies. So a page of the process is translated as the
 * processor does it (AMD64 Architecture Programmer's Manual, volume 2, 5.3), and then read by loads that may fault
 * harmlessly.
 *
 * Nothing is locked meanwhile: a page, even a table, may be taken away. But the kernel clears its entry first, then
 * raises the address space's count of translations that processors have to forget (mm->context.tlb_gen, in
 * arch/x86/mm/tlb.c), and only then gives the page away. So what was read is right if that count is the same before and
 * after, and until it changes translations are kept, as a processor keeps them. What is not simply present (swapped
 * out, on the move) is left to bpf_probe_read_user(), and so is everything where direct_map was not found.
 */
#include "collect/kernel/emit.bpf.h"

/* A kernel address as a typed pointer whose loads cannot fault the kernel. */
extern void *bpf_rdonly_cast(const void *obj, u32 btf_id) __ksym __weak;
#define as_kernel(type, p) ((type *)bpf_rdonly_cast((void *)(p), bpf_core_type_id_kernel(type)))

const volatile u32 physical_bits = 0; /* of an address in a page table */
const volatile bool five_levels = false;
u64 direct_map = 0; /* 0: not found */

enum { ENTRY_PRESENT = 1, ENTRY_USER = 4, ENTRY_LEAF = 128 };

/* 8 bytes at a kernel address; 0 where there is nothing. Any kernel type that begins with a number will do. */
static __always_inline u64 kernel_word(u64 addr)
{
	return opaque(as_kernel(struct timespec64, addr)->tv_sec); /* a load of its own: merged ones are refused */
}

/* The entry for addr in the table that entry e points to, where one stands for 2^shift bytes; 0 if it leads nowhere. */
static __always_inline u64 table_entry(u64 map, u64 e, u64 addr, u32 shift)
{
	if ((e & (ENTRY_PRESENT | ENTRY_USER)) != (ENTRY_PRESENT | ENTRY_USER))
		return 0;
	return kernel_word(map + (e & ((1ULL << (physical_bits & 63)) - 4096)) + (addr >> shift & 511) * 8);
}

/* Where the kernel has the page of addr mapped for itself, by the first table; 0: it cannot be told. */
static __always_inline u64 translate(u64 pgd, u64 map, u64 addr)
{
	u64 e = (pgd - map) | ENTRY_PRESENT | ENTRY_USER;
	u32 shift = 12;

	if (addr >> (five_levels ? 56 : 47)) /* the tables do not look at the bits above */
		return 0;
	if (five_levels)
		e = table_entry(map, e, addr, 48);
	e = table_entry(map, e, addr, 39);
	e = table_entry(map, e, addr, 30);
	if (e & ENTRY_LEAF) {
		shift = 30;
	} else {
		e = table_entry(map, e, addr, 21);
		if (e & ENTRY_LEAF)
			shift = 21;
		else
			e = table_entry(map, e, addr, 12);
	}
	if ((e & (ENTRY_PRESENT | ENTRY_USER)) != (ENTRY_PRESENT | ENTRY_USER))
		return 0;
	e &= ((1ULL << (physical_bits & 63)) - 1) & ~((1ULL << shift) - 1);
	return map + e + (addr & ((1ULL << shift) - 4096));
}

/* The same of the current process, if the kernel's mapping is at `map`. */
static __always_inline u64 direct_page(struct scratch *sc, u64 map, u64 addr)
{
	return translate(address_of(sc, bpf_get_current_task_btf()->mm->pgd), map, addr);
}

static __always_inline u64 user_flushes(void)
{
	u64 n;

	asm volatile("" ::: "memory"); /* what is read before stays before, and what after, after */
	n = bpf_get_current_task_btf()->mm->context.tlb_gen.counter;
	asm volatile("" ::: "memory");
	return n;
}

/* The current process's memory is read from here on. */
static __always_inline void user_begin(struct scratch *sc)
{
	sc->space = bpf_get_current_task_btf()->mm->context.ctx_id;
	sc->flushes = user_flushes();
}

/* Is what was read since then right? */
static __always_inline bool user_stands(struct scratch *sc)
{
	return user_flushes() == sc->flushes;
}

/* From here on nothing is read in place. */
static __always_inline void user_leave(struct scratch *sc)
{
	sc->space = 0; /* no address space has this number */
}

static __always_inline struct user_page *user_slot(struct scratch *sc, u64 addr)
{
	/* Threads' stacks are 8 MiB apart, and each has its few pages in use. */
	return &sc->user_pages[((addr >> 12) + 5 * (addr >> 23) + sc->space) & (USER_PAGES - 1)];
}

/* Where the kernel has the page of addr, if that is known already; else 0. */
static __always_inline u64 user_page_held(struct scratch *sc, u64 addr)
{
	struct user_page *p = user_slot(sc, addr);

	return p->addr == (addr & ~4095ULL) && p->space == sc->space && p->flushes == sc->flushes ? p->bytes : 0;
}

/*
 * The same, found by the tables; 0: it cannot be told. Nor is it where the word at addr is zero: so is all that is read
 * of a page that the kernel does not have mapped for itself (memfd_secret). Apart, so that the verifier goes through
 * the tables once.
 */
__noinline u64 user_page_find(struct scratch *sc, u64 addr)
{
	struct user_page *p;
	u64 bytes;

	if (!sc || !bpf_rdonly_cast || !direct_map || !sc->space)
		return 0;
	bytes = direct_page(sc, direct_map, addr);
	if (!bytes || !kernel_word(bytes + (addr & 4088)))
		return 0;
	p = user_slot(sc, addr);
	p->addr = addr & ~4095ULL;
	p->space = sc->space;
	p->flushes = sc->flushes;
	p->bytes = bytes;
	return bytes;
}

/* 64 bytes at addr, if they lie in one page. */
static __always_inline bool direct_read(struct scratch *sc, u64 *to, u64 addr)
{
	u64 page;
	int i;

	if (!bpf_rdonly_cast || !direct_map || (addr & 4095) > 4096 - 64)
		return false;
	user_begin(sc);
	page = user_page_held(sc, addr);
	if (!page)
		page = user_page_find(sc, addr);
	if (!page)
		return false;
#pragma unroll
	for (i = 0; i < 8; i++)
		to[i] = kernel_word(page + (addr & 4095) + 8 * i);
	return user_stands(sc);
}

/* ---- finding the mapping ---- */

#define DIRECT_ALIGN (1ULL << 30) /* the kernel shifts it by multiples of this */
#define DIRECT_TRIES (1 << 14)    /* 16 TiB of physical addresses */

struct direct_search {
	struct scratch *sc;
	u64 pattern; /* address of 64 bytes in the process, in one page */
	u64 words[8];
};

static long direct_try(u32 i, void *ctx)
{
	struct direct_search *s = ctx;
	struct task_struct *task = bpf_get_current_task_btf();
	u64 map, page;
	int k;

	map = (address_of(s->sc, task->mm->pgd) & ~(DIRECT_ALIGN - 1)) - i * DIRECT_ALIGN;
	page = direct_page(s->sc, map, s->pattern);
	if (!page)
		return 0;
	for (k = 0; k < 8; k++)
		if (kernel_word(page + (s->pattern & 4095) + 8 * k) != s->words[k])
			return 0;
	direct_map = map;
	return 1;
}

/*
 * Run by user space with the address of 64 random bytes of its own: the first page table lies in the mapping, so it
 * begins at or some multiple of its alignment below there; it is found where the bytes are.
 */
SEC("raw_tp")
int direct_find(u64 *args)
{
	struct direct_search s = { .pattern = args[0] };
	struct cpu *c = this_cpu();

	if (!c || !bpf_rdonly_cast || !physical_bits)
		return 0;
	s.sc = &c->scratch[0];
	if (!bpf_probe_read_user(s.words, sizeof(s.words), (void *)s.pattern))
		bpf_loop(DIRECT_TRIES, direct_try, &s, 0);
	return 0;
}
