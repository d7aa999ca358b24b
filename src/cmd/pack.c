/* SPDX-License-Identifier: GPL-2.0-or-later */
/* spoor pack: what the reading of a trace needs of this machine goes into the trace. */
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "analyze/pack.h"
#include "base/strings.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "present/text.h"

struct options {
	const char *trace;
	const char *debug_root;
	bool json;
};

struct totals {
	bool json;
	unsigned packed, already, refused;
	uint64_t size, stored;
};

static const char *const kinds[] = { [SPOOR_PACKED_OBJECT] = "object",
				     [SPOOR_PACKED_DEBUG] = "debug",
				     [SPOOR_PACKED_SUPPLEMENT] = "supplement",
				     [SPOOR_PACKED_JIT] = "jit" };
static const char *const states[] = { [SPOOR_PACK_PACKED] = "packed",
				      [SPOOR_PACK_ALREADY] = "already",
				      [SPOOR_PACK_CHANGED] = "changed",
				      [SPOOR_PACK_UNREADABLE] = "unreadable",
				      [SPOOR_PACK_UNKNOWN] = "unknown" };

/* "840 B", "12.3 kB", "4.56 MB": powers of 1000. */
static void format_bytes(uint64_t n, char *buf, size_t size)
{
	static const char *const units[] = { "B", "kB", "MB", "GB" };
	double v = (double)n;
	unsigned u = 0;

	for (; v >= 999.5 && u < 3; u++)
		v /= 1000;
	snprintf(buf, size, "%.3g %s", v, units[u]);
}

static void put_item_json(const struct spoor_pack_item *item)
{
	printf("{\"kind\":\"%s\",\"state\":\"%s\",\"path\":", kinds[item->kind], states[item->state]);
	spoor_put_json_string(stdout, item->path);
	if (item->state == SPOOR_PACK_PACKED)
		printf(",\"size\":%" PRIu64 ",\"stored\":%" PRIu64, item->size, item->stored);
	fputs("}\n", stdout);
}

static void put_item(const struct spoor_pack_item *item)
{
	static const char *const what[] = { [SPOOR_PACKED_OBJECT] = "",
					    [SPOOR_PACKED_DEBUG] = " (its debugging file)",
					    [SPOOR_PACKED_SUPPLEMENT] = " (what its debugging file shares)",
					    [SPOOR_PACKED_JIT] = "" };
	static const char *const why[] = { [SPOOR_PACK_ALREADY] = "is in already",
					   [SPOOR_PACK_CHANGED] = "not packed: it was changed since the recording",
					   [SPOOR_PACK_UNREADABLE] = "not packed: it cannot be read",
					   [SPOOR_PACK_UNKNOWN] =
						   "not packed: its content was not seen while recording" };
	char size[32], stored[32];

	spoor_put_string(stdout, item->path);
	fputs(what[item->kind], stdout);
	if (item->state != SPOOR_PACK_PACKED) {
		printf(": %s\n", why[item->state]);
		return;
	}
	format_bytes(item->size, size, sizeof(size));
	format_bytes(item->stored, stored, sizeof(stored));
	printf(": %s in %s\n", size, stored);
}

static void each(void *p, const struct spoor_pack_item *item)
{
	struct totals *t = p;

	t->packed += item->state == SPOOR_PACK_PACKED;
	t->already += item->state == SPOOR_PACK_ALREADY;
	t->refused += item->state > SPOOR_PACK_ALREADY;
	t->size += item->size;
	t->stored += item->stored;
	if (t->json)
		put_item_json(item);
	else
		put_item(item);
}

static void put_totals(const char *trace, const struct totals *t)
{
	char size[32], stored[32];

	format_bytes(t->size, size, sizeof(size));
	format_bytes(t->stored, stored, sizeof(stored));
	if (t->json)
		return;
	fputs("Packed into ", stdout);
	spoor_put_string(stdout, trace);
	printf(": %u %s, %s in %s; %u were in already; %u could not be packed.\n", t->packed,
	       spoor_plural(t->packed, "file", "files"), size, stored, t->already, t->refused);
}

#define AT(member) SPOOR_AT(struct options, member)

static int parse(int argc, char **argv, struct options *o, struct spoor_error *e)
{
	static const struct spoor_option options[] = {
		{ "debug-root", 0, SPOOR_OPTION_TEXT, AT(debug_root) },
		{ "format", 'f', SPOOR_OPTION_WORD, AT(json), .words = spoor_format_words },
		{},
	};
	static const struct spoor_command_line line = { .verb = "pack", .options = options };
	int r = spoor_options_parse(&line, argc, argv, o, NULL, e);

	return r ? r : spoor_options_trace(&line, argc, argv, &o->trace, e);
}

static int fail(const char *text)
{
	fflush(stdout);
	spoor_cmd_say("pack", text);
	return SPOOR_EXIT_FAILED;
}

int spoor_cmd_pack(int argc, char **argv)
{
	struct options o = {};
	struct spoor_error e = {};
	struct totals totals = {};
	int r = parse(argc, argv, &o, &e);

	if (r)
		return r > 0 ? spoor_cmd_usage("pack") : spoor_cmd_misuse("pack", &e);
	totals.json = o.json;
	r = spoor_pack(o.trace, &(struct spoor_pack_options){ .debug_root = o.debug_root, .each = each, .p = &totals },
		       &e);
	if (r < 0)
		return fail(e.text);
	put_totals(o.trace, &totals);
	return fflush(stdout) ? fail("cannot write to standard output") : SPOOR_EXIT_OK;
}
