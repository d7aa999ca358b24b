/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/scope.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings.h"
#include "trace/record.h"

#define BLANKS " \t"
_Static_assert(SPOOR_SCOPE_MAX_LIMIT == SPOOR_MAX_FRAMES, "");

struct quoted {
	char text[96];
};

static struct quoted quote(const char *s, size_t len)
{
	struct quoted q;

	spoor_escape_terminal(s, len, q.text, sizeof(q.text));
	return q;
}

/* Leaves out blanks at both ends. */
static void trim(const char **s, size_t *len)
{
	while (*len && strchr(BLANKS, **s)) {
		++*s;
		--*len;
	}
	while (*len && strchr(BLANKS, (*s)[*len - 1]))
		--*len;
}

static int parse_pattern(struct spoor_scope_rule *rule, const char *option, const char *s, size_t len,
			 struct spoor_error *e)
{
	trim(&s, &len);
	if (!len)
		return spoor_fail(e, EINVAL, "%s: empty pattern", option);
	if (len > SPOOR_SCOPE_MAX_PATTERN)
		return spoor_fail(e, EINVAL, "%s: '%s...': a pattern has at most %d characters", option,
				  quote(s, 32).text, SPOOR_SCOPE_MAX_PATTERN);
	memcpy(rule->pattern, s, len);
	rule->pattern[len] = '\0';
	return 0;
}

static int parse_limit(const char *s, size_t len, unsigned *ret)
{
	unsigned limit = 0;

	trim(&s, &len);
	if (!len)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -EINVAL;
		limit = limit * 10 + (s[i] - '0');
		if (limit > SPOOR_SCOPE_MAX_LIMIT)
			return -ERANGE;
	}
	*ret = limit;
	return 0;
}

/* "libssl*=1". The last "=" counts: a glob may hold one. */
static int parse_scope_rule(struct spoor_scope_rule *rule, const char *option, const char *s, size_t len,
			    struct spoor_error *e)
{
	const char *equals = memrchr(s, '=', len), *limit;

	if (!equals)
		return spoor_fail(e, EINVAL, "%s: '%s': write PATTERN=NUMBER, the call sites to take of such an object",
				  option, quote(s, len).text);
	limit = equals + 1;
	if (parse_limit(limit, s + len - limit, &rule->limit))
		return spoor_fail(e, EINVAL, "%s: '%s': '%s' is not a number from 0 to %d", option, quote(s, len).text,
				  quote(limit, s + len - limit).text, SPOOR_SCOPE_MAX_LIMIT);
	return parse_pattern(rule, option, s, equals - s, e);
}

static int parse_app_rule(struct spoor_scope_rule *rule, const char *option, const char *s, size_t len,
			  struct spoor_error *e)
{
	rule->limit = 1;
	return parse_pattern(rule, option, s, len, e);
}

typedef int parse_rule_fn(struct spoor_scope_rule *rule, const char *option, const char *s, size_t len,
			  struct spoor_error *e);

/* Behind the old rules, which stay as they are if anything fails. */
static int append(struct spoor_scope *scope, const char *list, const char *option, parse_rule_fn *parse_rule,
		  struct spoor_error *e)
{
	_cleanup_(spoor_freep) struct spoor_scope_rule *rules = calloc(SPOOR_SCOPE_MAX_RULES, sizeof(*rules));
	size_t n = scope->n;

	if (!rules)
		return spoor_fail(e, ENOMEM, "%s: out of memory", option);
	if (n)
		memcpy(rules, scope->rules, n * sizeof(*rules));
	for (const char *s = list;; s++) {
		size_t len = strcspn(s, ",");
		int err;

		if (n == SPOOR_SCOPE_MAX_RULES)
			return spoor_fail(e, EINVAL, "%s: more than %d patterns", option, SPOOR_SCOPE_MAX_RULES);
		err = parse_rule(&rules[n], option, s, len, e);
		if (err)
			return err;
		n++;
		s += len;
		if (!*s)
			break;
	}
	free(scope->rules);
	scope->rules = TAKE_PTR(rules);
	scope->n = n;
	return 0;
}

int spoor_scope_parse(struct spoor_scope *s, const char *list, struct spoor_error *e)
{
	return append(s, list, "--scope", parse_scope_rule, e);
}

int spoor_app_parse(struct spoor_scope *s, const char *list, struct spoor_error *e)
{
	return append(s, list, "--app", parse_app_rule, e);
}

void spoor_scope_done(struct spoor_scope *s)
{
	if (!s)
		return;
	free(s->rules);
	*s = (struct spoor_scope){ 0 };
}

int spoor_scope_copy(const struct spoor_scope *s, struct spoor_scope *ret)
{
	struct spoor_scope_rule *rules = calloc(SPOOR_SCOPE_MAX_RULES, sizeof(*rules));

	if (!rules)
		return -ENOMEM;
	if (s->n)
		memcpy(rules, s->rules, s->n * sizeof(*rules));
	*ret = (struct spoor_scope){ .rules = rules, .n = s->n };
	return 0;
}

static bool matches(const char *pattern, const char *path, bool is_main)
{
	const char *name = strchr(pattern, '/') ? path : spoor_basename(path);

	if (!strcmp(pattern, "main"))
		return is_main;
	return !strcmp(pattern, name) || !fnmatch(pattern, name, 0);
}

unsigned spoor_scope_limit(const struct spoor_scope *s, const char *path, bool is_main)
{
	for (size_t i = 0; i < s->n; i++)
		if (matches(s->rules[i].pattern, path, is_main))
			return s->rules[i].limit;
	return 0;
}

int spoor_app_match(const struct spoor_scope *s, const char *path, bool is_main)
{
	return s->n ? spoor_scope_limit(s, path, is_main) : is_main;
}
