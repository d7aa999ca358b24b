/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Code is written through /proc/self/mem, where the kernel makes the page private and writes into it by an address of
 * its own: the mapping is never writable, and other threads run through it meanwhile. Where that cannot be had (no
 * /proc, a kernel that restricts it) mprotect makes the page writable for the moment.
 *
 * A process that is denied new code (PR_SET_MDWE, systemd's MemoryDenyWriteExecute, SELinux's execmem) refuses the
 * second way. The first makes nothing executable and nothing writable, so such policies say nothing of it; it is told
 * who wants to know (SPOOR_AGENT_MEM). Where both are refused, code stays as it is.
 *
 * What is tried is tried on a scratch page, before any site depends on it. What a process may do is not tried where a
 * seccomp filter was there first, which may kill for it, unless there is no other way.
 *
 * The kernel takes some 3 us to write a byte so, and no more to write a page. Where there is one thread, as when a
 * program begins, a page's sites are written at once, with what is between them, which nobody else can be changing
 * then but a debugger or the kernel's uprobes. A breakpoint that has gone meanwhile would stay, and end the program:
 * what looks like one is never written. With more threads each byte is written by itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "agent/ust/patch.h"

#ifndef PR_GET_MDWE
#define PR_GET_MDWE 66
#endif
#define PAGE 4096UL
#define BREAKPOINT 0xcc
#define TOGETHER 256 /* at most */

/* Sites of one page that are to be written, by rising addresses. Stacks may be too small for them. */
static struct {
	uintptr_t code;
	uint8_t byte;
} sites[TOGETHER];

static long open_mem(void)
{
	return sys3(SYS_open, "/proc/self/mem", O_RDWR | O_CLOEXEC, 0);
}

static bool write_code(long mem, uintptr_t at, const uint8_t *bytes, size_t n)
{
	return sys6(SYS_pwrite64, mem, (long)bytes, (long)n, (long)at, 0, 0) == (long)n;
}

static bool write_byte(long mem, uintptr_t at, uint8_t byte)
{
	return write_code(mem, at, &byte, 1);
}

static bool is_denied_by_prctl(void)
{
	long r = sys6(SYS_prctl, PR_GET_MDWE, 0, 0, 0, 0, 0);

	return !sys_failed(r) && r & 1;
}

static bool is_filtered(void)
{
	long r = sys6(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0, 0);

	return sys_failed(r) ? r != -EINVAL : r; /* one that refuses to tell is one */
}

/* A page that was written, and is then made code, is what every such policy is there to refuse. */
static bool may_gain_code(long page)
{
	if (sys_failed(sys3(SYS_mprotect, page, PAGE, PROT_READ | PROT_WRITE)))
		return false;
	*(volatile char *)page = 0;
	return !sys_failed(sys3(SYS_mprotect, page, PAGE, PROT_READ | PROT_EXEC));
}

static enum spoor_agent_way find_way(void)
{
	long page = sys6(SYS_mmap, 0, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), mem;
	bool by_mem, by_mprotect = false;

	if (sys_failed(page))
		return SPOOR_AGENT_REFUSED;
	mem = open_mem();
	by_mem = !sys_failed(mem) && write_byte(mem, (uintptr_t)page, 0);
	/* A filter may end the program for a try: it is spared one that it can do without. */
	if (!is_denied_by_prctl() && !(by_mem && is_filtered()))
		by_mprotect = may_gain_code(page);
	if (!sys_failed(mem))
		sys3(SYS_close, mem, 0, 0);
	sys3(SYS_munmap, page, PAGE, 0);
	return by_mprotect ? SPOOR_AGENT_PATCHED : by_mem ? SPOOR_AGENT_MEM : SPOOR_AGENT_REFUSED;
}

/* A program may shut itself in later: what was found is asked for again where that shows. */
enum spoor_agent_way patch_way(void)
{
	__u32 *way = &spoor_agent_state.way;

	if (*way == SPOOR_AGENT_UNKNOWN || (*way == SPOOR_AGENT_PATCHED && is_denied_by_prctl()))
		__atomic_store_n(way, find_way(), __ATOMIC_RELAXED);
	return *way;
}

/* The directory has a link for each thread, and two of its own. */
static bool is_alone(void)
{
	struct stat st = { .st_nlink = 0 };

	return !sys_failed(sys3(SYS_stat, "/proc/self/task", &st, 0)) && st.st_nlink == 3;
}

int patch_begin(struct patching *ret)
{
	long fd;

	if (patch_way() == SPOOR_AGENT_REFUSED)
		return -EPERM;
	fd = open_mem();
	ret->mem = (int)fd;
	ret->written = 0;
	ret->together = ret->mem >= 0 && is_alone();
	ret->n = 0;
	return 0;
}

static int by_mprotect(uintptr_t code, uint8_t byte)
{
	uintptr_t page = code & ~(PAGE - 1);
	long r = sys3(SYS_mprotect, page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);

	if (sys_failed(r))
		return (int)r;
	__atomic_store_n((uint8_t *)code, byte, __ATOMIC_SEQ_CST);
	sys3(SYS_mprotect, page, PAGE, PROT_READ | PROT_EXEC);
	return 0;
}

static int write_site(struct patching *p, uintptr_t code, uint8_t byte)
{
	if (p->mem >= 0 && write_byte(p->mem, code, byte))
		return 0;
	if (spoor_agent_state.way == SPOOR_AGENT_PATCHED)
		return by_mprotect(code, byte);
	return p->mem < 0 ? p->mem : -EPERM;
}

/* How many of the sites from the first on can be written at once. */
static uint32_t without_breakpoint(const struct patching *p, uint32_t first)
{
	uint32_t i;

	for (i = first + 1; i < p->n; i++) {
		uintptr_t at = sites[i - 1].code + 1;

		if (memchr((const void *)at, BREAKPOINT, sites[i].code - at))
			break;
	}
	return i - first;
}

static void write_some(struct patching *p, uint32_t first, uint32_t n)
{
	static uint8_t copy[PAGE];
	uintptr_t from = sites[first].code;
	size_t size = sites[first + n - 1].code - from + 1;
	uint32_t i;

	memcpy(copy, (const void *)from, size);
	for (i = first; i < first + n; i++)
		copy[sites[i].code - from] = sites[i].byte;
	if (!memchr(copy, BREAKPOINT, size) && write_code(p->mem, from, copy, size))
		return;
	for (i = first; i < first + n; i++)
		write_site(p, sites[i].code, sites[i].byte);
}

static void write_page(struct patching *p)
{
	uint32_t i, n;

	for (i = 0; i < p->n; i += n) {
		n = without_breakpoint(p, i);
		write_some(p, i, n);
	}
	p->n = 0;
}

static void put_off(struct patching *p, uintptr_t code, uint8_t byte)
{
	const uintptr_t last = p->n ? sites[p->n - 1].code : 0;

	if (p->n && (p->n == TOGETHER || code <= last || code / PAGE != last / PAGE))
		write_page(p);
	sites[p->n].code = code;
	sites[p->n++].byte = byte;
}

int patch_site(struct patching *p, uintptr_t code, uint8_t byte)
{
	uint8_t now = *(volatile uint8_t *)code;

	if (now == byte)
		return 0;
	if (now != SITE_ON && now != SITE_OFF)
		return -EILSEQ;
	p->written++;
	if (!p->together)
		return write_site(p, code, byte);
	put_off(p, code, byte);
	return 0;
}

void patch_end(struct patching *p)
{
	write_page(p);
	if (p->mem >= 0)
		sys3(SYS_close, p->mem, 0, 0);
	if (!p->written)
		return;
	if (!sys_failed(sys3(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0)))
		return;
	sys3(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
	sys3(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
}
