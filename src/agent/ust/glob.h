/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
#include "agent/core/sys.h"

/* Whether all of s matches pattern: `*` any characters, `?` any one. len: of the pattern. */
bool glob_matches(const char *pattern, size_t len, const char *s);
/* Of a comma-separated list the last that matches decides: "!pattern" are exclusions, of all if the first is one. */
bool globs_match(const char *list, const char *s);
