/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "trace/syscalls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/syscalls_table.h"

const struct spoor_syscall_info *spoor_syscall_info(unsigned id)
{
	static const struct spoor_syscall_info unknown;

	return id < SPOOR_SYSCALL_MAX ? &spoor_syscall_table[id] : &unknown;
}

static int compare_name(const void *key, const void *member)
{
	return strcmp(key, ((const struct spoor_syscall_name *)member)->name);
}

static int find_name(const char *name, const struct spoor_syscall_name *names, unsigned n)
{
	const struct spoor_syscall_name *found = bsearch(name, names, n, sizeof(*names), compare_name);

	return found ? found->id : -ENOENT;
}

int spoor_syscall_by_name(const char *name)
{
	return find_name(name, spoor_syscall_names, spoor_syscall_names_count);
}

int spoor_syscall_by_name_i386(const char *name)
{
	return find_name(name, spoor_syscall_names_i386, spoor_syscall_names_i386_count);
}
