/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Why a kernel may refuse Spoor's programs although the privileges are there. Thread-safe. */
#include <stdbool.h>
#include <stddef.h>

#define SPOOR_LOCKDOWN "/sys/kernel/security/lockdown"
#define SPOOR_BTF "/sys/kernel/btf/vmlinux"
/* Can the kernel's type information be read? 0, -EINVAL: it is no such, or -errno. */
int spoor_kernel_btf(void);

/*
 * Is the kernel locked down for confidentiality, so that no BPF program may read its memory (integrity lets them)?
 * path: SPOOR_LOCKDOWN. Where it cannot be read (securityfs is not mounted), the kernel is asked with a program.
 * `found` becomes the file's line or what it was concluded from.
 */
bool spoor_kernel_locked_down(const char *path, char *found, size_t size);
/* What to do about it. */
#define SPOOR_LOCKDOWN_ADVICE "boot with lockdown=integrity or lockdown=none"

/*
 * Who may be behind it that bpf(2) is not permitted although the capabilities are there, and what to do: a clause. For
 * integrity alone Linux does not refuse it, but some distributions' kernels do, and nothing else tells of it.
 */
void spoor_kernel_who_forbids(const char *path, char *ret, size_t size);
