/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A traced program's end: of its process, of its arenas by execve, of its session, of the recorder. */
#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/cleanup.h"
#include "base/process.h"
#include "base/time.h"
#include "collect/user/hub_internal.h"

#define LOOK_NS (1 * SPOOR_NS_PER_SEC)
#define KICK_NS (50 * 1000000ULL)
#define MOST_KICKS 20 /* one soon after the other */
#define MOST_IN_VAIN (MOST_KICKS + 60)

/* What was refused is counted, and nobody is to find it again. */
static bool is_refused(const struct hub_member *m)
{
	for (size_t i = 0; i < m->n_arenas; i++)
		if (m->arenas[i]->refused)
			return true;
	return false;
}

static bool is_taken(const struct hub_member *m)
{
	if (m->dropped || (m->let_go && is_refused(m)))
		return true;
	if (m->session->missed && m->n_arenas && !m->let_go)
		return false;
	for (size_t i = 0; i < m->n_arenas; i++)
		if (m->arenas[i]->held)
			return false;
	return true;
}

bool spoor_program_is_taken(const struct hub_program *p)
{
	for (unsigned i = 0; i < p->n_members; i++)
		if (!is_taken(&p->members[i]))
			return false;
	return true;
}

static void free_source(struct hub_program *p, struct spoor_source *s)
{
	spoor_waker_remove(p->hub->waker, s->arena);
	spoor_source_done(s);
	free(s);
}

static void finish_member(struct hub_program *p, struct hub_member *m)
{
	for (size_t i = 0; i < m->n_arenas; i++)
		spoor_hub_gone(p->hub, m->session, m->arenas[i], p->end);
	m->n_arenas = 0;
}

void spoor_program_finish(struct hub_program *p)
{
	p->gone = false;
	for (unsigned i = 0; i < p->n_members; i++)
		finish_member(p, &p->members[i]);
}

/* Its buffers are looked at by snapshots yet. */
static void retire_member(struct hub_program *p, struct hub_member *m)
{
	for (size_t i = 0; i < m->n_arenas; i++) {
		spoor_waker_remove(p->hub->waker, m->arenas[i]->arena);
		spoor_hub_retire(p->hub, m->session, m->arenas[i], p->end);
	}
	m->n_arenas = 0;
}

static void note_memory(struct hub_member *m)
{
	for (size_t i = 0; i < m->n_arenas; i++)
		m->arenas[i]->memory = spoor_user_arena_memory(m->arenas[i]->arena);
}

/*
 * What is left in them is taken in the session's next round: taken alone, it would lie behind what others, who are not
 * read yet, wrote before.
 */
void spoor_program_end_arenas(struct hub_program *p, enum spoor_program_end end)
{
	p->end = end;
	for (unsigned i = 0; i < p->n_members; i++)
		if (p->members[i].session->flight)
			retire_member(p, &p->members[i]);
		else if (p->members[i].session->sender)
			note_memory(&p->members[i]);
	p->gone = spoor_program_arenas(p);
}

/* Who waits for an answer of it gets none. */
static void give_up(struct hub_program *p)
{
	for (size_t i = 0; i < p->n_awaited; i++) {
		if (p->awaited[i].request)
			p->awaited[i].request->awaited--;
		spoor_request_done(p->awaited[i].request, p->cred.pid, -ESRCH, "it has ended");
	}
	p->n_awaited = 0;
}

/* Its end of the socket is closed: it ended, executes another program, or closes what it does not know (daemons do). */
void spoor_program_hung_up(struct hub_program *p)
{
	spoor_program_heard(p);
	spoor_hub_unwatch(p->hub, &p->sock);
	give_up(p);
	p->looked = 0;
	if (!spoor_program_arenas(p) || p->process.fd < 0) {
		spoor_program_end_arenas(p, SPOOR_END_UNKNOWN);
		p->dead = true;
	}
}

void spoor_program_ended(struct hub_program *p)
{
	enum spoor_program_end end = spoor_exit_of(p->cred.pid, p->process.fd);

	/* What it sent last is still in the socket: a child's arena, as a rule. */
	spoor_hub_unwatch(p->hub, &p->process);
	if (p->sock.fd >= 0)
		spoor_hub_flush(p);
	spoor_program_heard(p);
	spoor_hub_unwatch(p->hub, &p->sock);
	give_up(p);
	spoor_program_end_arenas(p, end);
	p->dead = true;
}

/*
 * Has the process come to map something else than the arena, by execve? One that is about to end maps nothing; its end
 * will tell, as it will of one that is not ours to see.
 */
bool spoor_process_left(uint32_t pid, ino_t ino)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	char line[4352], path[64];
	bool any = false;

	snprintf(path, sizeof(path), "/proc/%u/maps", spoor_process_thread(pid));
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		unsigned long long found;

		any = true;
		if (sscanf(line, "%*s %*s %*s %*s %llu", &found) == 1 && found == ino && strstr(line, "memfd:"))
			return false;
	}
	return any;
}

bool spoor_program_has_unread(const struct hub_program *p)
{
	int n = 0;

	return p->sock.fd >= 0 && !ioctl(p->sock.fd, SIOCOUTQ, &n) && n > 0;
}

/* Another thread of it had the library's lock when it was kicked, or it is stopped, or hears no signal. */
void spoor_program_kick_again(struct hub_program *p, uint64_t now)
{
	uint64_t pause = p->kicks < MOST_KICKS ? KICK_NS : LOOK_NS;

	if (!p->kicked || now - p->kicked <= pause)
		return;
	if (p->kicks++ == MOST_IN_VAIN || !(p->n_awaited || spoor_program_has_unread(p))) {
		p->kicked = 0;
		return;
	}
	spoor_kick(p);
	p->kicked = now;
}

void spoor_program_look(struct hub_program *p, uint64_t now)
{
	bool all = true;

	spoor_program_kick_again(p, now);
	spoor_program_tell_rest(p);
	if (p->sock.fd >= 0 || !spoor_program_arenas(p) || p->dead || p->gone || now - p->looked < LOOK_NS)
		return;
	p->looked = now;
	for (unsigned k = 0; k < p->n_members; k++)
		for (size_t i = 0; i < p->members[k].n_arenas && all; i++)
			all &= spoor_process_left(p->cred.pid, p->members[k].arenas[i]->ino);
	if (!all)
		return;
	spoor_hub_unwatch(p->hub, &p->process);
	spoor_program_end_arenas(p, SPOOR_END_RUNS);
	p->dead = true;
}

static void drop_member(struct hub_program *p, struct hub_member *m)
{
	free(m->arenas);
	*m = p->members[--p->n_members];
	p->members[p->n_members] = (struct hub_member){};
}

void spoor_program_leave(struct hub_program *p, const struct spoor_ust_session *s)
{
	struct hub_member *m = spoor_program_member(p, s);
	struct spoor_control_end end = { .session = s->id };

	if (!m)
		return;
	for (size_t i = 0; i < m->n_arenas; i++)
		spoor_user_arena_let_go(m->arenas[i]->arena);
	if (spoor_program_send(p, &end.head, SPOOR_CONTROL_END, sizeof(end), NULL) == -EAGAIN)
		spoor_program_start_over(p);
	if (!p->gone)
		p->end = SPOOR_END_RUNS;
	finish_member(p, m);
	drop_member(p, m);
	p->gone = p->gone && spoor_program_arenas(p);
}

void spoor_program_forget(struct hub_program *p, const struct spoor_ust_session *s)
{
	struct hub_member *m = spoor_program_member(p, s);

	if (!m)
		return;
	for (size_t i = 0; i < m->n_arenas; i++) {
		spoor_taker_tell(m->session->taker, m->arenas[i], SPOOR_PROGRAM_RUNS);
		spoor_taker_forget(m->session->taker, m->arenas[i]);
		free_source(p, m->arenas[i]);
	}
	drop_member(p, m);
}

void spoor_program_free(struct hub_program *p)
{
	struct spoor_hub *h = p->hub;

	spoor_requests_forget(h, p);
	spoor_program_heard(p);
	spoor_hub_unwatch(h, &p->sock);
	spoor_hub_unwatch(h, &p->process);
	for (; p->n_members; drop_member(p, p->members))
		for (size_t i = 0; i < p->members[0].n_arenas; i++)
			free_source(p, p->members[0].arenas[i]);
	if (p->prev)
		p->prev->next = p->next;
	else
		h->first = p->next;
	if (p->next)
		p->next->prev = p->prev;
	h->n_programs--;
	spoor_shares_give_back(&h->shares, p->cred.uid);
	free(p->apart);
	free(p->awaited);
	free(p);
}
