/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "present/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings.h"

typedef size_t escape_fn(const char *s, size_t len, char *buf, size_t size);

static int is_plain(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\')
			return 0;
	return 1;
}

static void put(FILE *out, const char *s, size_t len, escape_fn *escape)
{
	_cleanup_(spoor_freep) char *big = NULL;
	char buf[1024];
	size_t n;

	if (is_plain(s, len)) {
		fwrite_unlocked(s, 1, len, out);
		return;
	}
	n = escape(s, len, buf, sizeof(buf));
	if (n < sizeof(buf)) {
		fwrite_unlocked(buf, 1, n, out);
		return;
	}
	big = malloc(n + 1);
	if (!big)
		return;
	escape(s, len, big, n + 1);
	fwrite_unlocked(big, 1, n, out);
}

void spoor_put_text(FILE *out, const char *s, size_t len)
{
	put(out, s, len, spoor_escape_terminal);
}

void spoor_put_string(FILE *out, const char *s)
{
	if (s)
		put(out, s, strlen(s), spoor_escape_terminal);
}

void spoor_put_line(FILE *out, const char *s)
{
	put(out, s, strlen(s), spoor_escape_line);
}

void spoor_put_json_bytes(FILE *out, const char *s, size_t len)
{
	putc_unlocked('"', out);
	put(out, s, len, spoor_escape_json);
	putc_unlocked('"', out);
}

void spoor_put_json_string(FILE *out, const char *s)
{
	if (s)
		spoor_put_json_bytes(out, s, strlen(s));
	else
		fputs_unlocked("null", out);
}

void spoor_format_count(uint64_t n, char *buf, size_t size)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n);
	size_t at = 0;

	for (int i = 0; i < len && at + 2 < size; i++) {
		if (i && (len - i) % 3 == 0)
			buf[at++] = ',';
		buf[at++] = digits[i];
	}
	buf[at] = 0;
}
