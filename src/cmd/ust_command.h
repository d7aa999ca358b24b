/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * A command for a daemon: `spoor ust start|stop|...`. The client parses it, so that what is wrong is said without a
 * daemon, and sends its words; the daemon parses them again.
 */
#include "cmd/ust_options.h"

#define SPOOR_UST_MOST_WORDS 256

struct spoor_ust_command {
	const char *word;
	const char *session, *socket;
	bool named; /* session: by -s */
	bool all;
	struct spoor_ust_cmd_options o;
	uint32_t pids[SPOOR_UST_MOST_WORDS];
	unsigned n_pids;
	const char *names[SPOOR_UST_MOST_WORDS]; /* other arguments */
	unsigned n_names;
};

/* argv[0] is the word; the arguments are then argv[optind] and so on. 0, 1 (help is asked for), or -errno. */
int spoor_ust_command_parse(struct spoor_ust_command *c, int argc, char **argv, struct spoor_error *e);
