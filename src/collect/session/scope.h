/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Which code counts: `--app 'apache2,mod_*.so'` says what the application's own code is, `--scope
 * 'main=3,libssl*=1,libc*=0,*=1'` how many call sites mode `custom` takes of each object in one walk (the availability
 * map of Uscope's Algorithm 1).
 *
 * Both are lists of patterns, matched from left to right. A pattern is the word `main`, the executable itself, or a
 * glob (fnmatch(3)): of the whole path if it has a slash, where * crosses slashes, else of the name without its
 * directories. What equals a pattern literally matches it too, so "[vdso]" and "[anonymous]" (code of no file) need no
 * quoting.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define SPOOR_SCOPE_MAX_RULES 64
#define SPOOR_SCOPE_MAX_PATTERN 255
#define SPOOR_SCOPE_MAX_LIMIT 512 /* SPOOR_MAX_FRAMES */

struct spoor_scope_rule {
	unsigned limit;
	char pattern[SPOOR_SCOPE_MAX_PATTERN + 1];
};

/* Zeroed: empty. */
struct spoor_scope {
	struct spoor_scope_rule *rules;
	size_t n;
};

/* Appends the rules of a `--scope`. 0, -EINVAL with the reason or -ENOMEM; on error *s is unchanged. */
int spoor_scope_parse(struct spoor_scope *s, const char *list, struct spoor_error *e);
/* Appends the patterns of an `--app`; errors as above. */
int spoor_app_parse(struct spoor_scope *s, const char *list, struct spoor_error *e);
void spoor_scope_done(struct spoor_scope *s);
/* *ret is empty. 0 or -ENOMEM. */
int spoor_scope_copy(const struct spoor_scope *s, struct spoor_scope *ret);

/* Call sites to take of the object at `path`: the first rule that matches; 0 if none does. */
unsigned spoor_scope_limit(const struct spoor_scope *s, const char *path, bool is_main);
/* 1 if the object at `path` is the application's own code, else 0. Without any pattern that is the executable. */
int spoor_app_match(const struct spoor_scope *s, const char *path, bool is_main);
