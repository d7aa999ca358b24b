/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "agent/core/maps.h"

#define WINDOW 4096

struct text {
	int fd;
	size_t at, n;
	char bytes[WINDOW];
};

/* The next character; -1: the end. */
static int next(struct text *t)
{
	long n;

	if (t->at < t->n)
		return (unsigned char)t->bytes[t->at++];
	n = sys3(SYS_read, t->fd, t->bytes, WINDOW);
	if (sys_failed(n) || !n)
		return -1;
	t->n = (size_t)n;
	t->at = 1;
	return (unsigned char)t->bytes[0];
}

/* A number; *end is what came behind it. */
static uint64_t number(struct text *t, unsigned base, int *end)
{
	uint64_t v = 0;
	int c;

	for (c = next(t); c >= 0; c = next(t)) {
		unsigned digit = 16;

		if (c >= '0' && c <= '9')
			digit = (unsigned)c - '0';
		else if (c >= 'a' && c <= 'f')
			digit = (unsigned)c - 'a' + 10;
		if (digit >= base)
			break;
		v = v * base + digit;
	}
	*end = c;
	return v;
}

static int behind(struct text *t, int c, char what)
{
	while (c >= 0 && c != '\n' && c != what)
		c = next(t);
	return c;
}

/* "7f00-7f10 r-xp 00002000 08:01 1234   /usr/lib/x.so", from behind the addresses on. */
static void read_rest(struct text *t, struct mapped *ret)
{
	uint64_t major;
	size_t n = 0;
	int c;

	behind(t, next(t), ' '); /* permissions */
	number(t, 16, &c);       /* offset */
	major = number(t, 16, &c);
	ret->dev = major << 20 | number(t, 16, &c);
	ret->ino = number(t, 10, &c);
	while (c == ' ')
		c = next(t);
	for (; c >= 0 && c != '\n' && n + 1 < sizeof(ret->path); c = next(t))
		ret->path[n++] = (char)c;
	ret->path[n] = '\0';
}

static int find(struct text *t, uintptr_t address, struct mapped *ret)
{
	uint64_t start, end;
	int c;

	for (;;) {
		start = number(t, 16, &c);
		if (c < 0)
			return -ENOENT;
		end = number(t, 16, &c);
		if (c == ' ' && address >= start && address < end) {
			read_rest(t, ret);
			return 0;
		}
		if (behind(t, c, '\n') < 0)
			return -ENOENT;
	}
}

int mapped_at(uintptr_t address, struct mapped *ret)
{
	static struct text t; /* too large for a stack that may be small */
	long fd = sys3(SYS_open, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	int r;

	if (sys_failed(fd))
		return (int)fd;
	t.fd = (int)fd;
	t.at = t.n = 0;
	r = find(&t, address, ret);
	sys3(SYS_close, fd, 0, 0);
	return r;
}
