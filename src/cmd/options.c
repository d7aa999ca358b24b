/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cmd/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/strings.h"
#include "cmd/cmd.h"

#define LONG_ONLY 256 /* + place in the table: what getopt_long() returns for an option without a letter */

const char *const spoor_format_words[] = { "text", "json", NULL };

/* ---- values ---- */

int spoor_option_size(const char *called, const char *arg, uint64_t least, uint64_t *ret, struct spoor_error *e)
{
	uint64_t n;

	if (spoor_parse_size(arg, &n) || n < least)
		return spoor_fail(e, EINVAL, "%s %s: a size of at least %lu%c, such as 64M", called, arg,
				  least >> 20 ? least >> 20 : least >> 10, least >> 20 ? 'M' : 'k');
	*ret = n;
	return 0;
}

/* --rotate 64M or --rotate 10s */
int spoor_option_rotate(const char *arg, uint64_t *ret_size, uint64_t *ret_ns, struct spoor_error *e)
{
	uint64_t n;

	if (strpbrk(arg, "smh") && !spoor_parse_duration(arg, &n) && n) {
		*ret_ns = n;
		return 0;
	}
	if (!spoor_parse_size(arg, &n) && n >= 1 << 20) {
		*ret_size = n;
		return 0;
	}
	return spoor_fail(e, EINVAL, "--rotate %s: a size (at least 1M) or a time such as 10s", arg);
}

int spoor_option_trace(const char *arg, char *ret, struct spoor_error *e)
{
	size_t n = strlen(arg);

	while (n > 1 && arg[n - 1] == '/')
		n--;
	if (!n || n >= PATH_MAX)
		return spoor_fail(e, EINVAL, "-o: %s", n ? "the name is too long" : "an empty name");
	memcpy(ret, arg, n);
	ret[n] = '\0';
	return 0;
}

static int take_count(const struct spoor_option *o, const char *called, const char *arg, uint64_t *ret,
		      struct spoor_error *e)
{
	if (!spoor_parse_number(arg, o->least, o->most, ret))
		return 0;
	return spoor_fail(e, EINVAL, "%s %s: a number from %lu to %lu", called, arg, o->least, o->most);
}

static int take_duration(const struct spoor_option *o, const char *called, const char *arg, uint64_t *ret,
			 struct spoor_error *e)
{
	int r = spoor_parse_duration(arg, ret);

	if (!r && *ret >= o->least)
		return 0;
	if (r == -ERANGE)
		return spoor_fail(e, EINVAL, "%s %s: longer than 292 years", called, arg);
	return spoor_fail(e, EINVAL, "%s %s: a time such as 10s, 500ms or 2m", called, arg);
}

/* "time, calls or max" */
static void list_words(const char *const *words, size_t n, char *buf, size_t size)
{
	size_t at = 0;

	for (size_t i = 0; i < n && at < size; i++)
		at += (size_t)snprintf(buf + at, size - at, "%s%s", !i ? "" : i + 1 < n ? ", " : " or ", words[i]);
}

static int take_word(const struct spoor_option *o, const char *called, const char *arg, uint64_t *ret,
		     struct spoor_error *e)
{
	const char *nearest;
	char list[128] = "";
	size_t n;

	for (n = 0; o->words[n]; n++) {
		if (!strcmp(arg, o->words[n])) {
			*ret = o->least + n;
			return 0;
		}
	}
	list_words(o->words, n, list, sizeof(list));
	nearest = spoor_nearest(arg, o->words, n);
	if (nearest)
		return spoor_fail(e, EINVAL, "%s %s: there is no '%s', only %s; did you mean '%s'?", called, arg, arg,
				  list, nearest);
	return spoor_fail(e, EINVAL, "%s %s: there is no '%s', only %s", called, arg, arg, list);
}

static void store(const struct spoor_option *o, void *at, uint64_t value)
{
	if (o->size == sizeof(uint8_t))
		*(uint8_t *)at = (uint8_t)value;
	else if (o->size == sizeof(uint32_t))
		*(uint32_t *)at = (uint32_t)value;
	else
		*(uint64_t *)at = value;
}

/* called: as what the user gave it. */
static int take(const struct spoor_option *o, const char *called, const char *arg, void *to, struct spoor_error *e)
{
	void *at = (char *)to + o->at;
	uint64_t value = 1;
	int r = 0;

	if (o->take)
		return o->take(at, arg, e);
	switch (o->kind) {
	case SPOOR_OPTION_TEXT:
		if (!*arg)
			return spoor_fail(e, EINVAL, "%s: an empty value", called);
		*(const char **)at = arg;
		return 0;
	case SPOOR_OPTION_COUNT:
		r = take_count(o, called, arg, &value, e);
		break;
	case SPOOR_OPTION_SIZE:
		r = spoor_option_size(called, arg, o->least, &value, e);
		break;
	case SPOOR_OPTION_DURATION:
		r = take_duration(o, called, arg, &value, e);
		break;
	case SPOOR_OPTION_WORD:
		r = take_word(o, called, arg, &value, e);
		break;
	case SPOOR_OPTION_FLAG:
	case SPOOR_OPTION_OWN:
		break;
	}
	if (!r)
		store(o, at, value);
	return r;
}

/* ---- the command line ---- */

struct getopt_table {
	struct option longs[SPOOR_MAX_OPTIONS + 2];
	char letters[3 * SPOOR_MAX_OPTIONS + 4];
};

static int argument_of(const struct spoor_option *o)
{
	return o->kind == SPOOR_OPTION_FLAG ? no_argument : o->optional ? optional_argument : required_argument;
}

static void describe(const struct spoor_command_line *l, struct getopt_table *t)
{
	char *letter = t->letters;
	size_t n;

	*t = (struct getopt_table){};
	letter = stpcpy(letter, l->has_command ? "+:h" : ":h");
	for (n = 0; n < SPOOR_MAX_OPTIONS && l->options[n].name; n++) {
		const struct spoor_option *o = &l->options[n];

		t->longs[n] = (struct option){ o->name, argument_of(o), NULL, LONG_ONLY + (int)n };
		if (!o->letter)
			continue;
		*letter++ = o->letter;
		if (o->kind != SPOOR_OPTION_FLAG)
			*letter++ = ':';
	}
	t->longs[n] = (struct option){ "help", no_argument, NULL, 'h' };
}

static const struct spoor_option *find(const struct spoor_command_line *l, int c)
{
	const struct spoor_option *o = l->options;

	if (c >= LONG_ONLY)
		return o + (c - LONG_ONLY);
	while (o->name && o->letter != c)
		o++;
	return o;
}

/* arg: what getopt_long() came past last; that is not the one where a letter's group is not at its end. */
static int wrong_option(const struct spoor_command_line *l, int c, const char *arg, struct spoor_error *e)
{
	char letter[] = { '-', (char)optopt, '\0' };

	if (optopt && optopt < LONG_ONLY && optopt != 'h') /* -h is never wrong: that is --help=1 */
		arg = letter;
	if (!l->options[0].name)
		return spoor_fail(e, EINVAL, "'%s': it has no options but -h", arg);
	return spoor_fail(e, EINVAL, "%s '%s'; 'spoor %s -h' lists the options",
			  c == ':' ? "a value is missing after" : "wrong option", arg, l->verb);
}

int spoor_options_parse(const struct spoor_command_line *l, int argc, char **argv, void *to, uint64_t *ret_given,
			struct spoor_error *e)
{
	struct getopt_table t;
	uint64_t given = 0;
	char called[64];

	describe(l, &t);
	opterr = 0; /* one line, and it is ours */
	for (int c; (c = getopt_long(argc, argv, t.letters, t.longs, NULL)) != -1;) {
		const struct spoor_option *o;
		int r;

		if (c == 'h')
			return 1;
		if (c == '?' || c == ':')
			return wrong_option(l, c, argv[optind - 1], e);
		o = find(l, c);
		if (c >= LONG_ONLY)
			snprintf(called, sizeof(called), "--%s", o->name);
		else
			snprintf(called, sizeof(called), "-%c", c);
		r = take(o, called, optarg, to, e);
		if (r < 0)
			return r;
		given |= UINT64_C(1) << (o - l->options);
	}
	if (ret_given)
		*ret_given = given;
	return 0;
}

int spoor_options_trace(const struct spoor_command_line *l, int argc, char **argv, const char **ret,
			struct spoor_error *e)
{
	if (optind == argc)
		return spoor_fail(e, EINVAL, "which trace? spoor %s NAME.spoor", l->verb);
	if (optind + 1 < argc)
		return spoor_fail(e, EINVAL, "which trace? One at a time: '%s' is one too many", argv[optind + 1]);
	*ret = argv[optind];
	return 0;
}

void spoor_cmd_say(const char *verb, const char *text)
{
	char shown[4096];

	spoor_escape_line(text, strlen(text), shown, sizeof(shown));
	fprintf(stderr, "spoor %s: %s\n", verb, shown);
}

int spoor_cmd_misuse(const char *verb, const struct spoor_error *e)
{
	spoor_cmd_say(verb, e->text);
	return SPOOR_EXIT_USAGE;
}
