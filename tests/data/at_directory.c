/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Preloaded into spoor: what $AT_DIRECTORY says is done when it has just made the directory t.spoor. */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

int mkdirat(int at, const char *path, mode_t mode)
{
	int r = syscall(SYS_mkdirat, at, path, mode);

	if (!r && !strcmp(path, "t.spoor") && system(getenv("AT_DIRECTORY")))
		abort();
	return r;
}
