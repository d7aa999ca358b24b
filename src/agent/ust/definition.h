/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * Definitions of events whose sites know only name and arguments (spoor/site.h, ELSEWHERE): providers of LTTng-UST's
 * grammar. A definition makes a class; sites of any object get it by provider, name and arguments, and if several
 * objects have the same definition, one of them. All under the process's lock, but for definition_elsewhere.
 */
#include "agent/ust/class.h"

typedef void definition_fn(struct spoor_tracepoint *tp, struct class *c);

/*
 * Those of an object came (more than once is no harm) or go. Whether there were any. fn makes the tracepoint of each
 * one ready, before sites of other objects lead to it: a thread may be on its way since the object was there last.
 */
bool definitions_in(const struct spoor_site *begin, const struct spoor_site *end, definition_fn *fn);
bool definitions_out(const struct spoor_site *begin, const struct spoor_site *end);

/* The class of a description of kind ELSEWHERE. NULL: no such definition is loaded. */
struct class *definition_find(const struct spoor_desc *desc);

/* fn for the tracepoint of each definition. */
void definitions_each(definition_fn *fn);

/* spoor_ops' */
void (*definition_elsewhere(struct spoor_tracepoint *tp))(void);
