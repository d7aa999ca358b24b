/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <string.h>

#include "agent/ust/glob.h"

/* Only the last `*` is ever returned to: linear in practice, never exponential. */
bool glob_matches(const char *pattern, size_t len, const char *s)
{
	const char *end = pattern + len, *star = NULL, *from = NULL;

	while (*s) {
		if (pattern < end && *pattern == '*') {
			star = ++pattern;
			from = s;
			if (pattern == end)
				return true;
		} else if (pattern < end && (*pattern == '?' || *pattern == *s)) {
			pattern++;
			s++;
		} else if (star) {
			pattern = star;
			s = ++from;
		} else {
			return false;
		}
	}
	while (pattern < end && *pattern == '*')
		pattern++;
	return pattern == end;
}

bool globs_match(const char *list, const char *s)
{
	bool matches = *list == '!';

	for (;;) {
		size_t len = (size_t)(strchrnul(list, ',') - list), not = *list == '!';

		if (len > not && glob_matches(list + not, len - not, s))
			matches = !not;
		if (!list[len])
			return matches;
		list += len + 1;
	}
}
