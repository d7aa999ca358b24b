/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The live screen: keys, snapshots, and writing what changed. */
#include "present/stat_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "present/stat_screen.h"
#include "present/stat_terminal.h"

struct spoor_watch {
	struct spoor_stat_view view;
	struct spoor_screen_state state;
	struct spoor_counters before, now; /* the two last snapshots */
	struct spoor_screen screen;        /* what is on it; no rows: unknown */
	unsigned rows, columns;
	uint8_t snapshots; /* up to 2 */
	uint8_t escape;    /* of a key's sequence: 1 after ESC, 2 after ESC [ */
	char parameter;
};

int spoor_watch_open(const struct spoor_stat_view *view, struct spoor_watch **ret, struct spoor_error *e)
{
	struct spoor_watch *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return spoor_fail(e, ENOMEM, "out of memory");
	w->view = *view;
	if (w->view.level == SPOOR_STAT_TREE)
		w->view.level = SPOOR_STAT_PROCESS;
	r = spoor_terminal_take(e);
	if (r < 0) {
		free(w);
		return r;
	}
	spoor_terminal_size(&w->rows, &w->columns);
	*ret = w;
	return 0;
}

void spoor_watch_close(struct spoor_watch *w)
{
	if (!w)
		return;
	spoor_terminal_release();
	spoor_screen_done(&w->screen);
	spoor_counters_done(&w->before);
	spoor_counters_done(&w->now);
	free(w);
}

int spoor_watch_fd(const struct spoor_watch *w)
{
	return spoor_terminal_fd();
}

/* ---- keys ---- */

static void forget_widths(struct spoor_watch *w)
{
	for (unsigned k = 0; k <= SPOOR_STAT_COLUMNS; k++)
		w->state.widths[k] = 0;
}

static int choose_sort(struct spoor_watch *w, char key)
{
	static const char keys[] = { [SPOOR_STAT_BY_TIME] = 't',
				     [SPOOR_STAT_BY_CALLS] = 'c',
				     [SPOOR_STAT_BY_ERRORS] = 'e',
				     [SPOOR_STAT_BY_MAX] = 'm',
				     [SPOOR_STAT_BY_NAME] = 'n' };
	const char *at = memchr(keys, key, sizeof(keys));

	if (!at)
		return 0;
	w->view.sort = (enum spoor_stat_sort)(at - keys);
	return 1;
}

static int choose_rows(struct spoor_watch *w, char key)
{
	switch (key) {
	case 'l':
		w->view.level = (w->view.level + 1) % SPOOR_STAT_TREE;
		break;
	case 'd':
		w->state.total = !w->state.total;
		break;
	case 's':
		w->view.by_site = w->view.site && !w->view.by_site;
		break;
	default:
		return 0;
	}
	w->state.scroll = w->state.most = 0;
	forget_widths(w);
	return 1;
}

static void scroll(struct spoor_watch *w, size_t up, size_t down)
{
	w->state.scroll = w->state.scroll > up ? w->state.scroll - up : 0;
	w->state.scroll = down < w->state.most - w->state.scroll ? w->state.scroll + down : w->state.most;
}

/* The last byte of ESC [ ... : arrows, page up (5~) and down (6~), home, end. */
static int on_sequence(struct spoor_watch *w, char key)
{
	size_t page = w->rows > 5 ? w->rows - 5 : 1;

	if (key == 'A')
		scroll(w, 1, 0);
	else if (key == 'B')
		scroll(w, 0, 1);
	else if (key == '~' && w->parameter == '5')
		scroll(w, page, 0);
	else if (key == '~' && w->parameter == '6')
		scroll(w, 0, page);
	else if (key == 'H' || (key == '~' && w->parameter == '1'))
		scroll(w, SIZE_MAX, 0);
	else if (key == 'F' || (key == '~' && w->parameter == '4'))
		scroll(w, SIZE_MAX, SIZE_MAX);
	else
		return 0;
	return 1;
}

static int on_plain(struct spoor_watch *w, char key)
{
	switch (key) {
	case ' ':
		w->state.paused = !w->state.paused;
		return 1;
	case 'k':
		scroll(w, 1, 0);
		return 1;
	case 'j':
		scroll(w, 0, 1);
		return 1;
	case '\f': /* Ctrl-L: somebody else wrote on the screen */
		spoor_screen_done(&w->screen);
		return 1;
	}
	return choose_sort(w, key) || choose_rows(w, key);
}

/* A sequence may come in pieces. */
static int on_key(struct spoor_watch *w, char key)
{
	if (key == '\033') {
		w->escape = 1;
		w->parameter = 0;
		return 0;
	}
	if (w->escape == 1 && (key == '[' || key == 'O')) {
		w->escape = 2;
		return 0;
	}
	if (w->escape == 2 && key >= ' ' && key < '@') {
		w->parameter = w->parameter ?: key;
		return 0;
	}
	if (w->escape == 2) {
		w->escape = 0;
		return on_sequence(w, key);
	}
	w->escape = 0;
	return on_plain(w, key);
}

enum spoor_watch_action spoor_watch_key(struct spoor_watch *w)
{
	int draw = spoor_terminal_changed(), n;
	char keys[64];

	if (draw) {
		spoor_terminal_size(&w->rows, &w->columns);
		spoor_screen_done(&w->screen);
	}
	while ((n = spoor_terminal_read(keys, sizeof(keys))) > 0) {
		for (int i = 0; i < n; i++) {
			if (keys[i] == 'q' && w->escape != 2)
				return SPOOR_WATCH_QUIT;
			draw |= on_key(w, keys[i]);
		}
		if (n < (int)sizeof(keys))
			break;
	}
	if (n < 0)
		return SPOOR_WATCH_QUIT;
	return draw ? SPOOR_WATCH_DRAW : SPOOR_WATCH_NONE;
}

/* ---- drawing ---- */

static void take_snapshot(struct spoor_watch *w, struct spoor_counters *now)
{
	spoor_counters_done(&w->before);
	w->before = w->now;
	w->now = *now;
	*now = (struct spoor_counters){};
	if (w->snapshots < 2)
		w->snapshots++;
}

static int fill(struct spoor_watch *w, struct spoor_screen *s)
{
	struct spoor_screen_state state = w->state;
	struct spoor_counters delta;
	int r;

	if (w->state.total || w->snapshots < 2) {
		state.total = 1;
		r = spoor_screen_fill(s, &w->now, &w->view, &state);
	} else {
		r = spoor_counters_delta(&w->before, &w->now, &delta);
		if (r < 0)
			return r;
		r = spoor_screen_fill(s, &delta, &w->view, &state);
		spoor_counters_done(&delta);
	}
	state.total = w->state.total;
	w->state = state;
	return r;
}

/* A terminal that did not take everything gets all of the next screen. */
static int show(struct spoor_watch *w, struct spoor_screen *s)
{
	_cleanup_(spoor_freep) char *bytes = NULL;
	size_t len;
	int r;

	bytes = spoor_screen_change(&w->screen, s, w->view.colour, &len);
	if (!bytes)
		return -ENOMEM;
	r = spoor_terminal_write(bytes, len);
	spoor_screen_done(&w->screen);
	if (r == 0) {
		w->screen = *s;
		*s = (struct spoor_screen){};
	}
	return r == -EAGAIN ? 0 : r;
}

int spoor_watch_draw(struct spoor_watch *w, struct spoor_counters *now)
{
	struct spoor_screen s;
	int r;

	if (now && !w->state.paused)
		take_snapshot(w, now);
	r = spoor_screen_new(w->rows, w->columns, &s);
	if (r < 0)
		return r;
	r = fill(w, &s);
	if (r == 0)
		r = show(w, &s);
	spoor_screen_done(&s);
	return r;
}
