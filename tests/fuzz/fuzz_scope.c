/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `--scope` and `--app`: input is one list a line; the last line is the path of an object. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "collect/session/scope.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct spoor_scope *scope, const struct spoor_scope *app, const char *path)
{
	for (int is_main = 0; is_main < 2; is_main++) {
		int match = spoor_app_match(app, path, is_main);

		if (spoor_scope_limit(scope, path, is_main) > SPOOR_SCOPE_MAX_LIMIT || match < 0 || match > 1)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(spoor_freep) char *text = malloc(size + 1);
	_cleanup_(spoor_scope_done) struct spoor_scope scope = { 0 }, app = { 0 };
	const char *path = "";
	char *next = text, *line;

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	while ((line = strsep(&next, "\n"))) {
		struct spoor_error e = { "" };

		if (spoor_scope_parse(&scope, line, &e) && !*e.text)
			abort();
		if (spoor_app_parse(&app, line, &e) && !*e.text)
			abort();
		path = line;
	}
	check(&scope, &app, path);
	return 0;
}
