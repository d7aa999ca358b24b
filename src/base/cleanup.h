/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Scope-bound release: `_cleanup_(spoor_freep) char *s = ...;`. Every destructor accepts NULL (or -1 for fds). */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))

static inline void spoor_freep(void *p)
{
	free(*(void **)p);
}

static inline void spoor_closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void spoor_fclosep(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void spoor_closedirp(DIR **d)
{
	if (*d)
		closedir(*d);
}

/* Hands an owned pointer on: returns p and leaves NULL behind. */
#define TAKE_PTR(p)                 \
	({                          \
		__auto_type t_ = (p); \
		(p) = NULL;         \
		t_;                 \
	})
#define TAKE_FD(fd)           \
	({                    \
		int t_ = (fd); \
		(fd) = -1;    \
		t_;           \
	})
