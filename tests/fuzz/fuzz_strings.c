/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings.h"
#include "cmd/report_times.h"
#include "collect/session/settings.h"
#include "trace/reader_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void escapes(const char *s, size_t len)
{
	size_t n = spoor_escape_terminal(s, len, NULL, 0), again;
	_cleanup_(spoor_freep) char *buf = malloc(n + 1);

	again = spoor_escape_terminal(s, len, buf, n + 1);
	assert(again == n && strlen(buf) == n);
	for (size_t i = 0; i < n; i++)
		assert((uint8_t)buf[i] >= 0x20 && buf[i] != 0x7f);
	n = spoor_escape_json(s, len, buf, n ? n : 1);
	assert(strlen(buf) <= n);
	n = spoor_escape_file_name(s, len, buf, strlen(buf) + 1);
	assert(n <= len && strcspn(buf, "/ *\n\033") == strlen(buf));
}

/* --from and --to, of a trace without events that began in 2025. What is one of them is the other, and a span. */
static void times(const char *s)
{
	struct spoor_trace t = { .info.epoch_offset = 1763722800123456789 };
	struct spoor_select from = {}, to = {}, both = {};
	struct spoor_error e = { "" };
	int r = spoor_report_times(s, NULL, &t, &from, &e);

	assert(!r == !*e.text);
	assert(spoor_report_times(NULL, s, &t, &to, &e) == r);
	assert(spoor_report_times(s, s, &t, &both, &e) == r);
	assert(r || (both.from == from.from && both.to == to.to && both.from <= both.to));
}

static void setting(const char *s)
{
	struct spoor_error e = { "" };
	int r = spoor_settings_understood(s, &e);

	assert(!r == !*e.text);
}

/* Option grammars: anything typed is either taken or refused. */
static void grammars(const char *s)
{
	static const char *const words[] = { "record", "report", "check" };
	struct spoor_globs globs = {};
	uint64_t value;

	spoor_parse_size(s, &value);
	spoor_parse_duration(s, &value);
	spoor_nearest(s, words, 3);
	/* fnmatch() of glibc takes time exponential in the stars; a command line is its user's own. */
	if (strlen(s) < 16 && !spoor_globs_add(&globs, s))
		spoor_globs_match(&globs, "apache2");
	spoor_globs_done(&globs);
	times(s);
	setting(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(spoor_freep) char *text = strndup((const char *)data, size);

	escapes((const char *)data, size);
	grammars(text);
	return 0;
}
