/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A call chain of a chosen depth with a system call at its end, built twice: into getppid itself (`app_chain`) and
 * into libframes.so (`lib_chain`), so that the frames belong to the application or to a library above it.
 */
#ifndef BENCH_FRAMES_H
#define BENCH_FRAMES_H

#include <stddef.h>

/* What to do at the end of the chain. */
struct leaf {
	long nr;		/* the system call */
	long arg;		/* a descriptor or a pointer */
	long cmd;
	unsigned long calls;	/* per descent; 1 where every call shall come from another stack */
};

/*
 * Descend `depth` functions (at least 1, no upper bound: the functions repeat after 32), each at one of four call
 * sites that `path` chooses, two bits a function. `big` gives each of them a frame of 4 KiB.
 */
long app_chain(const struct leaf *leaf, unsigned int depth, unsigned int path, int big);
long lib_chain(const struct leaf *leaf, unsigned int depth, unsigned int path, int big);

#endif
