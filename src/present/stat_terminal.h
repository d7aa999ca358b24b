/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The controlling terminal, taken for a screen of our own and put back on every way out: see present/stat_watch.h.
 * There is one; these functions are not thread-safe.
 */
#include <stddef.h>

#include "base/error.h"

/* -ENOTTY with the reason: there is no terminal, or one that cannot move its cursor. -EBUSY: taken already. */
int spoor_terminal_take(struct spoor_error *e);
void spoor_terminal_release(void);
/* A file descriptor that is readable when there are keys, or something to redraw for. */
int spoor_terminal_fd(void);
/* Bytes typed, at most size: their number, 0 if there are none, -EIO if the terminal is gone. Never blocks. */
int spoor_terminal_read(char *buf, size_t size);
/* All of it, or -EAGAIN if the terminal did not take it for a while (what is on it is then unknown), or -EIO. */
int spoor_terminal_write(const char *s, size_t len);
void spoor_terminal_size(unsigned *ret_rows, unsigned *ret_columns);
/* Was it resized, or stopped and continued, since the last time this was asked? */
int spoor_terminal_changed(void);
