/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object/made_code.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

#define DOS_MAGIC "MZ" /* with which a PE file begins */

bool spoor_file_is_made_code(int fd)
{
	char head[SELFMAG] = "";

	return pread(fd, head, sizeof(head), 0) >= 0 && memcmp(head, ELFMAG, SELFMAG) &&
	       memcmp(head, DOS_MAGIC, strlen(DOS_MAGIC));
}

bool spoor_path_is_shared_memory(const char *path)
{
	/* The kernel's own files have no "/" for Spoor's kernel side, and one in /proc/PID/maps. */
	static const char *const names[] = { "memfd:", "/memfd:", "SYSV", "/SYSV", "anon_hugepage", "/anon_hugepage",
					     "/dev/shm/", "/dev/zero" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strncmp(path, names[i], strlen(names[i])))
			return true;
	return false;
}
