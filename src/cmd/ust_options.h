/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What `spoor ust run`, `start` and `enable` have in common on the command line: which events, how, where to. */
#include <limits.h>
#include <stdbool.h>

#include "agent/ust/limits.h"
#include "cmd/options.h"
#include "collect/user/session.h"

#define SPOOR_UST_OPTION_RULES 64

struct spoor_ust_cmd_options {
	struct spoor_ust_options s;
	struct spoor_ust_rule rules[1 + SPOOR_UST_OPTION_RULES]; /* with "all" in front of "all but" */
	unsigned n_rules;
	uint8_t level; /* 255: any */
	const char *filter;
	char app[1024], scope[1024]; /* "": none */
	char output[PATH_MAX];
	unsigned channel; /* which the next option is for */
	unsigned defined; /* a bit for each channel of which something was said */
	bool named;       /* --channel was given */
};

/* For a table: `o` is a struct spoor_ust_cmd_options in `type`. */
#define SPOOR_UST_OPTIONS(type, o)                                                                               \
	{ "event", 'e', SPOOR_OPTION_OWN, SPOOR_AT(type, o), .take = spoor_take_ust_event },                     \
		{ "level", 'l', SPOOR_OPTION_OWN, SPOOR_AT(type, o.level), .take = spoor_take_ust_level },       \
		{ "filter", 0, SPOOR_OPTION_OWN, SPOOR_AT(type, o.filter), .take = spoor_take_ust_filter },      \
		{ "output", 'o', SPOOR_OPTION_OWN, SPOOR_AT(type, o.output), .take = spoor_take_ust_output },    \
		{ "channel", 0, SPOOR_OPTION_OWN, SPOOR_AT(type, o), .take = spoor_take_ust_channel },           \
		{ "buffers", 0, SPOOR_OPTION_OWN, SPOOR_AT(type, o.s.buffers), .take = spoor_take_ust_buffers }, \
		{ "packet", 0, SPOOR_OPTION_OWN, SPOOR_AT(type, o), .take = spoor_take_ust_packet },             \
		{ "mode", 0, SPOOR_OPTION_OWN, SPOOR_AT(type, o), .take = spoor_take_ust_mode },                 \
		{ "context", 0, SPOOR_OPTION_OWN, SPOOR_AT(type, o), .take = spoor_take_ust_context },           \
		{ "stack", 0, SPOOR_OPTION_OWN, SPOOR_AT(type, o), .take = spoor_take_ust_stack },               \
		{ "app", 0, SPOOR_OPTION_OWN, SPOOR_AT(type, o), .take = spoor_take_ust_app },                   \
		{ "scope", 0, SPOOR_OPTION_OWN, SPOOR_AT(type, o), .take = spoor_take_ust_scope },               \
		{ "max-size", 0, SPOOR_OPTION_SIZE, SPOOR_AT(type, o.s.max_size), .least = UST_LEAST_MAX_SIZE }, \
	{                                                                                                        \
		"rotate", 0, SPOOR_OPTION_OWN, SPOOR_AT(type, o.s), .take = spoor_take_ust_rotate                \
	}

int spoor_take_ust_event(void *options, const char *arg, struct spoor_error *e);
int spoor_take_ust_level(void *level, const char *arg, struct spoor_error *e);
int spoor_take_ust_filter(void *filter, const char *arg, struct spoor_error *e);
int spoor_take_ust_output(void *output, const char *arg, struct spoor_error *e);
int spoor_take_ust_channel(void *options, const char *arg, struct spoor_error *e);
int spoor_take_ust_buffers(void *buffers, const char *arg, struct spoor_error *e);
int spoor_take_ust_packet(void *options, const char *arg, struct spoor_error *e);
int spoor_take_ust_mode(void *options, const char *arg, struct spoor_error *e);
int spoor_take_ust_context(void *options, const char *arg, struct spoor_error *e);
int spoor_take_ust_rotate(void *session, const char *arg, struct spoor_error *e);
int spoor_take_ust_stack(void *options, const char *arg, struct spoor_error *e);
int spoor_take_ust_app(void *options, const char *arg, struct spoor_error *e);
int spoor_take_ust_scope(void *options, const char *arg, struct spoor_error *e);
/* Do they go together? 0 or -EINVAL. */
int spoor_ust_options_check(struct spoor_ust_cmd_options *o, struct spoor_error *e);
/* Do they say something of a session that is settled when it is made: buffers, limits, what channels are like? */
bool spoor_ust_options_shape(const struct spoor_ust_cmd_options *o);
/* Of all channels. */
uint32_t spoor_ust_options_contexts(const struct spoor_ust_cmd_options *o);
/* Of a bit of contexts, as --context has it; NULL: there is none. */
const char *spoor_ust_context_name(unsigned bit);
/* As --level has it; NULL: any. */
const char *spoor_ust_level_name(unsigned level);
/* "vpid,cpu,callstack" into a uint32_t. */
int spoor_take_ust_contexts(void *contexts, const char *arg, struct spoor_error *e);

void spoor_ust_options_init(struct spoor_ust_cmd_options *o);
/* After the last: level and filter go to all rules; none: all events. */
void spoor_ust_options_settle(struct spoor_ust_cmd_options *o);
/* Can it match? Each event is PROVIDER:NAME, and no provider begins with a digit. */
bool spoor_ust_may_be_events(const char *pattern);
/* One event pattern, "!pattern" for those that are not; in the first channel. */
int spoor_ust_rule_option(const char *pattern, bool enable, struct spoor_ust_rule *ret, struct spoor_error *e);
