/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Names of call sites for a struct spoor_stat_view, if its stacks and objects are a segment's definitions. */
#include "analyze/symbolize.h"
#include "present/stat_text.h"

/* What view.p points to. */
struct spoor_stat_sites {
	struct spoor_symbolizer *symbols;
	const struct spoor_segment *segment;
	uint8_t chains; /* a site is all frames of the stack, not the innermost of the application's own code */
};
/* Sets the callbacks of v. */
void spoor_stat_sites_use(struct spoor_stat_view *v, struct spoor_stat_sites *sites);
