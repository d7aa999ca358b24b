/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "analyze/jit_map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Where a map that is being written was emptied there is a hole: what stands behind it counts. */
static void break_at_nuls(char *text, size_t size)
{
	for (char *nul = text; (nul = memchr(nul, 0, size - (size_t)(nul - text))); nul++)
		*nul = '\n';
}

/* The whole file with a NUL behind it, the only one. */
static int read_map(int fd, char **ret)
{
	_cleanup_(spoor_freep) char *text = NULL;
	size_t done = 0, size;
	struct stat st;

	if (fstat(fd, &st) < 0 || st.st_size > SPOOR_JIT_MAP_MAX)
		return -ENOENT;
	size = (size_t)st.st_size;
	text = malloc(size + 1);
	if (!text)
		return -ENOMEM;
	while (done < size) {
		ssize_t n = pread(fd, text + done, size - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	break_at_nuls(text, done);
	text[done] = 0;
	*ret = TAKE_PTR(text);
	return 0;
}

/* Code is made where other code was before, and no line is ever taken back: what was written last holds. */
static int add_line(struct spoor_symtab *t, char *line, uint32_t number)
{
	struct spoor_symbol symbol = { .form = SPOOR_SYMBOL_PLAIN, .order = number };
	char *end;
	uint64_t size;

	symbol.addr = strtoull(line, &end, 16);
	if (end == line || *end != ' ')
		return 0;
	line = end + 1;
	size = strtoull(line, &end, 16);
	if (end == line || *end != ' ' || !size || size > UINT64_MAX - symbol.addr)
		return 0;
	symbol.end = symbol.limit = symbol.addr + size;
	symbol.name = end + 1;
	return symbol.name[0] ? spoor_symtab_add(t, &symbol) : 0;
}

int spoor_jit_map_load(int fd, struct spoor_symtab *t)
{
	char *text, *save = NULL;
	uint32_t number = 1;
	int r = read_map(fd, &text);

	if (r < 0)
		return r;
	r = spoor_symtab_own(t, text);
	for (char *line = r < 0 ? NULL : strtok_r(text, "\n", &save); line && r == 0;
	     line = strtok_r(NULL, "\n", &save))
		r = add_line(t, line, number++);
	if (r < 0)
		spoor_symtab_release(t);
	return r;
}
