/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Counters as a live screen on the controlling terminal, driven by somebody else's poll() loop:
 *
 *	spoor_watch_open(&view, &w, &e);
 *	poll: spoor_watch_fd(w) readable -> spoor_watch_key(w);
 *	      every so often, and when spoor_watch_key() says so -> spoor_watch_draw()
 *	spoor_watch_close(w);
 *
 * One at a time. While it is open the terminal shows another screen and sends keys at once; Ctrl-C, Ctrl-\ and Ctrl-Z
 * still make signals. The terminal is put back by close(), by exit(), before stopping (SIGTSTP; and taken again when
 * continued), and before dying of a signal whose action was the default when it was opened. Whoever takes such signals
 * otherwise (signalfd) calls close(). Handlers interrupt poll() with EINTR.
 */
#include "base/error.h"
#include "present/stat_text.h"

struct spoor_watch;

enum spoor_watch_action {
	SPOOR_WATCH_NONE,
	SPOOR_WATCH_DRAW, /* what is shown, or the screen, has changed: draw now, with the last counters or new ones */
	SPOOR_WATCH_QUIT,
};

/* The view: what is shown at first (level, sort, by_site with its callbacks, colour, utf8). -ENOTTY: no terminal. */
int spoor_watch_open(const struct spoor_stat_view *view, struct spoor_watch **ret, struct spoor_error *e);
/* Puts the terminal back; NULL is fine. */
void spoor_watch_close(struct spoor_watch *w);
/* Readable when spoor_watch_key() has something to do. */
int spoor_watch_fd(const struct spoor_watch *w);
/* Takes keys and changes of the screen's size; never blocks. */
enum spoor_watch_action spoor_watch_key(struct spoor_watch *w);
/*
 * Shows a snapshot, which is taken over (*now is empty then) unless the screen is paused: what came since the one
 * before, or since the beginning, as was chosen by key. NULL: the last one again. Only what
 * changed on the screen is written; a terminal that does not take it is not waited for.
 * 0, or -errno of the terminal: -EIO if it is gone.
 */
int spoor_watch_draw(struct spoor_watch *w, struct spoor_counters *now);
