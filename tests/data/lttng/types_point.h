/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
struct types_point {
	int x, y;
};

static inline __attribute__((unused)) int types_sum(const struct types_point *p)
{
	return p->x + p->y;
}

static inline __attribute__((unused)) int types_shorten(char *s, int at)
{
	s[at] = '\0';
	return at;
}
