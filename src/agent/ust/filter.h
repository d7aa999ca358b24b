/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * Filters (filter_core.h says what they are), as sites use them. A comparison with a field that the event does not
 * have, or of a string with a number, is false. What is no field of the event but vpid, vtid, procname, cpu or ip is
 * the thread's at that moment, whether the channel adds it or not.
 */
#include "agent/ust/class.h"

/*
 * 0, or -EINVAL with what is wrong in text. The same expression gives the same filter, so that sessions which come and
 * go need no more memory each time. Under the process's lock; what it returns stays.
 */
int filter_compile(const char *expression, const struct filter **ret, char *text, unsigned size);

/* A field that the filter names and the class has not; NULL: there is none. Looks from *at on, which begins as 0. */
const char *filter_field_missing(const struct filter *f, const struct class *c, unsigned *at);

/*
 * Whether an event's body (fields, as its class says) is to be kept; so it is if that takes too long to be known.
 * Async-signal-safe; the body may change meanwhile.
 */
bool filter_keeps(const struct filter *f, const struct class *c, const char *body, const char *end, uintptr_t ip);
