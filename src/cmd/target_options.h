/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What verbs that watch programs have in common on the command line: targets, values of options. */
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/kernel/control.h"
#include "collect/session/targets.h"

enum {
	SPOOR_OPT_NO_FOLLOW = 1000,
	SPOOR_OPT_FOLLOW,
	SPOOR_OPT_CGROUP,
};

/* For the table of getopt_long(), and for its letters. */
#define SPOOR_TARGET_OPTIONS                                    \
	{ "pid", required_argument, NULL, 'p' },                \
	{ "name", required_argument, NULL, 'n' },               \
	{ "all", no_argument, NULL, 'a' },                      \
	{ "cgroup", required_argument, NULL, SPOOR_OPT_CGROUP }, \
	{ "follow", no_argument, NULL, SPOOR_OPT_FOLLOW },      \
	{ "no-follow", no_argument, NULL, SPOOR_OPT_NO_FOLLOW }
#define SPOOR_TARGET_LETTERS "p:n:a"

/* Takes one of them. *follow: -1 before the first. 1: it was one; 0: it is another option; or -errno. */
int spoor_target_option(int c, const char *arg, struct spoor_targets *t, int *follow, struct spoor_error *e);
/* Do they go together? `what` is said if there are none ("record"). Sets t->follow. */
int spoor_targets_settle(struct spoor_targets *t, int follow, const char *what, struct spoor_error *e);

int spoor_count_option(const char *name, const char *arg, unsigned least, unsigned most, unsigned *ret,
		       struct spoor_error *e);
int spoor_size_option(const char *name, const char *arg, uint64_t least, uint64_t *ret, struct spoor_error *e);
int spoor_duration_option(const char *name, const char *arg, uint64_t *ret, struct spoor_error *e);
int spoor_unwind_option(const char *arg, enum spoor_unwind *ret, struct spoor_error *e);
int spoor_snapshot_signal(const char *arg, int *ret, struct spoor_error *e); /* --snapshot-on */
int spoor_mode_option(const char *arg, enum spoor_mode *ret, struct spoor_error *e);

/* After getopt_long() said c, '?' or ':', of arg: -EINVAL. */
int spoor_wrong_option(const char *verb, int c, const char *arg, struct spoor_error *e);

/*
 * Where compiled rows are kept: $SPOOR_CACHE_DIR, /var/cache/spoor for root, else ~/.cache/spoor. Makes it. buf has
 * PATH_MAX bytes; returns it, or NULL: there is none, rows are compiled each time.
 */
const char *spoor_cache_directory(char *buf);
