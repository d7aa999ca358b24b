/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Descriptors of ours among the program's. */
#include <fcntl.h>

#include "agent/core/sys.h"

/*
 * Takes fd, and gives it a number from `from` on, out of the way of programs that expect low ones. Where none is so
 * high (ulimit -n) it stays, but for what is written to as a standard stream where the program has that closed.
 */
static inline long fd_out_of_the_way(long fd, unsigned from)
{
	long high = sys3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, from);

	if (sys_failed(high) && fd <= 2)
		high = sys3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 3);
	if (sys_failed(high))
		return fd;
	sys3(SYS_close, fd, 0, 0);
	return high;
}
