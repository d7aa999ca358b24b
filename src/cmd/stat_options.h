/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The command line of `spoor stat` turned into what is counted and how it is shown. */
#include <limits.h>

#include "collect/session/counting.h"
#include "present/stat_text.h"

struct spoor_stat_options {
	struct spoor_counting_options c; /* points into the rest, and into argv */
	struct spoor_stat_view view;
	const char *output; /* -o; NULL: stderr */
	bool watch;
	char cache[PATH_MAX];
};

/* o is zeroed. Prints what is wrong. Returns 0, or an exit code + 1 (1: help was shown). */
int spoor_stat_parse(struct spoor_stat_options *o, int argc, char **argv);
