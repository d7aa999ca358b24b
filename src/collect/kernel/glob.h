/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once
/*
 * Names to look for (-n), as glob(7) has them, in a form that the kernel side matches without parsing: one token for
 * each character, set of characters, ? and *. User space makes it (glob.c). Bytes, not characters of a locale.
 */
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define SPOOR_MAX_NAMES 16
#define SPOOR_NAME_MAX 64      /* of a pattern, with its end */
#define SPOOR_NAME_SETS 64     /* in all patterns together; what is equal is one */
#define SPOOR_NAME_MATCHED 256 /* of a name that is matched, with its end: no file's name is longer */

/* A token below 256 is that byte, 0 the end. */
enum spoor_name_token { SPOOR_NAME_ANY = 256, SPOOR_NAME_STAR, SPOOR_NAME_SET };

struct spoor_names {
	__u32 n, n_sets;
	__u16 tokens[SPOOR_MAX_NAMES][SPOOR_NAME_MAX];
	__u8 sets[SPOOR_NAME_SETS][32]; /* 256 bits */
};

struct spoor_name_match {
	__u32 p, s;         /* positions in pattern and name */
	__u32 star, star_s; /* where to go back to; star 0: nowhere */
};

static inline __attribute__((always_inline)) int spoor_name_fits(const struct spoor_names *names, __u16 token, __u8 s)
{
	if (token < SPOOR_NAME_SET)
		return token == s || token == SPOOR_NAME_ANY;
	return names->sets[(token - SPOOR_NAME_SET) & (SPOOR_NAME_SETS - 1)][s / 8] >> s % 8 & 1;
}

/*
 * One step of matching with the name's byte at m->s (greedy with one point of return). Returns 0 to go on, 1 no, 2 yes;
 * after as many steps as pattern and name have bytes, multiplied, at the latest.
 */
static inline __attribute__((always_inline)) int spoor_name_step(const struct spoor_names *names, __u32 i,
								 struct spoor_name_match *m, __u8 s)
{
	__u16 token = names->tokens[i & (SPOOR_MAX_NAMES - 1)][m->p & (SPOOR_NAME_MAX - 1)];

	if (token == SPOOR_NAME_STAR) {
		m->star = ++m->p;
		m->star_s = m->s;
		return 0;
	}
	if (!s)
		return token ? 1 : 2;
	if (spoor_name_fits(names, token, s)) {
		m->p++;
		m->s++;
		return 0;
	}
	if (!m->star)
		return 1;
	m->p = m->star;
	m->s = ++m->star_s;
	return 0;
}
