/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A session's rules: which events of which programs, which of these record, and what a program is told of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ust/filter_core.h"
#include "base/process.h"
#include "collect/user/session.h"

/* The library parses it again; what is none is told here, once. */
int spoor_ust_filter_check(const char *text, struct spoor_error *e)
{
	struct filter parsed;
	const char *at, *wrong = filter_parse(text, &parsed, &at);

	return wrong ? spoor_fail(e, EINVAL, "--filter: %s at '%.40s'", wrong, *at ? at : "the end") : 0;
}

static void remove_rule(struct spoor_ust_session *s, size_t i)
{
	memmove(&s->rules[i], &s->rules[i + 1], (--s->n_rules - i) * sizeof(*s->rules));
}

int spoor_ust_session_rule(struct spoor_ust_session *s, const struct spoor_ust_rule *rule, struct spoor_error *e)
{
	struct spoor_ust_rule *grown;
	int r = rule->rule.filter[0] ? spoor_ust_filter_check(rule->rule.filter, e) : 0;

	if (r)
		return r;
	/* The last rule that matches decides: of two that are the same, the first says nothing. */
	for (size_t i = 0; i < s->n_rules; i++) {
		const struct spoor_ust_rule *k = &s->rules[i];

		if (k->process.pid != rule->process.pid || k->process.start_time != rule->process.start_time ||
		    strcmp(k->rule.pattern, rule->rule.pattern) ||
		    k->rule.level != rule->rule.level || k->rule.kind != rule->rule.kind ||
		    k->rule.channels != rule->rule.channels)
			continue;
		remove_rule(s, i);
		break;
	}
	grown = s->n_rules < SPOOR_UST_MAX_RULES ? reallocarray(s->rules, s->n_rules + 1, sizeof(*grown)) : NULL;
	if (!grown)
		return s->n_rules < SPOOR_UST_MAX_RULES ?
			       spoor_fail(e, ENOMEM, "out of memory") :
			       spoor_fail(e, E2BIG, "session %s: more than %d rules", s->name, SPOOR_UST_MAX_RULES);
	s->rules = grown;
	s->rules[s->n_rules] = *rule;
	if (!rule->rule.change)
		s->rules[s->n_rules].rule.change = ++s->changes;
	s->n_rules++;
	s->ruled = true;
	return 0;
}

void spoor_ust_session_forget_ended(struct spoor_ust_session *s)
{
	for (size_t i = s->n_rules; i-- > 0;) {
		const struct spoor_ust_process *p = &s->rules[i].process;

		if (p->pid && !spoor_process_runs(p->pid, p->start_time))
			remove_rule(s, i);
	}
	for (size_t i = s->n_singles; i-- > 0;)
		if (!spoor_process_runs(s->singles[i].process.pid, s->singles[i].process.start_time))
			s->singles[i] = s->singles[--s->n_singles];
}

/* NULL: it does as all do. */
static struct spoor_ust_single *find_single(const struct spoor_ust_session *s, const struct spoor_ust_process *p)
{
	for (size_t i = 0; i < s->n_singles; i++)
		if (s->singles[i].process.pid == p->pid && s->singles[i].process.start_time == p->start_time)
			return &s->singles[i];
	return NULL;
}

static int add_single(struct spoor_ust_session *s, const struct spoor_ust_process *p, bool on, struct spoor_error *e)
{
	struct spoor_ust_single *grown;

	if (s->n_singles == SPOOR_UST_MAX_RULES)
		return spoor_fail(e, E2BIG, "session %s: more than %d single processes are started or stopped", s->name,
				  SPOOR_UST_MAX_RULES);
	grown = reallocarray(s->singles, s->n_singles + 1, sizeof(*grown));
	if (!grown)
		return spoor_fail(e, ENOMEM, "out of memory");
	s->singles = grown;
	s->singles[s->n_singles++] = (struct spoor_ust_single){ *p, on };
	return 0;
}

int spoor_ust_session_record(struct spoor_ust_session *s, const struct spoor_ust_process *p, bool on,
			     struct spoor_error *e)
{
	struct spoor_ust_single *single = p ? find_single(s, p) : NULL;

	s->changes++;
	if (p && !single)
		return add_single(s, p, on, e);
	if (single) {
		single->on = on;
		return 0;
	}
	s->recording = on;
	s->recorded = s->changes;
	s->n_singles = 0;
	return 0;
}

bool spoor_ust_session_records(const struct spoor_ust_session *s, const struct spoor_ust_process *p)
{
	const struct spoor_ust_single *single = find_single(s, p);

	return single ? single->on : s->recording;
}

/* What is said of it alone can be said again. */
bool spoor_ust_session_recorded_since(const struct spoor_ust_session *s, const struct spoor_ust_process *p,
				      uint32_t change)
{
	return find_single(s, p) || spoor_ust_is_since(s->recorded, change);
}

bool spoor_ust_session_wants(const struct spoor_ust_session *s, const struct spoor_ust_process *p)
{
	for (size_t i = 0; i < s->n_rules; i++)
		if (s->rules[i].rule.enable && spoor_ust_rule_is_for(&s->rules[i], p))
			return true;
	return false;
}

void spoor_ust_session_setup(const struct spoor_ust_session *s, const struct spoor_ust_process *p,
			     struct spoor_control_setup *ret)
{
	bool records = p ? spoor_ust_session_records(s, p) : s->recording;

	ret->flags = records ? SPOOR_SETUP_RECORD : 0;
	ret->n_rules = 0;
	ret->buffers = s->o.buffers;
	ret->n_channels = s->o.n_channels;
	ret->session = s->id;
	ret->change = s->changes;
	for (size_t i = 0; i < s->n_rules; i++)
		ret->n_rules += !p || spoor_ust_rule_is_for(&s->rules[i], p);
	memcpy(ret->channels, s->o.channels, sizeof(ret->channels));
}
