/* SPDX-License-Identifier: GPL-2.0-or-later */
/* spoor repair: cuts what a killed recording left torn, for readers of CTF that refuse a trace for it. */
#include <inttypes.h>

#include "base/strings.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "trace/reader.h"

int spoor_cmd_repair(int argc, char **argv)
{
	static const struct spoor_option options[] = { {} };
	static const struct spoor_command_line line = { .verb = "repair", .options = options };
	struct spoor_error e = {};
	const char *trace;
	uint64_t cut;
	int r = spoor_options_parse(&line, argc, argv, NULL, NULL, &e);

	if (!r)
		r = spoor_options_trace(&line, argc, argv, &trace, &e);
	if (r)
		return r > 0 ? spoor_cmd_usage("repair") : spoor_cmd_misuse("repair", &e);
	if (spoor_trace_repair(trace, &cut, &e) < 0) {
		spoor_cmd_say("repair", e.text);
		return SPOOR_EXIT_FAILED;
	}
	if (cut)
		printf("%" PRIu64 " %s of packets that were not whole %s cut.\n", cut,
		       spoor_plural(cut, "byte", "bytes"), spoor_plural(cut, "was", "were"));
	else
		puts("Nothing to repair: every packet is whole.");
	return SPOOR_EXIT_OK;
}
