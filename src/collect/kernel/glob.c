/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Patterns for names, as glob(7) has them, to tokens. What a set holds is asked of fnmatch(3), used elsewhere. */
#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "collect/kernel/kernel.h"

/* Where the set that begins at p ends, its bracket included; NULL: it has no end, and the bracket is a letter. */
static const char *set_end(const char *p)
{
	p++;
	p += *p == '!' || *p == '^';
	p += *p == ']';
	while (*p && *p != ']') {
		const char *end = p[0] == '[' && p[1] && strchr(":.=", p[1]) ? strchr(p + 2, ']') : NULL;

		if (end && end > p + 2 && end[-1] == p[1])
			p = end + 1;
		else
			p += p[0] == '\\' && p[1] ? 2 : 1;
	}
	return *p ? p + 1 : NULL;
}

static int add_set(struct spoor_names *names, const char *p, size_t len, uint16_t *ret)
{
	char pattern[SPOOR_NAME_MAX];
	uint8_t set[32] = { 0 };
	unsigned i;

	memcpy(pattern, p, len);
	pattern[len] = 0;
	for (unsigned c = 1; c < 256; c++)
		if (!fnmatch(pattern, (char[]){ (char)c, 0 }, 0))
			set[c / 8] |= 1 << c % 8;
	for (i = 0; i < names->n_sets; i++)
		if (!memcmp(names->sets[i], set, sizeof(set)))
			break;
	if (i == SPOOR_NAME_SETS)
		return -E2BIG;
	if (i == names->n_sets)
		memcpy(names->sets[names->n_sets++], set, sizeof(set));
	*ret = SPOOR_NAME_SET + i;
	return 0;
}

int spoor_names_add(struct spoor_names *names, const char *glob, struct spoor_error *e)
{
	uint16_t tokens[SPOOR_NAME_MAX] = { 0 };
	unsigned n = 0;

	if (names->n == SPOOR_MAX_NAMES)
		return spoor_fail(e, E2BIG, "-n: more than %d names", SPOOR_MAX_NAMES);
	if (strlen(glob) >= SPOOR_NAME_MAX)
		return spoor_fail(e, ENAMETOOLONG, "-n %s: longer than %d characters", glob, SPOOR_NAME_MAX - 1);
	for (const char *p = glob; *p;) {
		const char *end = *p == '[' ? set_end(p) : NULL;

		if (end) {
			if (add_set(names, p, end - p, &tokens[n]))
				return spoor_fail(e, E2BIG, "-n: more than %d different [sets]", SPOOR_NAME_SETS);
			p = end;
		} else if (*p == '\\' && !p[1]) {
			return spoor_fail(e, EINVAL, "-n %s: nothing follows the last \\", glob);
		} else if (*p == '*' || *p == '?') {
			tokens[n] = *p++ == '*' ? SPOOR_NAME_STAR : SPOOR_NAME_ANY;
		} else {
			p += *p == '\\';
			tokens[n] = (uint8_t)*p++;
		}
		n++;
	}
	memcpy(names->tokens[names->n++], tokens, sizeof(tokens));
	return 0;
}
