/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * A verb's command line: one table says which options there are, what values they take and where these go. -h and
 * --help are in every one.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum spoor_option_kind {
	SPOOR_OPTION_FLAG,     /* without a value: sets a bool or uint8_t */
	SPOOR_OPTION_TEXT,     /* const char *, not empty */
	SPOOR_OPTION_COUNT,    /* a number from least to most */
	SPOOR_OPTION_SIZE,     /* bytes, at least `least` */
	SPOOR_OPTION_DURATION, /* ns, at least `least` */
	SPOOR_OPTION_WORD,     /* `least` + the place of the value in `words` */
	SPOOR_OPTION_OWN,      /* take() knows; also flags may have it, which then get NULL */
};

struct spoor_option {
	const char *name; /* --name; NULL ends the table */
	char letter;      /* -l, or 0 */
	enum spoor_option_kind kind;
	size_t at, size; /* in the verb's options: SPOOR_AT() */
	uint64_t least, most;
	const char *const *words; /* NULL-terminated */
	int (*take)(void *at, const char *arg, struct spoor_error *e);
	bool optional; /* the value: take() gets NULL without one */
};

#define SPOOR_AT(type, member) .at = offsetof(type, member), .size = sizeof(((type *)0)->member)

#define SPOOR_MAX_OPTIONS 64 /* of a verb */

struct spoor_command_line {
	const char *verb;
	const struct spoor_option *options;
	bool has_command; /* what follows the first argument is not ours */
};

/*
 * Fills `to`, which is of the type that the table's places are of. The arguments are then argv[optind] and what
 * follows. ret_given (may be NULL): bit i is set if options[i] was given. Returns 0, 1 (help is asked for), or -errno
 * with e filled.
 */
int spoor_options_parse(const struct spoor_command_line *l, int argc, char **argv, void *to, uint64_t *ret_given,
			struct spoor_error *e);

/* The one argument of a verb that works on a trace. */
int spoor_options_trace(const struct spoor_command_line *l, int argc, char **argv, const char **ret,
			struct spoor_error *e);

/* "spoor VERB: TEXT", a line on standard error; names in the text may hold what a terminal would obey. */
void spoor_cmd_say(const char *verb, const char *text);
/* Prints what is wrong with a command line. Returns SPOOR_EXIT_USAGE. */
int spoor_cmd_misuse(const char *verb, const struct spoor_error *e);

/* For values that a verb takes by itself. */
int spoor_option_rotate(const char *arg, uint64_t *ret_size, uint64_t *ret_ns, struct spoor_error *e); /* one of them */
int spoor_option_size(const char *called, const char *arg, uint64_t least, uint64_t *ret, struct spoor_error *e);
/*
 * -o of what is recorded, into PATH_MAX bytes. Slashes at its end are no part of the name: others are made of it, for
 * what is to be beside the trace and not in it.
 */
int spoor_option_trace(const char *arg, char *ret, struct spoor_error *e);

/* Of WORD, where several verbs have the option. */
extern const char *const spoor_format_words[]; /* text, json */
