/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cmd/ust_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/strings.h"
#include "base/time.h"
#include "cmd/target_options.h"

#define LEAST_BUFFERS (64u << 10)
#define MOST_BUFFERS (2ULL << 30)

void spoor_ust_options_init(struct spoor_ust_cmd_options *o)
{
	memset(o, 0, sizeof(*o));
	o->level = SPOOR_LEVEL_NONE;
	o->s.n_channels = 1;
	o->s.channels[0] = (struct spoor_control_channel){ .name = "default", .mode = SPOOR_ARENA_DISCARD, .share = 1 };
}

int spoor_ust_rule_option(const char *pattern, uint32_t pid, bool enable, struct spoor_ust_rule *ret,
			  struct spoor_error *e)
{
	*ret = (struct spoor_ust_rule){ .pid = pid, .rule = { .enable = enable, .level = SPOOR_LEVEL_NONE } };
	if (*pattern == '!') {
		ret->rule.enable = !enable;
		pattern++;
	}
	if (!*pattern || strlen(pattern) >= sizeof(ret->rule.pattern))
		return spoor_fail(e, EINVAL, "-e %s: a name such as server:request, * and ? stand for any characters",
				  pattern);
	strcpy(ret->rule.pattern, pattern);
	return 0;
}

static int add_rule(struct spoor_ust_cmd_options *o, const char *arg, struct spoor_error *e)
{
	int r;

	if (o->n_rules == SPOOR_UST_OPTION_RULES)
		return spoor_fail(e, E2BIG, "-e: at most %d at once", SPOOR_UST_OPTION_RULES);
	r = spoor_ust_rule_option(arg, 0, true, &o->rules[o->n_rules], e);
	o->n_rules += !r;
	return r;
}

static const char *const levels[] = { "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug" };

static int parse_level(const char *arg, uint8_t *ret, struct spoor_error *e)
{
	uint64_t n;

	for (unsigned i = 0; i < sizeof(levels) / sizeof(*levels); i++)
		if (!strcmp(arg, levels[i])) {
			*ret = i == 7 ? 14 : i;
			return 0;
		}
	if (spoor_parse_number(arg, 0, 14, &n))
		return spoor_fail(e, EINVAL, "-l %s: emerg, alert, crit, err, warning, notice, info, debug, or 0 to 14",
				  arg);
	*ret = n;
	return 0;
}

/* "discard", "overwrite", "block" or "block=10ms". */
static int parse_mode(const char *arg, struct spoor_control_channel *c, struct spoor_error *e)
{
	uint64_t ns = 100 * 1000000ULL;

	if (!strcmp(arg, "discard")) {
		c->mode = SPOOR_ARENA_DISCARD;
	} else if (!strcmp(arg, "overwrite")) {
		c->mode = SPOOR_ARENA_OVERWRITE;
	} else if (!strncmp(arg, "block", 5) && (!arg[5] || (arg[5] == '=' && !spoor_parse_duration(arg + 6, &ns)))) {
		c->mode = SPOOR_ARENA_BLOCK;
		if (!ns || ns > 60 * SPOOR_NS_PER_SEC)
			return spoor_fail(e, EINVAL, "--mode %s: from 1us to 60s", arg);
		c->block_us = ns / 1000 ? ns / 1000 : 1;
	} else {
		return spoor_fail(e, EINVAL, "--mode %s: discard, overwrite, block, or block=TIME", arg);
	}
	return 0;
}

int spoor_take_ust_contexts(void *contexts, const char *arg, struct spoor_error *e)
{
	static const char *const names[] = { "vpid", "vtid", "procname", "ip", "cpu", "callstack" };
	char list[128], *next = list, *word;
	uint32_t *ret = contexts;

	if (strlen(arg) >= sizeof(list))
		return spoor_fail(e, EINVAL, "--context: too long");
	strcpy(list, arg);
	while ((word = strsep(&next, ","))) {
		unsigned i = 0;

		while (i < 6 && strcmp(word, names[i]))
			i++;
		if (i == 6)
			return spoor_fail(e, EINVAL, "--context %s: vpid, vtid, procname, ip, cpu, callstack", arg);
		*ret |= 1u << i;
	}
	return 0;
}

static int parse_rotate(const char *arg, struct spoor_ust_options *s, struct spoor_error *e)
{
	uint64_t n;

	if (strpbrk(arg, "smh") && !spoor_parse_duration(arg, &n) && n) {
		s->segment_ns = n;
		return 0;
	}
	if (!spoor_parse_size(arg, &n) && n >= 1 << 20) {
		s->segment_size = n;
		return 0;
	}
	return spoor_fail(e, EINVAL, "--rotate %s: a size (at least 1M) or a time such as 10s", arg);
}

static int parse_buffers(const char *arg, uint64_t *ret, struct spoor_error *e)
{
	int r = spoor_option_size("--buffers", arg, LEAST_BUFFERS, ret, e);

	if (!r && *ret > MOST_BUFFERS)
		r = spoor_fail(e, EINVAL, "--buffers %s: at most 2G a program", arg);
	return r;
}

static int parse_packet(const char *arg, uint32_t *ret, struct spoor_error *e)
{
	uint64_t n = 0;

	if (spoor_parse_size(arg, &n) || n < SPOOR_ARENA_MIN_PACKET || n > SPOOR_ARENA_MAX_PACKET || n % 4096)
		return spoor_fail(e, EINVAL, "--packet %s: from 4k to 1M, a multiple of 4k", arg);
	*ret = n;
	return 0;
}

int spoor_ust_option(int c, const char *arg, struct spoor_ust_cmd_options *o, struct spoor_error *e)
{
	struct spoor_control_channel *channel = &o->s.channels[0];
	int r;

	switch (c) {
	case 'e':
		r = add_rule(o, arg, e);
		break;
	case 'l':
		r = parse_level(arg, &o->level, e);
		break;
	case 'o':
		if (!*arg)
			return spoor_fail(e, EINVAL, "-o: an empty name");
		snprintf(o->output, sizeof(o->output), "%s", arg);
		r = 0;
		break;
	case SPOOR_UST_OPT_FILTER:
		if (strlen(arg) >= sizeof(o->rules[0].rule.filter))
			return spoor_fail(e, EINVAL, "--filter: longer than %zu characters",
					  sizeof(o->rules[0].rule.filter) - 1);
		o->filter = arg;
		r = 0;
		break;
	case SPOOR_UST_OPT_BUFFERS:
		r = parse_buffers(arg, &o->s.buffers, e);
		break;
	case SPOOR_UST_OPT_PACKET:
		r = parse_packet(arg, &channel->packet_size, e);
		break;
	case SPOOR_UST_OPT_MODE:
		r = parse_mode(arg, channel, e);
		break;
	case SPOOR_UST_OPT_CONTEXT:
		r = spoor_take_ust_contexts(&channel->contexts, arg, e);
		break;
	case SPOOR_UST_OPT_MAX_SIZE:
		r = spoor_option_size("--max-size", arg, 4 << 20, &o->s.max_size, e);
		break;
	case SPOOR_UST_OPT_ROTATE:
		r = parse_rotate(arg, &o->s, e);
		break;
	default:
		return 0;
	}
	return r ? r : 1;
}

void spoor_ust_options_settle(struct spoor_ust_cmd_options *o)
{
	if (!o->n_rules || !o->rules[0].rule.enable) { /* "all but" begins with all */
		unsigned n = o->n_rules < SPOOR_UST_OPTION_RULES ? o->n_rules : SPOOR_UST_OPTION_RULES - 1;

		memmove(&o->rules[1], &o->rules[0], n * sizeof(o->rules[0]));
		spoor_ust_rule_option("*", 0, true, &o->rules[0], NULL);
		o->n_rules = n + 1;
	}
	for (unsigned i = 0; i < o->n_rules; i++) {
		if (!o->rules[i].rule.enable)
			continue;
		o->rules[i].rule.level = o->level;
		if (o->filter)
			strcpy(o->rules[i].rule.filter, o->filter);
	}
}
