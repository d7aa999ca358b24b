/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What `--filter` says of an event's fields: fd == 3 && path == "*.html" || !(n < 0x10). Comparisons of a field with a
 * number or a string (==, !=: a glob), && || ! and parentheses. A field that the event does not have, or that is not
 * of that kind, makes its comparison false. Not thread-safe.
 */
#include <stdbool.h>

#include "base/error.h"
#include "trace/class.h"

struct spoor_condition;

int spoor_condition_parse(const char *text, struct spoor_condition **ret, struct spoor_error *e);
void spoor_condition_free(struct spoor_condition *c);
/* h is a checked event of the class. */
bool spoor_condition_holds(struct spoor_condition *c, const struct spoor_event_class *class,
			   const struct spoor_event_header *h);
