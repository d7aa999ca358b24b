/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What verbs that watch programs have in common: targets, filters, how stacks are walked; what of them is told. */
#include "cmd/options.h"
#include "collect/session/targets.h"

/* For a table: `targets` is a struct spoor_targets in `type`, and so on. */
#define SPOOR_TARGET_OPTIONS(type, targets)                                                              \
	{ "pid", 'p', SPOOR_OPTION_OWN, SPOOR_AT(type, targets), .take = spoor_take_pid },               \
		{ "name", 'n', SPOOR_OPTION_OWN, SPOOR_AT(type, targets), .take = spoor_take_name },     \
		{ "all", 'a', SPOOR_OPTION_FLAG, SPOOR_AT(type, targets.all) },                          \
		{ "cgroup", 0, SPOOR_OPTION_TEXT, SPOOR_AT(type, targets.cgroup) },                      \
		{ "follow", 0, SPOOR_OPTION_FLAG, SPOOR_AT(type, targets), .take = spoor_take_follow },  \
	{                                                                                                \
		"no-follow", 0, SPOOR_OPTION_FLAG, SPOOR_AT(type, targets), .take = spoor_take_no_follow \
	}

int spoor_take_pid(void *targets, const char *arg, struct spoor_error *e);
int spoor_take_name(void *targets, const char *arg, struct spoor_error *e);
int spoor_take_follow(void *targets, const char *arg, struct spoor_error *e);
int spoor_take_no_follow(void *targets, const char *arg, struct spoor_error *e);

int spoor_take_filter(void *filter, const char *arg, struct spoor_error *e); /* struct spoor_filter */
int spoor_take_mode(void *mode, const char *arg, struct spoor_error *e);     /* enum spoor_mode */
int spoor_take_app(void *scope, const char *arg, struct spoor_error *e);     /* struct spoor_scope */
int spoor_take_snapshot_signal(void *signal, const char *arg, struct spoor_error *e); /* int; --snapshot-on */

/* Do they go together? `what` is said if there are none ("record"). Sets t->follow. */
int spoor_targets_settle(struct spoor_targets *t, const char *what, struct spoor_error *e);

/*
 * Where compiled rows are kept: $SPOOR_CACHE_DIR, /var/cache/spoor for root, else ~/.cache/spoor. Makes it. buf has
 * PATH_MAX bytes; returns it, or NULL: there is none, rows are compiled each time.
 */
const char *spoor_cache_directory(char *buf);

/* Says on standard error, if there are any, that walks end in files that may not be read, and why. */
void spoor_say_forbidden(uint64_t files);
