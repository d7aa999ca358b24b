/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * Errors. Functions return 0 or -errno. A function that can say more than a number takes a
 * `struct spoor_error *` (may be NULL) and fills it with one line: what failed, why, what to do.
 * Libraries never print and never exit; a command prints that line and chooses the exit code.
 */
#include <stdarg.h>

struct spoor_error {
	char text[512];
};

/* Fills e (if any) and returns -err, so that `return spoor_fail(e, ENOENT, ...)` is one statement. err > 0. */
int spoor_fail(struct spoor_error *e, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* What e says; if nothing was said, what the error r (-errno) is called. */
const char *spoor_error_text(struct spoor_error *e, int r);
