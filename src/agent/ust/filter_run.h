/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#include <stdbool.h>

/* Whether filters know the name where an event has no such field. */
bool filter_is_context(const char *name);
