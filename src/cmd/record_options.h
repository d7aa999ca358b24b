/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The command line of `spoor record` turned into a recording's options. */
#include <limits.h>

#include "collect/session/session.h"

#define SPOOR_MAX_SETS 16

struct spoor_record_options {
	struct spoor_session_options s;   /* points into the rest, and into argv */
	const char *sets[SPOOR_MAX_SETS]; /* --set: commands to a recording under way in s.targets.argv[0] */
	unsigned n_sets;
	char name[PATH_MAX]; /* of the recording */
	bool named;          /* by -o */
	char command[4096], cache[PATH_MAX];
};

/* o is zeroed. Prints what is wrong. Returns 0, or an exit code + 1 (1: help was shown). */
int spoor_record_parse(struct spoor_record_options *o, int argc, char **argv);
/* Another name, where somebody took that which was chosen. False: it was not chosen, or there are no more. */
bool spoor_record_choose_output(struct spoor_record_options *o);
