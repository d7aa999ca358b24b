/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Code is written through /proc/self/mem, where the kernel makes the page private and writes into it by an address of
 * its own: the mapping is never writable, and other threads run through it meanwhile. Where there is no /proc, mprotect
 * makes the page writable for the moment. A process that was denied new code (PR_SET_MDWE, systemd's
 * MemoryDenyWriteExecute, SELinux's execmem) could be written to in the first way nevertheless; it is asked first and
 * its policy respected.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "agent/ust/patch.h"

#ifndef PR_GET_MDWE
#define PR_GET_MDWE 66
#endif
#define PAGE 4096UL

static int policy; /* 0: not asked yet, 1: may write, -EPERM */

/* A scratch page that was written and is then made code is what every such policy is there to refuse. */
static int ask_policy(void)
{
	long page, r = sys6(SYS_prctl, PR_GET_MDWE, 0, 0, 0, 0, 0);

	if (!sys_failed(r) && r & 1)
		return -EPERM;
	page = sys6(SYS_mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_failed(page))
		return -ENOMEM;
	*(volatile char *)page = 0;
	r = sys3(SYS_mprotect, page, PAGE, PROT_READ | PROT_EXEC);
	sys3(SYS_munmap, page, PAGE, 0);
	return sys_failed(r) ? -EPERM : 1;
}

int patch_begin(struct patching *ret)
{
	long fd;

	if (!policy)
		policy = ask_policy();
	if (policy < 0)
		return policy;
	fd = sys3(SYS_open, "/proc/self/mem", O_RDWR | O_CLOEXEC, 0);
	ret->mem = sys_failed(fd) ? -1 : (int)fd;
	ret->written = 0;
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

int patch_site(struct patching *p, uintptr_t code, uint8_t byte)
{
	uint8_t now = *(volatile uint8_t *)code;

	if (now == byte)
		return 0;
	if (now != SITE_ON && now != SITE_OFF)
		return -EILSEQ;
	p->written++;
	if (p->mem >= 0 && sys6(SYS_pwrite64, p->mem, (long)&byte, 1, (long)code, 0, 0) == 1)
		return 0;
	return by_mprotect(code, byte);
}

void patch_end(struct patching *p)
{
	if (p->mem >= 0)
		sys3(SYS_close, p->mem, 0, 0);
	if (!p->written)
		return;
	if (!sys_failed(sys3(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0)))
		return;
	sys3(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
	sys3(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
}
