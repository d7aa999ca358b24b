/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * symbolize OBJECT < hex addresses: one line an address, frames separated by '\x1e', fields by '\x1f':
 * function, file, line, inlined. For comparison with other tools.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "object/symbols.h"

static void print(const struct spoor_source_line *l, int first)
{
	printf("%s%s\x1f%s\x1f%u\x1f%u\x1f%" PRIx64, first ? "" : "\x1e", l->function ?: "", l->file ?: "", l->line,
	       l->inlined, l->function_offset);
}

int main(int argc, char **argv)
{
	struct spoor_source_line lines[64];
	struct spoor_symbols *s;
	struct spoor_error e;
	uint64_t addr;
	int fd, r;

	if (argc < 2)
		return 2;
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	r = spoor_symbols_open(fd, argc > 2 ? argv[2] : NULL, &s, &e);
	if (r < 0) {
		fprintf(stderr, "%s: %s\n", argv[1], e.text);
		return 1;
	}
	while (scanf("%" SCNx64, &addr) == 1) {
		int n = spoor_symbols_resolve(s, addr, lines, 64);

		for (int i = 0; i < n; i++)
			print(&lines[i], i == 0);
		putchar('\n');
	}
	spoor_symbols_free(s);
	return 0;
}
