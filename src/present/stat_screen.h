/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What is on the screen of `spoor stat --watch`: lines of text, and the bytes that turn one screen into the next. */
#include <stddef.h>
#include <stdint.h>

#include "present/stat_internal.h"

enum spoor_screen_look { SPOOR_LOOK_PLAIN, SPOOR_LOOK_BOLD, SPOOR_LOOK_REVERSE, SPOOR_LOOK_DIM };

struct spoor_screen {
	unsigned rows, columns;
	char **lines; /* rows of them; NULL: empty */
	uint8_t *looks;
};

int spoor_screen_new(unsigned rows, unsigned columns, struct spoor_screen *ret);
void spoor_screen_done(struct spoor_screen *s);
/* Text beyond the columns is cut. Printable: what comes from others was escaped before. */
void spoor_screen_set(struct spoor_screen *s, unsigned row, enum spoor_screen_look look, const char *text);
/* How wide text is shown. */
size_t spoor_screen_columns(const char *text);
/*
 * The escape sequences from `old` to `new`; all of new if old has another size (or none). malloc()ed; NULL: out of
 * memory.
 */
char *spoor_screen_change(const struct spoor_screen *old, const struct spoor_screen *new, int colour, size_t *ret_len);

struct spoor_screen_state {
	uint8_t total; /* since the beginning, not since the last refresh */
	uint8_t paused;
	size_t scroll;                         /* rows above the first shown; is brought within bounds: */
	size_t most;                           /* the greatest that makes sense */
	size_t widths[SPOOR_STAT_COLUMNS + 1]; /* grow only, so that columns do not jump; the last is the task's */
};
/* Fills all lines of s from counters as they are to be shown (a difference or totals). 0 or -ENOMEM. */
int spoor_screen_fill(struct spoor_screen *s, const struct spoor_counters *c, const struct spoor_stat_view *v,
		      struct spoor_screen_state *state);
