/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/strings.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int spoor_utf8_decode(const char *s, size_t len, uint32_t *ret_code)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const uint8_t *p = (const uint8_t *)s;
	uint32_t code;
	int n;

	if (!len)
		return 0;
	if (p[0] < 0x80) {
		*ret_code = p[0];
		return 1;
	}
	n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	if (p[0] < 0xc2 || p[0] > 0xf4 || len < (size_t)n)
		return 0;
	code = p[0] & (0xff >> (n + 1));
	for (int i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	/* Overlong forms, surrogates and what lies beyond Unicode are not UTF-8. */
	if (code < smallest[n] || (code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff)
		return 0;
	*ret_code = code;
	return n;
}

struct out {
	char *buf;
	size_t size, stored, length;
	bool cut;
};

/* A piece goes in whole or not at all, and nothing after the first that did not fit. */
static void put(struct out *o, const char *piece, size_t n)
{
	o->length += n;
	if (o->cut || o->stored + n >= o->size) {
		o->cut = true;
		return;
	}
	memcpy(o->buf + o->stored, piece, n);
	o->stored += n;
}

static size_t finish(struct out *o)
{
	if (o->size)
		o->buf[o->stored] = 0;
	return o->length;
}

static const char *short_escape(uint32_t code)
{
	switch (code) {
	case '\n': return "\\n";
	case '\t': return "\\t";
	case '\r': return "\\r";
	case '\\': return "\\\\";
	case '"': return "\\\"";
	}
	return NULL;
}

/* Characters that move, reorder or hide what a terminal shows. */
static bool deceives(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || c == 0x180e ||
	       (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
	       c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe007f);
}

static void put_bytes(struct out *o, const char *s, int n)
{
	for (int i = 0; i < n; i++) {
		char hex[8];

		put(o, hex, snprintf(hex, sizeof(hex), "\\x%02x", (uint8_t)s[i]));
	}
}

static size_t escape_text(const char *s, size_t len, char *buf, size_t size, bool quoted)
{
	struct out o = { .buf = buf, .size = size };

	for (size_t i = 0; i < len;) {
		uint32_t code = 0;
		int n = spoor_utf8_decode(s + i, len - i, &code);
		const char *escape = n ? short_escape(code) : NULL;

		if (escape && (quoted || deceives(code)))
			put(&o, escape, 2);
		else if (!n || deceives(code))
			put_bytes(&o, s + i, n ? n : 1);
		else
			put(&o, s + i, n);
		i += n ? n : 1;
	}
	return finish(&o);
}

size_t spoor_escape_terminal(const char *s, size_t len, char *buf, size_t size)
{
	return escape_text(s, len, buf, size, true);
}

size_t spoor_escape_line(const char *s, size_t len, char *buf, size_t size)
{
	return escape_text(s, len, buf, size, false);
}

size_t spoor_escape_file_name(const char *s, size_t len, char *buf, size_t size)
{
	struct out o = { .buf = buf, .size = size };

	for (size_t i = 0; i < len;) {
		uint32_t code = 0;
		int n = spoor_utf8_decode(s + i, len - i, &code);

		if (!n || deceives(code) || (code < 0x80 && strchr("*?[]\\/ ", (int)code)))
			put(&o, "_", 1);
		else
			put(&o, s + i, n);
		i += n ? n : 1;
	}
	return finish(&o);
}

static bool is_plain_word(const char *word)
{
	return *word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_")];
}

size_t spoor_shell_words(char *const *words, int n, char *buf, size_t size)
{
	struct out o = { .buf = buf, .size = size };

	for (int i = 0; i < n; i++) {
		const char *quote = is_plain_word(words[i]) ? "" : "'";

		put(&o, " ", !!i);
		put(&o, quote, strlen(quote));
		for (const char *c = words[i]; *c; c++)
			put(&o, *c == '\'' ? "'\\''" : c, *c == '\'' ? 4 : 1);
		put(&o, quote, strlen(quote));
	}
	return finish(&o);
}

size_t spoor_escape_json(const char *s, size_t len, char *buf, size_t size)
{
	struct out o = { .buf = buf, .size = size };

	for (size_t i = 0; i < len;) {
		uint32_t code = 0;
		int n = spoor_utf8_decode(s + i, len - i, &code);
		const char *escape = n ? short_escape(code) : NULL;
		char hex[16];

		if (escape)
			put(&o, escape, 2);
		else if (!n)
			put(&o, hex, snprintf(hex, sizeof(hex), "\\udc%02x", (uint8_t)s[i]));
		else if (deceives(code) && code > 0xffff) /* surrogates; the first is the same for all */
			put(&o, hex, snprintf(hex, sizeof(hex), "\\udb40\\u%04x", 0xdc00 | (code & 0x3ff)));
		else if (deceives(code))
			put(&o, hex, snprintf(hex, sizeof(hex), "\\u%04x", code));
		else
			put(&o, s + i, n);
		i += n ? n : 1;
	}
	return finish(&o);
}

static int globs_push(struct spoor_globs *g, const char *glob, size_t len)
{
	char **larger = reallocarray(g->globs, g->n + 1, sizeof(*larger));

	if (!larger)
		return -ENOMEM;
	g->globs = larger;
	larger[g->n] = strndup(glob, len);
	if (!larger[g->n])
		return -ENOMEM;
	g->n++;
	return 0;
}

static void globs_cut(struct spoor_globs *g, size_t n)
{
	while (g->n > n)
		free(g->globs[--g->n]);
}

int spoor_globs_add(struct spoor_globs *g, const char *list)
{
	size_t before = g->n;

	for (;;) {
		size_t len = strcspn(list, ",");
		int err = len ? globs_push(g, list, len) : -EINVAL;

		if (err) {
			globs_cut(g, before);
			return err;
		}
		if (!list[len])
			return 0;
		list += len + 1;
	}
}

void spoor_globs_done(struct spoor_globs *g)
{
	globs_cut(g, 0);
	free(g->globs);
	*g = (struct spoor_globs){};
}

bool spoor_globs_match(const struct spoor_globs *g, const char *name)
{
	for (size_t i = 0; i < g->n; i++)
		if (!fnmatch(g->globs[i], name, 0))
			return true;
	return false;
}

const char *spoor_basename(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

void spoor_cut_deleted(char *path)
{
	static const char deleted[] = " (deleted)";
	size_t len = strlen(path), end = sizeof(deleted) - 1;

	if (len > end && !strcmp(path + len - end, deleted))
		path[len - end] = 0;
}

#define NEAREST_MAX 64

/* Levenshtein's distance with swapped neighbours counted once (optimal string alignment; Damerau 1964). */
static int distance(const char *a, const char *b)
{
	int la = strlen(a), lb = strlen(b);
	int d[3][NEAREST_MAX + 1];

	if (la > NEAREST_MAX || lb > NEAREST_MAX)
		return INT_MAX;
	for (int j = 0; j <= lb; j++)
		d[0][j] = j;
	for (int i = 1; i <= la; i++) {
		int *row = d[i % 3], *above = d[(i + 2) % 3], *above2 = d[(i + 1) % 3];

		row[0] = i;
		for (int j = 1; j <= lb; j++) {
			int best = above[j - 1] + (a[i - 1] != b[j - 1]);

			if (above[j] + 1 < best)
				best = above[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && above2[j - 2] + 1 < best)
				best = above2[j - 2] + 1;
			row[j] = best;
		}
	}
	return d[la % 3][lb];
}

const char *spoor_nearest(const char *word, const char *const *candidates, size_t n)
{
	const char *found = NULL;
	int best = INT_MAX;

	for (size_t i = 0; i < n; i++) {
		int far = distance(word, candidates[i]);

		if (far < best) {
			best = far;
			found = candidates[i];
		}
	}
	/* A mistake in every third letter is a typing mistake; more is another word. */
	return found && best <= 1 + (int)strlen(found) / 3 && best < (int)strlen(found) ? found : NULL;
}

int spoor_parse_number(const char *s, uint64_t least, uint64_t most, uint64_t *ret)
{
	uint64_t value;
	char *end;

	if (*s < '0' || *s > '9') /* strtoull() would take blanks and signs */
		return -EINVAL;
	errno = 0;
	value = strtoull(s, &end, 10);
	if (*end)
		return -EINVAL;
	if (errno || value < least || value > most)
		return -ERANGE;
	*ret = value;
	return 0;
}

int spoor_parse_size(const char *s, uint64_t *ret)
{
	static const char suffixes[] = "kMGT";
	unsigned long long value;
	const char *suffix;
	int shift = 0;
	char *end;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	value = strtoull(s, &end, 10);
	if (errno)
		return -errno;
	if (*end) {
		suffix = strchr(suffixes, *end == 'K' ? 'k' : *end);
		if (!suffix || end[1])
			return -EINVAL;
		shift = 10 * (suffix - suffixes + 1);
	}
	if (value > UINT64_MAX >> shift)
		return -ERANGE;
	*ret = value << shift;
	return 0;
}

int spoor_parse_duration(const char *s, uint64_t *ret_ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{ "", 1000000000 }, { "s", 1000000000 }, { "ms", 1000000 }, { "us", 1000 }, { "ns", 1 },
		{ "m", 60000000000 }, { "h", 3600000000000 },
	};
	long double value = 0, scale = 1;
	const char *p = s;
	bool point = false;

	if ((*p < '0' || *p > '9') && *p != '.')
		return -EINVAL;
	/* By hand, since strtod would take the locale's comma, "inf" and hexadecimals. */
	for (; (*p >= '0' && *p <= '9') || (*p == '.' && !point); p++) {
		if (*p == '.') {
			point = true;
			continue;
		}
		value = value * 10 + (*p - '0');
		if (point)
			scale *= 10;
	}
	if (p == s + point)
		return -EINVAL;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (strcmp(p, units[i].name))
			continue;
		value = value / scale * units[i].ns;
		if (!(value < (long double)INT64_MAX))
			return -ERANGE;
		*ret_ns = value + 0.5L;
		return 0;
	}
	return -EINVAL;
}
