/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Objects of a trace's part `ust`: ids downwards from 65535, and their definitions. Not thread-safe. */
#include "collect/user/code.h"
#include "trace/writer.h"

struct spoor_stack_objects;

int spoor_stack_objects_new(struct spoor_writer *w, struct spoor_stack_objects **ret);
void spoor_stack_objects_free(struct spoor_stack_objects *s);
void spoor_stack_objects_segment(struct spoor_stack_objects *s);
/* The least id that is taken; 0: none. */
void spoor_stack_objects_resume(struct spoor_stack_objects *s, uint32_t least);

/* Its id, defined in this segment. pid: who has it mapped, if it runs. 0: there are too many, or no memory. */
uint32_t spoor_stack_objects_id(struct spoor_stack_objects *s, const struct spoor_code_object *o, uint32_t pid,
				uint64_t ns);
