/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* What the kernel says of a mapping of this process. System calls alone. */
#include <limits.h>

#include "agent/core/sys.h"

struct mapped {
	uint64_t dev, ino; /* dev: major << 20 | minor; ino 0: of no file */
	char path[PATH_MAX + 16];
};

/*
 * The mapping at an address, as /proc/self/maps has it. 0, -ENOENT, or why that cannot be read. Under the process's
 * lock.
 */
int mapped_at(uintptr_t address, struct mapped *ret);
