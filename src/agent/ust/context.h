/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* What a channel adds to its events (enum spoor_arena_context of arena.h). */
#include "agent/core/producer.h"
#include <spoor/site.h>

/* Writes the fields' definitions; the end of them, NULL: beyond end. */
char *context_fields(uint32_t contexts, char *at, const char *end, unsigned *ret_n);

/* Bytes that they need. */
size_t context_fields_size(uint32_t contexts);

/* A tracepoint's `reserve` where its channel adds something. */
struct spoor_handle reserve_with_contexts(struct spoor_tracepoint *tp, size_t size, const void *site);
/* The same, where it was not the site that called us. */
struct spoor_handle reserve_with_contexts_from(struct spoor_tracepoint *tp, size_t size, const void *site,
					       const struct caller *caller);

/* The CPU that this thread is on. */
uint64_t context_cpu(void);
