/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a recorder's messages do (agent/control/control.h): sessions, each with rules and an output of its own. */
#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>

#include "agent/control/control.h"
#include "agent/core/objects.h"
#include "agent/core/output.h"
#include "agent/core/process.h"
#include "agent/core/reserve.h"
#include "agent/ust/filter.h"
#include "agent/ust/limits.h"
#include "agent/ust/sites.h"
#include "agent/ust/state.h"

static struct session {
	__u32 id;   /* the recorder's; 0: not in use */
	bool named; /* in the recorder's last answer */
	bool waits; /* its arena is made with the first site */
	__u32 heard; /* the recorder's number of the last that was said of it */
	struct arena_wish wish;
	struct output *output; /* NULL: no arena yet */
} sessions[SPOOR_SESSIONS];

static unsigned number(const struct session *s)
{
	return (unsigned)(s - sessions);
}

static struct session *find(__u32 id)
{
	unsigned i;

	for (i = 0; i < SPOOR_SESSIONS; i++)
		if (sessions[i].id == id)
			return &sessions[i];
	return NULL;
}

int spoor_agent_lock(bool wait)
{
	return outputs_lock(wait) ? 0 : wait ? -EDEADLK : -EBUSY;
}

void spoor_agent_unlock(void)
{
	process_unlock();
}

static void fill_wish(const struct spoor_control_setup *s, struct arena_wish *wish)
{
	uint32_t i;

	memset(wish, 0, sizeof(*wish));
	wish->size = s->buffers ?: UST_BUFFERS;
	wish->session = s->session;
	wish->n_channels = s->n_channels;
	for (i = 0; i < s->n_channels; i++) {
		const struct spoor_control_channel *from = &s->channels[i];
		struct arena_channel_wish *to = &wish->channels[i];

		memcpy(to->name, from->name, sizeof(to->name));
		to->mode = from->mode;
		to->packet_size = from->packet_size;
		to->share = from->share;
		to->block_us = from->block_us;
		to->contexts = from->contexts;
		to->stack_mode = from->stack_mode;
		to->stack_budget = from->stack_budget;
	}
}

/* The headers of their packets alone would take a program's memory; and nobody may ask that of it by an option. */
static bool is_beyond_limits(const struct spoor_control_setup *m)
{
	uint32_t i;

	for (i = 0; i < m->n_channels; i++)
		if (m->channels[i].block_us > UST_MOST_BLOCK_US)
			return true;
	return m->buffers > UST_MOST_BUFFERS;
}

static void end(struct session *s)
{
	sites_record(number(s), false, 0);
	rules_forget(number(s));
	if (s->output)
		output_close(s->output);
	memset(s, 0, sizeof(*s));
}

/* What a recorder that is no more has left makes room. */
static struct session *new_session(void)
{
	struct session *s = find(0);
	unsigned i;

	for (i = 0; i < SPOOR_SESSIONS && !s; i++)
		if (!sessions[i].named) {
			s = &sessions[i];
			end(s);
		}
	return s;
}

int spoor_agent_setup(const struct spoor_control_setup *m)
{
	struct session *s = find(m->session);

	if (!s) {
		if (is_beyond_limits(m))
			return -EINVAL;
		s = new_session();
		if (!s)
			return -EBUSY;
		s->id = m->session;
		fill_wish(m, &s->wish);
	}
	s->named = true;
	rules_begin(number(s));
	return 0;
}

void spoor_agent_setup_cut(__u32 id)
{
	struct session *s = find(id);

	if (id && s)
		rules_keep(number(s));
}

/* n: of sites. Says so if not all of those that should be can be on. */
static int say_stuck(int n, struct spoor_agent_said *said)
{
	static const char denied[sizeof(said->text)] =
		"code may not be written in this process: sites without a flag stay off; build it with "
		"-DSPOOR_FLAG_SITES";
	static const char held[sizeof(said->text)] =
		"a breakpoint (a debugger's, a uprobe) stands on some of its sites: they stay as they are until it is "
		"gone and they are enabled again";
	unsigned stuck;

	sites_count(&stuck);
	if (!stuck || !n)
		return n;
	memcpy(said->text, spoor_agent_state.way == SPOOR_AGENT_REFUSED ? denied : held, sizeof(said->text));
	said->about = SPOOR_DONE_SITES;
	return n;
}

int spoor_agent_rule(const struct spoor_control_rule *r, struct spoor_agent_said *said)
{
	struct session *s = find(r->session);
	struct rule_wish wish = { .globs = r->pattern, .kind = r->kind, .enable = r->enable };
	int n;

	if (!r->session || !s)
		return -ENOENT;
	wish.max_level = r->level == 255 ? UINT32_MAX : r->level;
	wish.channels = r->channels & ((1U << s->wish.n_channels) - 1);
	if (!wish.channels)
		return -EINVAL;
	n = r->filter[0] ? filter_compile(r->filter, &wish.filter, said->text, sizeof(said->text)) : 0;
	if (n)
		return n;
	said->about = SPOOR_DONE_FIELDS;
	n = sites_rule(number(s), &wish, said->text, sizeof(said->text));
	return r->enable ? say_stuck(n, said) : n;
}

/* A channel whose events have call stacks; NULL: none, or there is no site. */
static const struct slot *stack_slot(const struct session *s)
{
	uint32_t i, stuck;

	for (i = 0; s->output && sites_count(&stuck) && i < s->wish.n_channels; i++)
		if (slots[s->output->first_slot + i].contexts & SPOOR_CONTEXT_STACK)
			return &slots[s->output->first_slot + i];
	return NULL;
}

void spoor_agent_rows(const struct spoor_control_rows *m, int fd)
{
	const struct session *s = m->session ? find(m->session) : NULL;
	struct code_answer a = {
		.start = m->start, .end = m->end, .bias = m->bias, .object = m->head.serial,
		.fd = fd, .app = m->app, .limit = m->limit
	};

	if (s && s->output)
		code_object_answer(&a, s->output);
}

unsigned spoor_agent_rows_awaited(void)
{
	unsigned i, n = 0;

	for (i = 0; i < SPOOR_SESSIONS; i++) {
		const struct slot *s = sessions[i].id ? stack_slot(&sessions[i]) : NULL;

		n += s ? code_objects_awaited(s) : 0;
	}
	return n;
}

static int make_output(struct session *s)
{
	struct spoor_agent_arena offered;
	int r;

	sites_count(&s->wish.n_stuck);
	s->wish.defs = classes_room(&s->wish);
	r = output_open(&s->wish, &s->output);
	if (!r && stack_slot(s))
		code_objects_define(stack_slot(s));
	if (!r && !spoor_agent_arena(s->id, &offered))
		spoor_control_offer_one(&offered);
	return r;
}

int spoor_agent_record(__u32 id, bool on, struct spoor_agent_said *said)
{
	struct session *s = find(id);
	int r = 0;

	if (!id || !s)
		return -ENOENT;
	s->waits = on && !s->output && !sites_count(&s->wish.n_stuck);
	if (s->waits)
		return 0;
	if (on && !s->output) {
		sys3(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
		r = make_output(s);
		if (!s->output)
			return r;
	}
	r = sites_record(number(s), on, on ? s->output->first_slot : 0);
	return on ? say_stuck(r, said) : r;
}

void spoor_agent_hear(__u32 id, __u32 change)
{
	struct session *s = id ? find(id) : NULL;

	if (s)
		s->heard = change;
}

__u32 spoor_agent_heard(__u32 id)
{
	const struct session *s = id ? find(id) : NULL;

	return s ? s->heard : 0;
}

bool spoor_agent_records(__u32 id)
{
	const struct session *s = id ? find(id) : NULL;

	return s && rules_recording(number(s));
}

void spoor_agent_objects(void)
{
	struct spoor_agent_said said;
	unsigned i;

	for (i = 0; i < SPOOR_SESSIONS; i++)
		if (sessions[i].waits)
			spoor_agent_record(sessions[i].id, true, &said);
}

void spoor_agent_end(__u32 id)
{
	struct session *s = find(id);

	if (id && s)
		end(s);
}

void spoor_agent_begin_answer(void)
{
	unsigned i;

	for (i = 0; i < SPOOR_SESSIONS; i++)
		sessions[i].named = false;
}

void spoor_agent_end_answer(void)
{
	struct spoor_agent_said said;
	unsigned i;

	for (i = 0; i < SPOOR_SESSIONS; i++)
		if (sessions[i].id && !sessions[i].named)
			spoor_agent_record(sessions[i].id, false, &said);
}

bool spoor_agent_any(void)
{
	unsigned i;

	for (i = 0; i < SPOOR_SESSIONS; i++)
		if (sessions[i].id && sessions[i].named)
			return true;
	return false;
}

unsigned spoor_agent_sites(__u32 *ret_stuck)
{
	unsigned n = sites_count(ret_stuck);

	/* A process that was forked while another thread switched them goes on with what that one had not done yet. */
	if (*ret_stuck && spoor_agent_state.way != SPOOR_AGENT_REFUSED) {
		sites_refresh(NULL);
		n = sites_count(ret_stuck);
	}
	return n;
}

int spoor_agent_arena(__u32 id, struct spoor_agent_arena *ret)
{
	const struct session *s = find(id);
	int fd = s && s->output ? output_fd(s->output) : -ENOENT;

	if (!id || fd < 0)
		return -ENOENT;
	*ret = (struct spoor_agent_arena){ .session = id, .fd = fd };
	memcpy(ret->uuid, s->output->made.arena->uuid, sizeof(ret->uuid));
	return 0;
}
