/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Screens as lines, and the few bytes between one and the next. */
#include "present/stat_screen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings.h"

int spoor_screen_new(unsigned rows, unsigned columns, struct spoor_screen *ret)
{
	struct spoor_screen s = { .rows = rows, .columns = columns };

	s.lines = calloc(rows + 1, sizeof(*s.lines));
	s.looks = calloc(rows + 1, sizeof(*s.looks));
	if (!s.lines || !s.looks) {
		spoor_screen_done(&s);
		return -ENOMEM;
	}
	*ret = s;
	return 0;
}

void spoor_screen_done(struct spoor_screen *s)
{
	for (unsigned i = 0; s->lines && i < s->rows; i++)
		free(s->lines[i]);
	free(s->lines);
	free(s->looks);
	*s = (struct spoor_screen){};
}

/* One character's bytes and columns. East Asian and other wide characters are taken to be two wide. */
static size_t step(const char *s, size_t len, size_t *ret_columns)
{
	uint32_t code = 0;
	int n = spoor_utf8_decode(s, len, &code);

	*ret_columns = n > 0 && code >= 0x1100 && (code < 0x2000 || code >= 0x2e80) ? 2 : 1;
	return n > 0 ? (size_t)n : 1;
}

size_t spoor_screen_columns(const char *text)
{
	size_t len = strlen(text), sum = 0, columns;

	for (size_t at = 0; at < len; sum += columns)
		at += step(text + at, len - at, &columns);
	return sum;
}

/* Bytes of the text that fit into the columns. */
static size_t fitting(const char *s, size_t columns)
{
	size_t len = strlen(s), at = 0, used = 0;

	while (at < len) {
		size_t wide, n = step(s + at, len - at, &wide);

		used += wide;
		if (used > columns)
			break;
		at += n;
	}
	return at;
}

void spoor_screen_set(struct spoor_screen *s, unsigned row, enum spoor_screen_look look, const char *text)
{
	if (row >= s->rows)
		return;
	free(s->lines[row]);
	s->lines[row] = strndup(text, fitting(text, s->columns));
	s->looks[row] = (uint8_t)look;
}

/* ---- differences ---- */

static int is_ascii(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] >= 0x80)
			return 0;
	return 1;
}

static void put_span(FILE *out, unsigned row, size_t column, unsigned look, const char *s, size_t len, int colour)
{
	static const char *const sequences[] = { "", "\033[1m", "\033[7m", "\033[2m" };
	int styled = len && look && (colour || look == SPOOR_LOOK_REVERSE);

	fprintf(out, "\033[%u;%zuH%s", row + 1, column + 1, styled ? sequences[look] : "");
	fwrite(s, 1, len, out);
	fputs(styled ? "\033[0m" : "", out);
}

/*
 * Only what lies between the first and the last difference; as bytes are columns in ASCII alone, a line with anything
 * else is written from its begin on.
 */
static void put_line(FILE *out, unsigned row, const char *old, const char *new, unsigned look, int colour)
{
	size_t old_len = strlen(old), len = strlen(new), same = 0, tail = 0;

	if (is_ascii(old, old_len) && is_ascii(new, len)) {
		while (same < len && same < old_len && old[same] == new[same])
			same++;
		while (len == old_len && tail < len - same && old[len - tail - 1] == new[len - tail - 1])
			tail++;
	}
	put_span(out, row, same, look, new + same, len - same - tail, colour);
	if (len < old_len)
		fputs("\033[K", out);
}

char *spoor_screen_change(const struct spoor_screen *old, const struct spoor_screen *new, int colour, size_t *ret_len)
{
	int all = old->rows != new->rows || old->columns != new->columns;
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_len);

	if (!out)
		return NULL;
	if (all)
		fputs("\030\033[0m\033[2J", out);
	for (unsigned i = 0; i < new->rows; i++) {
		const char *line = new->lines[i] ?: "", *was = all ? "" : old->lines[i] ?: "";

		if (!all && new->looks[i] != old->looks[i]) {
			fprintf(out, "\033[%u;1H\033[K", i + 1);
			was = "";
		}
		if (strcmp(was, line))
			put_line(out, i, was, line, new->looks[i], colour);
	}
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}
