/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* An arena's parts: arena.c (what is fixed), arena_live.c (definitions, clocks, counts), packets.c. */
#include "collect/user/arena.h"

/* The head as the program has it now: each field is to be loaded once, and checked. */
static inline struct spoor_arena *live(const struct spoor_user_arena *a)
{
	return (struct spoor_arena *)a->base;
}

/* arena_live.c: can there have been so many events since then, ns? */
bool spoor_user_arena_can_have(const struct spoor_user_arena *a, uint64_t n, uint64_t since);
/* What its program counts is not believed any more. */
void spoor_user_arena_counts_bad(struct spoor_user_arena *a, const char *what);

/* packets.c: what those before us noted, of packets that overwrite. */
void spoor_user_packets_begin(struct spoor_user_arena *a);

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELEASE)
