/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * Text that comes from traced programs, and lists that people type. Everything here is thread-safe.
 *
 * Escaping functions write at most `size` bytes, always NUL-terminated when size > 0, and return the length that the
 * whole result has without its NUL, as snprintf does: a result >= size was cut, never in the middle of an escape.
 * The input is `len` bytes and may hold anything.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * For terminals, and quoted strings as strace prints them: control bytes, backslash, double quote and everything that
 * is not valid UTF-8 become \n, \t, \\, \", \xHH...; so do characters that could reorder or hide what is shown
 * (C1 controls, U+200B-200F, U+2028-202E, U+2060-2069, U+FEFF).
 */
size_t spoor_escape_terminal(const char *s, size_t len, char *buf, size_t size);
/* The same of a line that is nobody's quotation: what may be shown, backslash and quote too, is as it was typed. */
size_t spoor_escape_line(const char *s, size_t len, char *buf, size_t size);

/*
 * As part of a file's name that nobody chose: what a shell takes for a separator or a pattern, slashes, and all that
 * the above would escape become an underscore each.
 */
size_t spoor_escape_file_name(const char *s, size_t len, char *buf, size_t size);

/* As one line that a shell takes for the same words again. */
size_t spoor_shell_words(char *const *words, int n, char *buf, size_t size);

/*
 * The inside of a JSON string (RFC 8259, quotes not included). What the first two would escape of characters is escaped
 * as JSON does, since it may come to a terminal, too. Bytes that are not valid UTF-8 become U+DCHH as \udcHH, which
 * Python's "surrogateescape" turns back into the byte.
 */
size_t spoor_escape_json(const char *s, size_t len, char *buf, size_t size);

/* Length of the well-formed UTF-8 sequence at s (1..4; RFC 3629), or 0; *ret_code is the code point. */
int spoor_utf8_decode(const char *s, size_t len, uint32_t *ret_code);

/* A list of globs: "apache2,mod_*.so". Each is matched by fnmatch(3) against a whole name. */
struct spoor_globs {
	char **globs;
	size_t n;
};

/* Adds the comma-separated globs of `list`. An empty one is an error. 0, -EINVAL or -ENOMEM (*g is then unchanged). */
int spoor_globs_add(struct spoor_globs *g, const char *list);
void spoor_globs_done(struct spoor_globs *g);
bool spoor_globs_match(const struct spoor_globs *g, const char *name);

/* What follows the last slash; never NULL, part of `path`. */
const char *spoor_basename(const char *path);

/* Takes off what the kernel adds in /proc to the path of a file that has no name any more: " (deleted)". */
void spoor_cut_deleted(char *path);

/* The candidate closest to `word` if it is close enough to be a typing mistake, else NULL. */
const char *spoor_nearest(const char *word, const char *const *candidates, size_t n);

/* A decimal number from least to most: digits, and nothing before or after them. 0, -EINVAL or -ERANGE. */
int spoor_parse_number(const char *s, uint64_t least, uint64_t most, uint64_t *ret);

/*
 * A number with an optional suffix k, M, G (powers of 1024) and nothing after it: sizes on the command line.
 * 0, -EINVAL or -ERANGE.
 */
int spoor_parse_size(const char *s, uint64_t *ret);

/* The word that goes with a number: one thing, or many (or none). */
static inline const char *spoor_plural(uint64_t n, const char *one, const char *many)
{
	return n == 1 ? one : many;
}

/*
 * "1.5s", "200ms", "30us", "10ns", "2m", "1h", "7" (seconds) to ns. 0, -EINVAL, or -ERANGE: it is above INT64_MAX, so
 * that a clock's time can be added to what is not.
 */
int spoor_parse_duration(const char *s, uint64_t *ret_ns);
