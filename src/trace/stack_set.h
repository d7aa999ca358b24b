/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Stacks by content: which id the first of equal ones has. Two are equal if how the walk ended, who walked, and the
 * frames are the same: everything but id and time.
 *
 * Kept is a hash of 128 bits, not the content: that two of a billion different stacks have one is less likely than
 * 1 in 10^20, and no traced program can choose its stacks so that they have, for the hash is seeded anew each time.
 * Not thread-safe.
 */
#include <stddef.h>
#include <stdint.h>

#include "trace/record.h"

struct spoor_stack_key {
	uint64_t hash[2];
};
/* The stack's n frames are there. seed: of one set always the same, and known to nobody else. */
struct spoor_stack_key spoor_stack_key(const struct spoor_stack *s, uint64_t seed);
/* One that nobody can know; 0 or -errno. */
int spoor_stack_seed(uint64_t *ret);

struct spoor_stack_set { /* all zero: empty */
	struct spoor_stack_set_slot {
		struct spoor_stack_key key;
		uint32_t id; /* 0: free */
	} *slots;
	size_t size, n; /* size: a power of two */
};
/* The id that was put for this key; 0: none. */
uint32_t spoor_stack_set_get(const struct spoor_stack_set *s, const struct spoor_stack_key *key);
/* For a key that is not in it, and an id that is not 0. Returns 0 or -ENOMEM: it is not in it. */
int spoor_stack_set_put(struct spoor_stack_set *s, const struct spoor_stack_key *key, uint32_t id);
void spoor_stack_set_done(struct spoor_stack_set *s);
