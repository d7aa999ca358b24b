/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The command line of `spoor report` turned into what is shown, and of which calls. */
#include <stdbool.h>

#include "collect/session/filter.h"
#include "present/present.h"

struct spoor_report_options {
	const char *trace;
	const char *from, *to; /* as typed: their meaning needs the trace */
	const char *debug_root;
	struct spoor_filter filter; /* select.calls says it */
	struct spoor_select select; /* the caller's, to be released in any case */
	struct spoor_view view;
	bool events, json, folded, blocked;
};

/* o is zeroed. Prints what is wrong. Returns 0, or an exit code + 1 (1: help was shown). */
int spoor_report_parse(struct spoor_report_options *o, int argc, char **argv);
