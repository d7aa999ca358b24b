/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `-e`: input is one expression a line, applied one after another. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "collect/kernel/control.h"
#include "collect/session/filter.h"

static bool is_same(const struct spoor_filter *a, const struct spoor_filter *b)
{
	return !memcmp(a->mode, b->mode, sizeof(a->mode)) && a->other == b->other && a->chosen == b->chosen &&
	       a->n_numbers == b->n_numbers && !memcmp(a->numbers, b->numbers, sizeof(a->numbers));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct spoor_filter *f)
{
	for (unsigned id = 0; id < SPOOR_SYSCALL_MAX; id++)
		if (f->mode[id] >= SPOOR_FILTER_MODE(SPOOR_MODE_MAX))
			abort();
	if (f->other >= SPOOR_FILTER_MODE(SPOOR_MODE_MAX))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(spoor_freep) char *text = malloc(size + 1);
	struct spoor_filter f, before;
	char *next = text, *line;

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	spoor_filter_init(&f);
	while ((line = strsep(&next, "\n"))) {
		struct spoor_error e = { "" };

		before = f;
		if (spoor_filter_parse(&f, line, &e) && (!*e.text || !is_same(&f, &before)))
			abort();
		check(&f);
	}
	return 0;
}
