/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What programs are told, and what can be told of them. */
#include <errno.h>

#include "base/process.h"
#include "collect/user/hub_internal.h"

int spoor_hub_rule(struct spoor_hub *h, struct spoor_ust_session *s, const struct spoor_ust_rule *rule,
		   struct spoor_hub_request *q, struct spoor_error *e)
{
	int r = spoor_ust_session_rule(s, rule, e);

	if (r)
		return r;
	for (struct hub_program *p = h->first; p; p = p->next) {
		struct spoor_control_rule m = s->rules[s->n_rules - 1].rule;

		m.session = s->id;
		if (!p->program || !spoor_ust_rule_is_for(rule, spoor_program_process(p)))
			continue;
		if (!spoor_program_member(p, s))
			spoor_program_join(p, s, q);
		else if (!p->untold && /* else it is told with the rest */
			 spoor_program_send(p, &m.head, SPOOR_CONTROL_RULE, sizeof(m), q) == -EAGAIN)
			spoor_program_start_over(p);
	}
	return 0;
}

void spoor_hub_join(struct spoor_hub *h, struct spoor_ust_session *s, uint32_t pid, struct spoor_hub_request *q)
{
	for (struct hub_program *p = h->first; p; p = p->next)
		if (!pid || pid == (uint32_t)p->cred.pid)
			spoor_program_join(p, s, q);
}

/* Who has ended meanwhile needs nothing to be kept of him. */
static int keep_single(struct spoor_ust_session *s, uint32_t pid, bool on, struct spoor_error *e)
{
	struct spoor_ust_process process = { pid, spoor_process_start(pid) };

	return process.start_time ? spoor_ust_session_record(s, &process, on, e) : 0;
}

static bool has_member(struct spoor_hub *h, const struct spoor_ust_session *s, uint32_t pid)
{
	struct hub_program *p = h->first;

	while (p && !(p->program && pid == (uint32_t)p->cred.pid && spoor_program_member(p, s)))
		p = p->next;
	return p;
}

int spoor_hub_record(struct spoor_hub *h, struct spoor_ust_session *s, uint32_t pid, bool on,
		     struct spoor_hub_request *q, struct spoor_error *e)
{
	int n = 0, r = 0;

	if (!pid)
		r = spoor_ust_session_record(s, NULL, on, e);
	else if (on || has_member(h, s, pid))
		r = keep_single(s, pid, on, e);
	for (struct hub_program *p = h->first; p && !r; p = p->next) {
		struct hub_member *member = spoor_program_member(p, s);
		int told;

		if (!p->program || !member || (pid && pid != (uint32_t)p->cred.pid))
			continue;
		member->record_untold |= p->untold;
		told = p->untold ? 0 : spoor_program_record(p, member, on, q);
		if (told == -EAGAIN)
			spoor_program_start_over(p);
		n += !told;
	}
	return r ? r : n;
}

/* In the order in which it was said: what was told need not be told again. -EAGAIN: there is no room for the rest. */
static int tell_since(struct hub_program *p, struct hub_member *member, struct spoor_hub_request *q)
{
	const struct spoor_ust_session *s = member->session;
	const struct spoor_ust_process *process = spoor_program_process(p);

	for (size_t i = 0; i < s->n_rules; i++) {
		struct spoor_control_rule rule = s->rules[i].rule;

		rule.session = s->id;
		if (!spoor_ust_is_since(rule.change, member->heard))
			continue;
		if (spoor_ust_rule_is_for(&s->rules[i], process) &&
		    spoor_program_send(p, &rule.head, SPOOR_CONTROL_RULE, sizeof(rule), q) == -EAGAIN)
			return -EAGAIN;
		member->heard = rule.change;
	}
	if (member->record_untold &&
	    spoor_program_record(p, member, spoor_ust_session_records(s, process), q) == -EAGAIN)
		return -EAGAIN;
	member->record_untold = false;
	return 0;
}

/* asked: who has called it hears what it answers. */
static void tell(struct hub_program *p, bool asked)
{
	p->untold = false;
	for (unsigned i = 0; i < p->n_members && !p->untold; i++) {
		struct hub_member *m = &p->members[i];

		p->untold = tell_since(p, m, asked ? spoor_request_for(p->hub, p, m->session) : NULL) == -EAGAIN;
	}
	for (struct spoor_ust_session *s = p->hub->sessions; s; s = s->next)
		spoor_program_join(p, s, asked ? spoor_request_for(p->hub, p, s) : NULL);
	spoor_requests_came(p->hub, p);
}

void spoor_program_tell_child(struct hub_program *p)
{
	for (unsigned i = 0; i < p->n_members; i++) {
		struct hub_member *m = &p->members[i];

		m->record_untold =
			spoor_ust_session_recorded_since(m->session, spoor_program_process(p), m->heard);
	}
	tell(p, true);
}

void spoor_program_tell_rest(struct hub_program *p)
{
	if (p->untold)
		tell(p, false);
}

/* What it was told and has not answered, nobody can say that it has got. */
static const char *why_deaf(const struct hub_program *p)
{
	const char *why = p->listens || p->gone || p->process.fd < 0 ? NULL : spoor_kick_fails(p->cred.pid);

	return why || p->listens || !p->n_awaited ? why : "it has not answered yet";
}

void spoor_hub_programs(struct spoor_hub *h, const struct spoor_ust_session *s,
			void (*each)(void *ctx, const struct spoor_hub_program_info *p), void *ctx)
{
	for (struct hub_program *p = h->first; p; p = p->next) {
		const struct hub_member *m = spoor_program_member(p, s);
		struct spoor_hub_program_info info = {
			.pid = p->cred.pid,
			.comm = p->comm,
			.exe = p->exe,
			.n_sites = p->n_sites,
			.n_stuck = p->n_stuck,
			.listens = p->listens,
		};

		if (!m || !p->program || p->dead)
			continue;
		info.deaf = why_deaf(p);
		info.refused = m->refused;
		info.how = m->how;
		info.records = m->records;
		info.single = m->records != s->recording;
		info.n_arenas = m->n_arenas;
		for (size_t i = 0; i < m->n_arenas; i++) {
			info.events += m->arenas[i]->n;
			info.resumed |= m->arenas[i]->known;
			info.lost += spoor_source_lost(m->arenas[i]);
			info.overwritten += spoor_source_overwritten(m->arenas[i]);
			info.shared += spoor_user_arena_shared(m->arenas[i]->arena);
			info.malformed += m->arenas[i]->arena->malformed;
		}
		each(ctx, &info);
	}
}
