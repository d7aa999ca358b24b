/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a traced program is told, and of which sessions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "collect/user/hub_internal.h"

#define MOST_AWAITED 4096

/* ---- sending ---- */

static int await(struct hub_program *p, uint32_t serial, struct spoor_hub_request *q)
{
	struct hub_awaited *grown;

	if (p->n_awaited >= MOST_AWAITED)
		return -ENOBUFS;
	grown = reallocarray(p->awaited, p->n_awaited + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	p->awaited = grown;
	p->awaited[p->n_awaited++] = (struct hub_awaited){ serial, q };
	if (q)
		q->awaited++;
	return 0;
}

static bool is_setup(const struct spoor_control_head *m)
{
	return m->type == SPOOR_CONTROL_SETUP && ((const struct spoor_control_setup *)m)->session;
}

/*
 * Without q nobody waits for an answer, but of a SETUP. Who has just said HELLO looks at his socket, as a rule: he is
 * kicked when he does not answer.
 */
int spoor_program_send(struct hub_program *p, struct spoor_control_head *m, unsigned type, size_t size,
		       struct spoor_hub_request *q)
{
	if (p->sock.fd < 0)
		return -EPIPE;
	m->magic = SPOOR_CONTROL_MAGIC;
	m->version = SPOOR_CONTROL_VERSION;
	m->type = type;
	m->size = size;
	m->serial = ++p->hub->serial;
	if (send(p->sock.fd, m, size, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)size)
		return errno ? -errno : -EIO;
	if (p->program && p->cred.pid != getpid() && (!p->listens || p->answering)) {
		p->kicks = 0;
		p->kicked = spoor_now_monotonic();
		if (!p->answering)
			spoor_kick(p);
	}
	return q || is_setup(m) ? await(p, m->serial, q) : 0;
}

/* Who has ended left what it sent, its buffers, in the socket; who goes on sees this, and comes again. */
void spoor_program_come_again(struct hub_program *p)
{
	shutdown(p->sock.fd, SHUT_WR);
}

void spoor_program_start_over(struct hub_program *p)
{
	p->unwanted = true;
	spoor_program_come_again(p);
	if (!p->listens && p->cred.pid != getpid())
		spoor_kick(p);
}

/* ---- sessions ---- */

static const char full[] = "as many sessions and channels record it as can at once";

struct hub_member *spoor_program_member(struct hub_program *p, const struct spoor_ust_session *s)
{
	for (unsigned i = 0; i < p->n_members; i++)
		if (p->members[i].session == s)
			return &p->members[i];
	return NULL;
}

size_t spoor_program_arenas(const struct hub_program *p)
{
	size_t n = 0;

	for (unsigned i = 0; i < p->n_members; i++)
		n += p->members[i].n_arenas;
	return n;
}

/* Each program counts once, however often it is asked. */
static void stay_apart(struct hub_program *p, struct spoor_ust_session *s, const char *why)
{
	uint32_t *grown;

	for (unsigned i = 0; i < p->n_apart; i++)
		if (p->apart[i] == s->id)
			return;
	grown = reallocarray(p->apart, p->n_apart + 1, sizeof(*grown));
	if (!grown)
		return;
	p->apart = grown;
	p->apart[p->n_apart++] = s->id;
	if (p->n_sites)
		spoor_apart_count(s, spoor_program_process(p), why);
}

struct hub_member *spoor_program_add_member(struct hub_program *p, struct spoor_ust_session *s, enum spoor_coming how)
{
	struct hub_member *m = spoor_program_member(p, s);

	if (m)
		return m;
	if (p->n_sites)
		spoor_apart_comes(s, spoor_program_process(p));
	if (p->n_members == SPOOR_UST_MOST_SESSIONS) {
		stay_apart(p, s, full);
		return NULL;
	}
	m = &p->members[p->n_members++];
	*m = (struct hub_member){ .session = s, .how = how };
	if (p->n_sites)
		m->known = spoor_came_count(s, spoor_program_process(p), &m->how);
	s->n_stuck += p->n_stuck != 0;
	return m;
}

static int send_setup(struct hub_program *p, struct hub_member *member, struct spoor_control_setup *setup,
		      struct spoor_hub_request *q)
{
	const struct spoor_ust_session *s = member->session;
	int r;

	spoor_ust_session_setup(s, spoor_program_process(p), setup);
	r = spoor_program_send(p, &setup->head, SPOOR_CONTROL_SETUP, sizeof(*setup), q);
	member->setup = setup->head.serial;
	member->records = setup->flags & SPOOR_SETUP_RECORD;
	for (size_t i = 0; !r && i < s->n_rules; i++) {
		struct spoor_control_rule rule = s->rules[i].rule;

		rule.session = s->id;
		if (spoor_ust_rule_is_for(&s->rules[i], spoor_program_process(p)))
			r = spoor_program_send(p, &rule.head, SPOOR_CONTROL_RULE, sizeof(rule), NULL);
	}
	return r;
}

/* It stays a member, so that it is told why and not asked again. */
void spoor_program_refuses(struct hub_program *p, struct hub_member *member, int error, const char *text)
{
	const char *why = *text ? text : strerror(-error);

	snprintf(member->refused, sizeof(member->refused), "%s", why);
	if (error != -EPERM || !p->n_stuck) /* sites that are stuck are counted as such */
		stay_apart(p, member->session, why);
}

int spoor_program_record(struct hub_program *p, struct hub_member *member, bool on, struct spoor_hub_request *q)
{
	const struct spoor_ust_session *s = member->session;
	struct spoor_control_record m = { .session = s->id, .on = on, .change = s->changes };
	int r = spoor_program_send(p, &m.head, SPOOR_CONTROL_RECORD, sizeof(m), q);

	if (r)
		return r;
	member->records = on;
	if (on) /* its buffers are made now, or cannot be */
		member->setup = m.head.serial;
	return 0;
}

int spoor_program_join(struct hub_program *p, struct spoor_ust_session *s, struct spoor_hub_request *q)
{
	struct spoor_control_setup setup = {};
	struct hub_member *m;
	int r;

	/* Who was told that nobody wants him hears nothing more here: he is to be called. */
	if (!p->program || p->unwanted || p->sock.fd < 0 || p->arenas_to_come || p->untold ||
	    spoor_program_member(p, s) || !spoor_ust_session_wants(s, spoor_program_process(p)))
		return 0;
	m = spoor_program_add_member(p, s, SPOOR_CAME_MET);
	if (!m) {
		spoor_request_done(q, p->cred.pid, -EBUSY, full);
		return -EBUSY;
	}
	r = send_setup(p, m, &setup, q);
	if (r == -EAGAIN)
		spoor_program_start_over(p);
	return r ? r : 1;
}

/* ---- all that want it ---- */

/* It has read the board, which is as it was, and answers its SETUPs by the sessions' numbers. */
static void believe_board(struct hub_program *p)
{
	for (unsigned i = 0; i < p->n_members; i++) {
		struct hub_member *m = &p->members[i];

		m->setup = m->session->id;
		m->records = spoor_ust_session_records(m->session, spoor_program_process(p));
	}
}

/* Of another pid namespace it does not know which rules are its own. */
static bool follows_board(const struct hub_program *p, const struct spoor_control_hello *m)
{
	const struct hub_board *b = &p->hub->board;

	return b->fd >= 0 && m->head.serial == b->generation && (!b->single || m->pid == (uint32_t)p->cred.pid);
}

static void add_members(struct hub_program *p, enum spoor_coming how)
{
	for (struct spoor_ust_session *s = p->hub->sessions; s; s = s->next)
		if (spoor_ust_session_wants(s, spoor_program_process(p)))
			spoor_program_add_member(p, s, how);
}

/* Who has called it, for whichever session, hears what it answers. */
static int await_for_all(struct hub_program *p, const struct hub_member *member)
{
	int r = 0;

	for (struct spoor_hub_request *q = p->hub->requests; q && !r; q = q->next)
		if (q->session == member->session && spoor_request_expects(q, p))
			r = await(p, member->setup, q);
	return r;
}

/* Of all its sessions, as an answer to its HELLO. */
static int send_members(struct hub_program *p)
{
	int r = 0;

	for (unsigned i = 0; i < p->n_members && !r; i++) {
		struct spoor_control_setup setup = { .answers = 1, .left = p->n_members - 1 - i };

		r = send_setup(p, &p->members[i], &setup, NULL);
		if (!r)
			r = await_for_all(p, &p->members[i]);
	}
	return r;
}

int spoor_program_answer(struct hub_program *p, const struct spoor_control_hello *m)
{
	struct spoor_control_setup none = { .n_channels = 1, .answers = 1 };

	add_members(p, m->flags & SPOOR_HELLO_KICKED ? SPOOR_CAME_MET : SPOOR_CAME_FIRST);
	if (follows_board(p, m) && p->n_members) {
		believe_board(p);
		return 0;
	}
	p->unwanted = !p->n_members;
	if (p->unwanted)
		spoor_recall_heard(p->hub, p->cred.pid);
	return p->n_members ? send_members(p) :
			      spoor_program_send(p, &none.head, SPOOR_CONTROL_SETUP, sizeof(none), NULL);
}

void spoor_program_answer_again(struct hub_program *p)
{
	if (!p->program || p->sock.fd < 0 || p->arenas_to_come)
		return;
	add_members(p, SPOOR_CAME_MET);
	if (!p->n_members) /* it may be in sessions that are over */
		spoor_program_start_over(p);
	else if (send_members(p))
		spoor_program_come_again(p);
}
