/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What gen_syscalls.py generates; for syscalls.c alone. */
#include "trace/record.h"
#include "trace/syscalls.h"

struct spoor_syscall_name {
	const char *name;
	uint16_t id;
};

extern const struct spoor_syscall_info spoor_syscall_table[SPOOR_SYSCALL_MAX];
extern const struct spoor_syscall_name spoor_syscall_names[];
extern const unsigned spoor_syscall_names_count;
extern const struct spoor_syscall_name spoor_syscall_names_i386[];
extern const unsigned spoor_syscall_names_i386_count;
