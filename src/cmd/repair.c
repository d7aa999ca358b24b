/* SPDX-License-Identifier: GPL-2.0-or-later */
/* spoor repair: cuts what a killed recording left torn, for readers of CTF that refuse a trace for it. */
#include <getopt.h>
#include <inttypes.h>
#include <string.h>

#include "base/strings.h"
#include "cmd/cmd.h"
#include "trace/reader.h"

static int fail(const char *text, int code)
{
	char shown[1024];

	spoor_escape_terminal(text, strlen(text), shown, sizeof(shown));
	fprintf(stderr, "spoor repair: %s\n", shown);
	return code;
}

int spoor_cmd_repair(int argc, char **argv)
{
	static const struct option options[] = { { "help", no_argument, NULL, 'h' }, {} };
	struct spoor_error e = {};
	uint64_t cut;

	opterr = 0; /* one line, and it is ours */
	switch (getopt_long(argc, argv, "h", options, NULL)) {
	case -1:
		break;
	case 'h':
		return spoor_cmd_usage("repair");
	default:
		return fail("it has no options but -h", SPOOR_EXIT_USAGE);
	}
	if (optind + 1 != argc)
		return fail("which trace? spoor repair NAME.spoor", SPOOR_EXIT_USAGE);
	if (spoor_trace_repair(argv[optind], &cut, &e) < 0)
		return fail(e.text, SPOOR_EXIT_FAILED);
	if (cut)
		printf("%" PRIu64 " bytes of packets that were not whole were cut.\n", cut);
	else
		puts("Nothing to repair: every packet is whole.");
	return SPOOR_EXIT_OK;
}
