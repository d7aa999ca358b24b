/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Markers: fields by a printf format. */
#include "agent/ust/class.h"

/* Fields and plan of a class by its format; of one that is not understood none. 0 or -errno. */
int marker_fields(struct class *c);

/* spoor_ops' mark. */
void marker_record(struct spoor_tracepoint *tp, const char *format, ...);
