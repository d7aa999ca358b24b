/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What `spoor ust run`, `start` and `enable` have in common on the command line: which events, how, where to. */
#include <limits.h>
#include <stdbool.h>

#include "collect/user/session.h"

#define SPOOR_UST_OPTION_RULES 64

struct spoor_ust_cmd_options {
	struct spoor_ust_options s;
	struct spoor_ust_rule rules[SPOOR_UST_OPTION_RULES];
	unsigned n_rules;
	uint8_t level; /* 255: any */
	const char *filter;
	char output[PATH_MAX];
};

enum {
	SPOOR_UST_OPT_FILTER = 2000,
	SPOOR_UST_OPT_BUFFERS,
	SPOOR_UST_OPT_MODE,
	SPOOR_UST_OPT_CONTEXT,
	SPOOR_UST_OPT_MAX_SIZE,
	SPOOR_UST_OPT_ROTATE,
	SPOOR_UST_OPT_PACKET,
};

#define SPOOR_UST_OPTIONS                                                    \
	{ "event", required_argument, NULL, 'e' },                           \
	{ "level", required_argument, NULL, 'l' },                           \
	{ "filter", required_argument, NULL, SPOOR_UST_OPT_FILTER },         \
	{ "output", required_argument, NULL, 'o' },                          \
	{ "buffers", required_argument, NULL, SPOOR_UST_OPT_BUFFERS },       \
	{ "packet", required_argument, NULL, SPOOR_UST_OPT_PACKET },         \
	{ "mode", required_argument, NULL, SPOOR_UST_OPT_MODE },             \
	{ "context", required_argument, NULL, SPOOR_UST_OPT_CONTEXT },       \
	{ "max-size", required_argument, NULL, SPOOR_UST_OPT_MAX_SIZE },     \
	{ "rotate", required_argument, NULL, SPOOR_UST_OPT_ROTATE }
#define SPOOR_UST_LETTERS "e:l:o:"

void spoor_ust_options_init(struct spoor_ust_cmd_options *o);
/* Takes one of them. 1: it was one; 0: it is another option; or -errno. */
int spoor_ust_option(int c, const char *arg, struct spoor_ust_cmd_options *o, struct spoor_error *e);
/* After the last: level and filter go to all rules; none: all events. */
void spoor_ust_options_settle(struct spoor_ust_cmd_options *o);
/* One event pattern, "!pattern" for those that are not. */
int spoor_ust_rule_option(const char *pattern, uint32_t pid, bool enable, struct spoor_ust_rule *ret,
			  struct spoor_error *e);
/* "vpid,cpu,callstack" into a uint32_t. */
int spoor_take_ust_contexts(void *contexts, const char *arg, struct spoor_error *e);
