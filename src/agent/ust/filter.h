/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * Filters: which events of a class are kept, by their fields.
 *
 *	fd == 3 && (path == "/etc/" "*" || size > 0x1000) && !error
 *
 * Operators || && ! == != < <= > >=, parentheses; fields by name (contexts too, if the channel has them), integers
 * (decimal, 0x, octal), floating point, strings in double quotes. A string right of == or != may hold the wildcards
 * `*` and `?`. A comparison with a field that the event does not have, or of a string with a number, is false.
 */
#include "agent/ust/class.h"

/* 0, or -EINVAL with what is wrong in text. Under the process's lock; what it returns stays. */
int filter_compile(const char *expression, const struct filter **ret, char *text, unsigned size);

/* Whether an event's body (fields, as its class says) is to be kept. Async-signal-safe. */
bool filter_keeps(const struct filter *f, uint32_t contexts, const struct class *c, const char *body, const char *end);

/* A tracepoint's `reserve` where its class has a filter, and the ops' commit. */
struct spoor_handle reserve_filtered(struct spoor_tracepoint *tp, size_t size);
void commit_filtered(struct spoor_tracepoint *tp, char *at, size_t size);
