/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A session's rules: which events of which programs, and what a program is told of them. */
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
	s->rules[s->n_rules++] = *rule;
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
	ret->flags = SPOOR_SETUP_LISTEN | (s->recording ? SPOOR_SETUP_RECORD : 0);
	ret->n_rules = 0;
	ret->buffers = s->o.buffers;
	ret->n_channels = s->o.n_channels;
	ret->session = s->id;
	for (size_t i = 0; i < s->n_rules; i++)
		ret->n_rules += !p || spoor_ust_rule_is_for(&s->rules[i], p);
	memcpy(ret->channels, s->o.channels, sizeof(ret->channels));
}
