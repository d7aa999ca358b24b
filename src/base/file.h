/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Writing to files, however the kernel divides it. */
#include <stddef.h>

/* All of it, at the descriptor's position. 0, or -errno: some of it may have been written. */
int spoor_write_whole(int fd, const void *buf, size_t len);
