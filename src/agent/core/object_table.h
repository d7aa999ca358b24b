/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* The table of objects, as finding them and telling the recorder of them have it in common. */
#include "agent/core/objects.h"

extern struct code_object code_objects[CODE_OBJECTS] HIDDEN;
extern uint32_t n_code_objects HIDDEN;

/* Memory that may not be there. */
bool code_peek(void *to, uintptr_t from, size_t n);
/* Something that code_object_of() said may be so no more. */
void code_new_epoch(void);
/* Looks for the build-id, through n program headers. */
void code_object_read_headers(struct code_object *o, uintptr_t at, unsigned n);
