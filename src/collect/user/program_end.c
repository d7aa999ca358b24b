/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A traced program's end: of its process, of its arenas by execve, of its session, of the recorder. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "collect/user/hub_internal.h"

#define LOOK_NS (1 * SPOOR_NS_PER_SEC)

bool spoor_program_is_taken(const struct hub_program *p)
{
	if (!p->session || p->session->crowded)
		return true;
	if (p->session->missed)
		return false;
	for (size_t i = 0; i < p->n_arenas; i++)
		if (p->arenas[i]->held)
			return false;
	return true;
}

void spoor_program_finish(struct hub_program *p)
{
	p->gone = false;
	for (size_t i = 0; i < p->n_arenas; i++) {
		spoor_ust_session_gone(p->session, p->arenas[i], p->runs);
		spoor_keeper_drop(p->hub->keeper, p->arenas[i]->arena->head.uuid);
		spoor_waker_remove(p->hub->waker, p->arenas[i]->arena);
		spoor_source_done(p->arenas[i]);
		free(p->arenas[i]);
	}
	free(p->arenas);
	p->arenas = NULL;
	p->n_arenas = 0;
}

/*
 * What is left in them is taken in the session's next round: taken alone, it would lie behind what others, who are not
 * read yet, wrote before.
 */
static void end_arenas(struct hub_program *p, bool runs)
{
	struct spoor_error e = { "" };

	p->runs = runs;
	p->gone = p->n_arenas;
	if (!p->gone || !p->session->flight)
		return;
	if (spoor_ust_session_drain(p->session, p->arenas, p->n_arenas, &e) < 0)
		spoor_ust_session_fails(p->session, e.text);
	spoor_program_finish(p);
}

/* Who waits for an answer of it gets none. */
static void give_up(struct hub_program *p)
{
	for (size_t i = 0; i < p->n_awaited; i++) {
		p->awaited[i].request->awaited--;
		spoor_request_done(p->awaited[i].request, p->cred.pid, -ESRCH, "it has ended");
	}
	p->n_awaited = 0;
}

/* Its end of the socket is closed: it ended, executes another program, or closes what it does not know (daemons do). */
void spoor_program_hung_up(struct hub_program *p)
{
	spoor_hub_unwatch(p->hub, &p->sock);
	give_up(p);
	p->looked = 0;
	if (!p->n_arenas || p->process.fd < 0) {
		end_arenas(p, false);
		p->dead = true;
	}
}

void spoor_program_ended(struct hub_program *p)
{
	/* What it sent last is still in the socket: a child's arena, as a rule. */
	spoor_hub_unwatch(p->hub, &p->process);
	if (p->sock.fd >= 0)
		spoor_hub_flush(p);
	spoor_hub_unwatch(p->hub, &p->sock);
	give_up(p);
	end_arenas(p, false);
	p->dead = true;
}

/*
 * Has the process come to map something else than the arena, by execve? One that is about to end maps nothing; its end
 * will tell, as it will of one that is not ours to see.
 */
static bool left(uint32_t pid, ino_t ino)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	char line[4352], path[64];
	bool any = false;

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		unsigned long long found;

		any = true;
		if (sscanf(line, "%*s %*s %*s %*s %llu", &found) == 1 && found == ino && strstr(line, "memfd:"))
			return false;
	}
	return any;
}

void spoor_program_look(struct hub_program *p, uint64_t now)
{
	bool all = true;

	if (p->kicked && now - p->kicked > 50 * 1000000ULL && p->n_awaited) {
		p->kicked = now;
		spoor_kick(p->cred.pid);
	}
	if (p->sock.fd >= 0 || !p->n_arenas || p->dead || p->gone || now - p->looked < LOOK_NS)
		return;
	p->looked = now;
	for (size_t i = 0; i < p->n_arenas; i++)
		all &= left(p->cred.pid, p->arenas[i]->ino);
	if (!all)
		return;
	spoor_hub_unwatch(p->hub, &p->process);
	end_arenas(p, true);
	p->dead = true;
}

void spoor_program_leave(struct hub_program *p)
{
	struct spoor_control_head end = {};

	spoor_program_send(p, &end, SPOOR_CONTROL_END, sizeof(end), NULL);
	p->runs = !p->gone || p->runs;
	spoor_program_finish(p);
	p->session = NULL;
}

void spoor_program_forget(struct hub_program *p)
{
	for (size_t i = 0; i < p->n_arenas; i++) {
		spoor_taker_tell(p->session->taker, p->arenas[i], SPOOR_PROGRAM_RUNS);
		spoor_taker_forget(p->session->taker, p->arenas[i]);
		spoor_waker_remove(p->hub->waker, p->arenas[i]->arena);
		spoor_source_done(p->arenas[i]);
		free(p->arenas[i]);
	}
	p->n_arenas = 0;
	p->session = NULL;
}

void spoor_program_free(struct hub_program *p)
{
	struct spoor_hub *h = p->hub;

	spoor_requests_forget(h, p);
	spoor_hub_unwatch(h, &p->sock);
	spoor_hub_unwatch(h, &p->process);
	for (size_t i = 0; i < p->n_arenas; i++) {
		spoor_waker_remove(p->hub->waker, p->arenas[i]->arena);
		spoor_source_done(p->arenas[i]);
		free(p->arenas[i]);
	}
	if (p->prev)
		p->prev->next = p->next;
	else
		h->first = p->next;
	if (p->next)
		p->next->prev = p->prev;
	h->n_programs--;
	free(p->arenas);
	free(p->awaited);
	free(p);
}
