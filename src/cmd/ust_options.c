/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cmd/ust_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings.h"
#include "base/time.h"
#include "cmd/target_options.h"
#include "collect/session/filter.h"

_Static_assert(UST_MOST_FILTER == sizeof(((struct spoor_control_rule *)NULL)->filter) - 1, "");
_Static_assert((int)SPOOR_STACK_APP == SPOOR_MODE_APP && (int)SPOOR_STACK_CUSTOM == SPOOR_MODE_CUSTOM, "");

#define MOST_SHARE 1000
#define DEFAULT_PACKET 65536

void spoor_ust_options_init(struct spoor_ust_cmd_options *o)
{
	memset(o, 0, sizeof(*o));
	o->level = SPOOR_LEVEL_NONE;
	o->s.n_channels = 1;
	o->s.channels[0] = (struct spoor_control_channel){ .name = "default", .mode = SPOOR_ARENA_DISCARD, .share = 1 };
}

/* ---- events ---- */

bool spoor_ust_may_be_events(const char *pattern)
{
	pattern += *pattern == '!';
	return strpbrk(pattern, ":*?") && *pattern != '!' && (*pattern < '0' || *pattern > '9');
}

int spoor_ust_rule_option(const char *pattern, bool enable, struct spoor_ust_rule *ret, struct spoor_error *e)
{
	*ret = (struct spoor_ust_rule){ .rule = { .enable = enable, .channels = 1, .level = SPOOR_LEVEL_NONE } };
	if (!spoor_ust_may_be_events(pattern) || strlen(pattern) >= sizeof(ret->rule.pattern))
		return spoor_fail(e, EINVAL, "-e %s: a name such as server:request, * and ? stand for any characters",
				  pattern);
	if (*pattern == '!') {
		ret->rule.enable = !enable;
		pattern++;
	}
	strcpy(ret->rule.pattern, pattern);
	return 0;
}

int spoor_take_ust_event(void *options, const char *arg, struct spoor_error *e)
{
	struct spoor_ust_cmd_options *o = options;
	int r;

	if (o->n_rules == SPOOR_UST_OPTION_RULES)
		return spoor_fail(e, E2BIG, "more than %d events", SPOOR_UST_OPTION_RULES);
	r = spoor_ust_rule_option(arg, true, &o->rules[o->n_rules], e);
	if (r)
		return r;
	o->rules[o->n_rules++].rule.channels = 1U << o->channel;
	return 0;
}

static const char *const levels[] = { "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug" };

int spoor_take_ust_level(void *level, const char *arg, struct spoor_error *e)
{
	uint8_t *ret = level;
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

const char *spoor_ust_level_name(unsigned level)
{
	static const char *const between[] = { "7", "8", "9", "10", "11", "12", "13" };

	if (level > 14)
		return NULL;
	return level < 7 ? levels[level] : level == 14 ? levels[7] : between[level - 7];
}

int spoor_take_ust_filter(void *filter, const char *arg, struct spoor_error *e)
{
	if (strlen(arg) > UST_MOST_FILTER)
		return spoor_fail(e, EINVAL, "--filter: " UST_LONG_FILTER);
	*(const char **)filter = arg;
	return spoor_ust_filter_check(arg, e);
}

/* ---- channels ---- */

static struct spoor_control_channel *channel_of(struct spoor_ust_cmd_options *o)
{
	return &o->s.channels[o->channel];
}

/* "discard", "overwrite", "block" or "block=10ms". */
int spoor_take_ust_mode(void *options, const char *arg, struct spoor_error *e)
{
	struct spoor_control_channel *c = channel_of(options);
	uint64_t ns = 100 * 1000000ULL;

	if (!strcmp(arg, "discard")) {
		c->mode = SPOOR_ARENA_DISCARD;
	} else if (!strcmp(arg, "overwrite")) {
		c->mode = SPOOR_ARENA_OVERWRITE;
	} else if (!strncmp(arg, "block", 5) && (!arg[5] || (arg[5] == '=' && !spoor_parse_duration(arg + 6, &ns)))) {
		c->mode = SPOOR_ARENA_BLOCK;
		if (!ns || ns > UST_MOST_BLOCK_US * 1000ULL)
			return spoor_fail(e, EINVAL, "--mode %s: " UST_NOT_BLOCK, arg);
		c->block_us = ns / 1000 ? ns / 1000 : 1;
	} else {
		return spoor_fail(e, EINVAL, "--mode %s: " UST_NOT_MODE, arg);
	}
	return 0;
}

#define PERF_CONTEXT(bit, name, field, type, config) [bit] = "perf:" name,
static const char *const context_names[] = { "vpid", "vtid", "procname", "ip", "cpu", "callstack",
					     SPOOR_PERF_CONTEXTS(PERF_CONTEXT) };
#define N_CONTEXTS (sizeof(context_names) / sizeof(*context_names))

const char *spoor_ust_context_name(unsigned bit)
{
	return bit < N_CONTEXTS ? context_names[bit] : NULL;
}

static int wrong_context(const char *word, struct spoor_error *e)
{
	char known[512] = "";
	size_t n = 0;

	for (unsigned i = 0; i < N_CONTEXTS; i++)
		if (context_names[i])
			n += snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "", context_names[i]);
	return spoor_fail(e, EINVAL, "--context %s: %s", word, known);
}

int spoor_take_ust_contexts(void *contexts, const char *arg, struct spoor_error *e)
{
	char list[512], *next = list, *word;
	uint32_t *ret = contexts;

	if (strlen(arg) >= sizeof(list))
		return spoor_fail(e, EINVAL, "--context: too long");
	strcpy(list, arg);
	while ((word = strsep(&next, ",+"))) {
		unsigned i = 0;

		while (i < N_CONTEXTS && (!context_names[i] || strcmp(word, context_names[i])))
			i++;
		if (i == N_CONTEXTS)
			return wrong_context(word, e);
		*ret |= 1u << i;
	}
	return 0;
}

/* "app-all", "all,64" */
int spoor_take_ust_stack(void *options, const char *arg, struct spoor_error *e)
{
	struct spoor_control_channel *c = channel_of(options);
	size_t len = strcspn(arg, ",");
	uint64_t budget = 0;
	char word[16];
	int mode;

	snprintf(word, sizeof(word), "%.*s", (int)len, arg);
	mode = spoor_mode_parse(word, e);
	if (mode < 0)
		return mode;
	if (mode == SPOOR_MODE_NONE)
		return spoor_fail(e, EINVAL, "--stack %s: app, app-all, lib, all or custom", arg);
	if (arg[len] && spoor_parse_number(arg + len + 1, 1, SPOOR_ARENA_MAX_FRAMES, &budget))
		return spoor_fail(e, EINVAL, "--stack %s: behind the comma, from 1 to %d call sites", arg,
				  SPOOR_ARENA_MAX_FRAMES);
	c->stack_mode = mode;
	c->stack_budget = budget;
	c->contexts |= SPOOR_CONTEXT_STACK;
	return 0;
}

/* Checked here, for whoever typed it; the session parses it again. */
static int add_patterns(char *list, size_t size, const char *arg,
			int (*parse)(struct spoor_scope *s, const char *list, struct spoor_error *e),
			struct spoor_error *e)
{
	struct spoor_scope scope = {};
	size_t n = strlen(list);
	int r = parse(&scope, arg, e);

	spoor_scope_done(&scope);
	if (r)
		return r;
	if (n + 1 + strlen(arg) >= size)
		return spoor_fail(e, E2BIG, "--app, --scope: patterns have at most %zu characters in all", size - 1);
	snprintf(list + n, size - n, "%s%s", n ? "," : "", arg);
	return 0;
}

int spoor_take_ust_app(void *options, const char *arg, struct spoor_error *e)
{
	struct spoor_ust_cmd_options *o = options;

	return add_patterns(o->app, sizeof(o->app), arg, spoor_app_parse, e);
}

int spoor_take_ust_scope(void *options, const char *arg, struct spoor_error *e)
{
	struct spoor_ust_cmd_options *o = options;

	channel_of(o)->stack_mode = SPOOR_STACK_CUSTOM;
	channel_of(o)->contexts |= SPOOR_CONTEXT_STACK;
	return add_patterns(o->scope, sizeof(o->scope), arg, spoor_scope_parse, e);
}

bool spoor_ust_options_shape(const struct spoor_ust_cmd_options *o)
{
	bool says = o->s.buffers || o->s.max_size || o->s.segment_size || o->s.segment_ns || *o->app || *o->scope;

	for (unsigned i = 0; i < o->s.n_channels; i++) {
		const struct spoor_control_channel *c = &o->s.channels[i];

		says |= c->mode || c->packet_size || c->share > 1 || c->block_us || c->contexts || c->stack_mode;
	}
	return says;
}

uint32_t spoor_ust_options_contexts(const struct spoor_ust_cmd_options *o)
{
	uint32_t contexts = 0;

	for (unsigned i = 0; i < o->s.n_channels; i++)
		contexts |= o->s.channels[i].contexts;
	return contexts;
}

/* As programs divide their buffers, and recorders take them. */
static int check_packets(const struct spoor_ust_cmd_options *o, struct spoor_error *e)
{
	uint64_t buffers = o->s.buffers ?: UST_BUFFERS, shares = 0, packets = 0;

	for (unsigned i = 0; i < o->s.n_channels; i++)
		shares += o->s.channels[i].share;
	for (unsigned i = 0; i < o->s.n_channels; i++) {
		const struct spoor_control_channel *c = &o->s.channels[i];
		uint64_t bytes = buffers / shares * c->share;

		if (bytes / (c->packet_size ?: SPOOR_ARENA_MIN_PACKET) < 2)
			return spoor_fail(e, EINVAL,
					  "channel %s: its share of the buffers is less than two packets: larger "
					  "--buffers, or a smaller --packet",
					  c->name);
		packets += bytes / (c->packet_size ?: DEFAULT_PACKET);
	}
	return packets <= SPOOR_ARENA_MOST_PACKETS ?
		       0 :
		       spoor_fail(e, EINVAL, "--buffers: more than %u packets: smaller ones, or a larger --packet",
				  SPOOR_ARENA_MOST_PACKETS);
}

int spoor_ust_options_check(struct spoor_ust_cmd_options *o, struct spoor_error *e)
{
	bool custom = false;

	for (unsigned i = 0; i < o->s.n_channels; i++)
		custom |= o->s.channels[i].stack_mode == SPOOR_STACK_CUSTOM;
	o->s.app = o->app;
	o->s.scope = o->scope;
	if (custom && !*o->scope)
		return spoor_fail(e, EINVAL, "--stack custom needs --scope");
	if (!custom && *o->scope)
		return spoor_fail(e, EINVAL, "--scope goes with --stack custom alone");
	return check_packets(o, e);
}

int spoor_take_ust_context(void *options, const char *arg, struct spoor_error *e)
{
	return spoor_take_ust_contexts(&channel_of(options)->contexts, arg, e);
}

int spoor_take_ust_packet(void *options, const char *arg, struct spoor_error *e)
{
	uint64_t n = 0;

	if (spoor_parse_size(arg, &n) || n < SPOOR_ARENA_MIN_PACKET || n > SPOOR_ARENA_MAX_PACKET || n % 4096)
		return spoor_fail(e, EINVAL, "--packet %s: from 4k to 1M, a multiple of 4k", arg);
	channel_of(options)->packet_size = n;
	return 0;
}

static int take_share(struct spoor_ust_cmd_options *o, const char *arg, struct spoor_error *e)
{
	uint64_t n;

	if (spoor_parse_number(arg, 1, MOST_SHARE, &n))
		return spoor_fail(e, EINVAL, "--channel share=%s: from 1 to %d, beside those of other channels", arg,
				  MOST_SHARE);
	channel_of(o)->share = n;
	return 0;
}

/* "mode=block", of a channel. */
static int take_property(struct spoor_ust_cmd_options *o, char *word, struct spoor_error *e)
{
	char *value = strchr(word, '=');

	if (!value)
		return spoor_fail(e, EINVAL, "--channel ...%s: NAME:mode=MODE,packet=SIZE,share=N,context=NAME+NAME",
				  word);
	*value++ = '\0';
	o->defined |= 1U << o->channel;
	if (!strcmp(word, "mode"))
		return spoor_take_ust_mode(o, value, e);
	if (!strcmp(word, "packet"))
		return spoor_take_ust_packet(o, value, e);
	if (!strcmp(word, "share"))
		return take_share(o, value, e);
	if (!strcmp(word, "context"))
		return spoor_take_ust_context(o, value, e);
	return spoor_fail(e, EINVAL, "--channel: there is no '%s', only mode, packet, share and context", word);
}

static bool is_channel_name(const char *s)
{
	return *s && strlen(s) < sizeof(((struct spoor_control_channel *)NULL)->name) &&
	       s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")] == '\0';
}

/* The first one takes the place of the channel that there is without any. */
static int choose_channel(struct spoor_ust_cmd_options *o, const char *name, struct spoor_error *e)
{
	unsigned n = o->s.n_channels;

	if (!is_channel_name(name))
		return spoor_fail(e, EINVAL, "--channel %s: a name of letters, digits, _ . and -, at most 31", name);
	for (unsigned i = 0; i < n && o->named; i++)
		if (!strcmp(o->s.channels[i].name, name)) {
			o->channel = i;
			return 0;
		}
	if (o->named && n == SPOOR_ARENA_MAX_CHANNELS)
		return spoor_fail(e, EINVAL, "--channel %s: a session has at most %d", name, SPOOR_ARENA_MAX_CHANNELS);
	o->channel = o->named ? n : 0;
	if (o->named)
		o->s.channels[o->s.n_channels++] = (struct spoor_control_channel){ .share = 1 };
	strcpy(o->s.channels[o->channel].name, name);
	o->named = true;
	return 0;
}

int spoor_take_ust_channel(void *options, const char *arg, struct spoor_error *e)
{
	struct spoor_ust_cmd_options *o = options;
	char copy[256], *properties, *word;
	int r;

	if (strlen(arg) >= sizeof(copy))
		return spoor_fail(e, EINVAL, "--channel: too long");
	strcpy(copy, arg);
	properties = strchr(copy, ':');
	if (properties)
		*properties++ = '\0';
	r = choose_channel(o, copy, e);
	while (!r && (word = strsep(&properties, ",")))
		r = take_property(o, word, e);
	return r;
}

/* ---- the trace ---- */

int spoor_take_ust_output(void *output, const char *arg, struct spoor_error *e)
{
	return spoor_option_trace(arg, output, e);
}

int spoor_take_ust_rotate(void *session, const char *arg, struct spoor_error *e)
{
	struct spoor_ust_options *s = session;

	return spoor_option_rotate(arg, &s->segment_size, &s->segment_ns, e);
}

int spoor_take_ust_buffers(void *buffers, const char *arg, struct spoor_error *e)
{
	uint64_t *ret = buffers;
	int r = spoor_option_size("--buffers", arg, UST_LEAST_BUFFERS, ret, e);

	if (!r && *ret > UST_MOST_BUFFERS)
		r = spoor_fail(e, EINVAL, "--buffers %s: " UST_NOT_BUFFERS, arg);
	return r;
}

/* ---- after the last ---- */

void spoor_ust_options_settle(struct spoor_ust_cmd_options *o)
{
	if (!o->n_rules || !o->rules[0].rule.enable) { /* "all but" begins with all */
		uint8_t channels = o->n_rules ? o->rules[0].rule.channels : 1;

		memmove(&o->rules[1], &o->rules[0], o->n_rules++ * sizeof(o->rules[0]));
		spoor_ust_rule_option("*", true, &o->rules[0], NULL);
		o->rules[0].rule.channels = channels;
	}
	for (unsigned i = 0; i < o->n_rules; i++) {
		if (!o->rules[i].rule.enable)
			continue;
		o->rules[i].rule.level = o->level;
		if (o->filter)
			strcpy(o->rules[i].rule.filter, o->filter);
	}
}
