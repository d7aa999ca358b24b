// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Distinct functions, because a walk through one recursive function would find one pc again and again, which no real
 * program does. Compiled with -DCHAIN=app_chain or -DCHAIN=lib_chain.
 */
#include "frames.h"

#include <unistd.h>

#define NOINLINE static __attribute__((noinline, noclone, no_icf))

/* An empty statement that the compiler cannot merge with another one, so that equal arms keep their own call. */
#define DISTINCT(text) __asm__ volatile("# " text ::: "memory")

typedef long frame_fn(const struct leaf *leaf, unsigned int depth, unsigned int path);

static __attribute__((always_inline)) inline long at_the_end(const struct leaf *leaf)
{
	long r = 0;

	for (unsigned long i = 0; i < leaf->calls; i++)
		r += syscall(leaf->nr, leaf->arg, leaf->cmd);
	return r;
}

/* One function of the chain: `next` is the one it calls; PAD bytes of stack are its own. */
#define FRAME(name, next, PAD)								\
	NOINLINE long name(const struct leaf *leaf, unsigned int depth, unsigned int path)	\
	{										\
		char pad[PAD];								\
		unsigned int rest = path >> 2 | path << 30;				\
		long r;									\
											\
		__asm__ volatile("" :: "r"(pad) : "memory");				\
		if (depth <= 1)								\
			r = at_the_end(leaf);						\
		else if ((path & 3) == 0) {						\
			DISTINCT("site 0");						\
			r = next(leaf, depth - 1, rest);				\
		} else if ((path & 3) == 1) {						\
			DISTINCT("site 1");						\
			r = next(leaf, depth - 1, rest) + 1;				\
		} else if ((path & 3) == 2) {						\
			DISTINCT("site 2");						\
			r = next(leaf, depth - 1, rest) + 2;				\
		} else {								\
			DISTINCT("site 3");						\
			r = next(leaf, depth - 1, rest) + 3;				\
		}									\
		__asm__ volatile("" :: "r"(pad) : "memory");				\
		return r;								\
	}

#define CHAIN32(F, PAD)									\
	static frame_fn F##0;								\
	FRAME(F##31, F##0, PAD)								\
	FRAME(F##30, F##31, PAD) FRAME(F##29, F##30, PAD) FRAME(F##28, F##29, PAD)	\
	FRAME(F##27, F##28, PAD) FRAME(F##26, F##27, PAD) FRAME(F##25, F##26, PAD)	\
	FRAME(F##24, F##25, PAD) FRAME(F##23, F##24, PAD) FRAME(F##22, F##23, PAD)	\
	FRAME(F##21, F##22, PAD) FRAME(F##20, F##21, PAD) FRAME(F##19, F##20, PAD)	\
	FRAME(F##18, F##19, PAD) FRAME(F##17, F##18, PAD) FRAME(F##16, F##17, PAD)	\
	FRAME(F##15, F##16, PAD) FRAME(F##14, F##15, PAD) FRAME(F##13, F##14, PAD)	\
	FRAME(F##12, F##13, PAD) FRAME(F##11, F##12, PAD) FRAME(F##10, F##11, PAD)	\
	FRAME(F##9, F##10, PAD) FRAME(F##8, F##9, PAD) FRAME(F##7, F##8, PAD)		\
	FRAME(F##6, F##7, PAD) FRAME(F##5, F##6, PAD) FRAME(F##4, F##5, PAD)		\
	FRAME(F##3, F##4, PAD) FRAME(F##2, F##3, PAD) FRAME(F##1, F##2, PAD)		\
	FRAME(F##0, F##1, PAD)

CHAIN32(small_, 16)
CHAIN32(big_, 4096)

long CHAIN(const struct leaf *leaf, unsigned int depth, unsigned int path, int big)
{
	return big ? big_0(leaf, depth, path) : small_0(leaf, depth, path);
}
