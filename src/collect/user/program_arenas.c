/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Buffers that a program offers, or that one has left: they become sources of its sessions' takers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/ust/limits.h"
#include "base/cleanup.h"
#include "base/fdpass.h"
#include "collect/user/hub_internal.h"

#define MOST_ARENAS 8 /* of a process in a session: it makes one */

static bool is_known(const struct hub_member *m, const uint8_t *uuid)
{
	for (size_t i = 0; i < m->n_arenas; i++)
		if (!memcmp(m->arenas[i]->arena->head.uuid, uuid, 16))
			return true;
	return false;
}

static int add_source(struct hub_program *p, struct hub_member *m, struct spoor_user_arena *a, ino_t ino)
{
	struct spoor_source *s = calloc(1, sizeof(*s));
	struct spoor_source **grown = reallocarray(m->arenas, m->n_arenas + 1, sizeof(*grown));
	struct spoor_source_list *written = &m->session->written;

	if (grown)
		m->arenas = grown;
	if (!s || !grown) {
		free(s);
		return -ENOMEM;
	}
	spoor_written_apply(written, a);
	spoor_taker_knows(m->session->taker, a->head.uuid);
	a->lost = s->lost_earlier = s->lost = spoor_source_list_find(written, a->head.uuid, SPOOR_SOURCE_LOST);
	s->overwritten = spoor_source_list_find(written, a->head.uuid, SPOOR_SOURCE_OVERWRITTEN);
	s->known = spoor_source_list_knows(written, a->head.uuid);
	s->arena = a;
	s->taken = a->taken;
	s->ino = ino;
	s->pid = p->cred.pid;
	s->live = p->cred.pid > 0;
	s->foreign = (uint32_t)p->cred.pid != a->head.pid;
	m->arenas[m->n_arenas++] = s;
	if (!m->session->flight)
		spoor_waker_add(p->hub->waker, a);
	spoor_hub_hurry(p->hub);
	spoor_taker_look_back(m->session->taker, s);
	spoor_taker_tell(m->session->taker, s, SPOOR_PROGRAM_BEGUN);
	return 0;
}

static struct spoor_ust_session *session_of(struct spoor_hub *h, uint32_t id)
{
	struct spoor_ust_session *s = h->sessions;

	while (s && s->id != id)
		s = s->next;
	return s;
}

/* A child that was told of nothing yet: what its parent had heard of a session when it was forked is its own. */
static void come_to_know(struct hub_program *p)
{
	if (p->arenas_to_come && !--p->arenas_to_come)
		spoor_program_tell_child(p);
}

static void keep(struct hub_program *p, const struct spoor_control_arena *m, int fd)
{
	struct spoor_kept k = { .pid = p->cred.pid, .session = m->session };

	if (!spoor_fds_is_memory(fd)) /* nor has the keeper anything to do with a stranger's files */
		return;
	k.start_time = spoor_program_process(p)->start_time;
	memcpy(k.uuid, m->uuid, sizeof(k.uuid));
	spoor_keeper_keep(p->hub->keeper, &k, fd);
}

static bool is_new(const struct hub_program *p, const struct hub_member *member, const uint8_t *uuid)
{
	return !(member && is_known(member, uuid)) && !spoor_orphans_had(p->hub, uuid);
}

void spoor_program_look_ahead(struct hub_program *p)
{
	struct spoor_control_arena m;
	_cleanup_(spoor_fds_dropp) int fd = -1;
	struct spoor_ust_session *s;

	if (!p->kept || !p->program || spoor_hub_receive(p, &m, sizeof(m), &fd, MSG_PEEK) != sizeof(m))
		return;
	if (m.head.type != SPOOR_CONTROL_ARENA || m.head.version != SPOOR_CONTROL_VERSION || fd < 0)
		return;
	s = session_of(p->hub, m.session);
	if (s && is_new(p, spoor_program_member(p, s), m.uuid))
		keep(p, &m, fd);
}

/* The connection before of the same process, if that has these buffers. */
static struct hub_program *had_by(const struct hub_program *p, const struct hub_member *member, const uint8_t *uuid)
{
	for (struct hub_program *o = p->hub->first; o; o = o->next) {
		const struct hub_member *m;

		if (o == p || o->cred.pid != p->cred.pid || o->gone)
			continue;
		m = spoor_program_member(o, member->session);
		if (m && is_known(m, uuid))
			return o;
	}
	return NULL;
}

static int move_arenas(struct hub_member *from, struct hub_member *to)
{
	struct spoor_source **grown = reallocarray(to->arenas, to->n_arenas + from->n_arenas, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	to->arenas = grown;
	memcpy(to->arenas + to->n_arenas, from->arenas, from->n_arenas * sizeof(*grown));
	to->n_arenas += from->n_arenas;
	to->how = from->how;
	from->n_arenas = 0;
	return 0;
}

/* It has closed its connection, runs on, and has come again: who reads its buffers goes on, and nobody else begins. */
static bool take_over(struct hub_program *p, struct hub_member *member, const uint8_t *uuid, int *ret)
{
	struct hub_program *before = had_by(p, member, uuid);

	if (!before)
		return false;
	*ret = move_arenas(spoor_program_member(before, member->session), member);
	if (before->sock.fd < 0 && !spoor_program_arenas(before)) {
		spoor_hub_unwatch(p->hub, &before->process);
		before->dead = true;
	}
	return true;
}

static void note_coming(const struct hub_program *p, struct hub_member *member, const struct spoor_user_arena *a,
			bool late)
{
	if (member->n_arenas)
		return;
	if (!member->known && member->how == SPOOR_CAME_MET && a->head.made < p->came)
		member->how = SPOOR_CAME_FIRST; /* one before us had it, who was killed, and it was called again */
	if (!late)
		return;
	member->session->n_late++;
	member->how = SPOOR_CAME_LATE;
}

/* Of one arena, where its owner is not ours: what the session asks for, and what there is to it. */
static uint64_t most_bytes(const struct spoor_ust_session *s)
{
	uint64_t buffers = s->o.buffers ?: UST_BUFFERS;

	return buffers + buffers / SPOOR_ARENA_MIN_PACKET * sizeof(struct spoor_arena_packet) +
	       2 * SPOOR_ARENA_DEFS_MOST;
}

static int map_checked(const struct hub_program *p, const struct spoor_ust_session *s, int fd, struct stat *ret_stat,
		       struct spoor_user_arena **ret, struct spoor_error *e)
{
	/* Of what is no memfd nothing is asked but that. */
	if (spoor_fds_is_memory(fd) && fstat(fd, ret_stat))
		return spoor_fail(e, errno, "%s", strerror(errno));
	if (p->cred.uid != geteuid() && (uint64_t)ret_stat->st_size > most_bytes(s))
		return spoor_fail(e, EFBIG, "the program's buffer is larger than the session asked for");
	return spoor_user_arena_map(fd, ret, e);
}

static bool is_our_want(int error)
{
	return error == -ENOMEM || error == -EMFILE || error == -ENFILE || error == -EAGAIN;
}

static void say_unreadable(struct hub_program *p, struct spoor_ust_session *s, const uint8_t *uuid, int error,
			   const char *why)
{
	const uint8_t *before = spoor_orphans_uuid(p->hub, p, s->id);

	if (!is_our_want(error) && !spoor_ust_session_unreadable(s, before ?: uuid, p->comm, p->cred.pid))
		return;
	spoor_hub_warn(p->hub, "process %d (%s): %s", p->cred.pid, p->comm, why);
}

static int map_arena(struct hub_program *p, struct hub_member *member, const struct spoor_control_arena *m, int fd)
{
	struct spoor_user_arena *a = NULL;
	struct spoor_error e = { "" };
	struct stat st = {};
	int r;

	r = map_checked(p, member->session, fd, &st, &a, &e);
	if (r || !a) {
		say_unreadable(p, member->session, m->uuid, r, e.text);
		return r;
	}
	note_coming(p, member, a, m->flags & SPOOR_ARENA_LATE);
	r = add_source(p, member, a, st.st_ino);
	if (r) { /* nobody has it yet */
		spoor_user_arena_free(a);
		return r;
	}
	if (!p->comm[0]) /* the recorder before us heard its HELLO */
		memcpy(p->comm, a->head.comm, sizeof(p->comm));
	spoor_program_ask_rows(p);
	return 0;
}

/* Of a child; its HELLO said so, or, where the recorder before us had that, what it offers. */
static void note_heard(struct hub_program *p, struct hub_member *member, const struct spoor_control_arena *m)
{
	bool forked = p->met && m->flags & SPOOR_ARENA_FORKED;

	p->forked |= forked;
	if (!p->arenas_to_come && !forked)
		return;
	member->records = !(m->flags & SPOOR_ARENA_STOPPED);
	member->heard = m->head.serial;
}

int spoor_program_arena(struct hub_program *p, const struct spoor_control_arena *m, int fd)
{
	struct spoor_ust_session *s = session_of(p->hub, m->session);
	struct hub_member *member = s ? spoor_program_add_member(p, s, SPOOR_CAME_FIRST) : NULL;
	int r = 0;

	if (!p->program || fd < 0)
		return -EBADMSG;
	if (member)
		note_heard(p, member, m);
	if (!member) { /* it was over before the program knew */
		struct spoor_control_end end = { .session = m->session };

		if (spoor_program_send(p, &end.head, SPOOR_CONTROL_END, sizeof(end), NULL) == -EAGAIN)
			spoor_program_start_over(p);
	} else if (member->n_arenas >= MOST_ARENAS) {
		return -EBADMSG;
	} else if (is_new(p, member, m->uuid) && !take_over(p, member, m->uuid, &r)) { /* it may be asked again */
		keep(p, m, fd);
		r = map_arena(p, member, m, fd);
		if (r || !is_known(member, m->uuid))
			spoor_keeper_drop(p->hub->keeper, m->uuid);
	}
	come_to_know(p);
	return r;
}

void spoor_program_no_arena(struct hub_program *p, uint32_t session, int error, const char *text)
{
	struct spoor_ust_session *s = session_of(p->hub, session);
	struct hub_member *member = s && error < 0 ? spoor_program_add_member(p, s, SPOOR_CAME_FIRST) : NULL;

	if (!member)
		return;
	spoor_program_refuses(p, member, error, text);
	spoor_requests_refused(p->hub, p, error, member->refused);
}

void spoor_program_adopt(struct spoor_hub *h, const struct spoor_kept *k, int fd, enum spoor_program_end end)
{
	struct spoor_ust_session *s = session_of(h, k->session);
	struct hub_program *p = s ? calloc(1, sizeof(*p)) : NULL;
	struct spoor_user_arena *a = NULL;
	struct stat st;
	int r = !p || fstat(fd, &st) ? -ENOMEM : spoor_user_arena_map(fd, &a, NULL);

	if (r) {
		if (!is_our_want(r))
			spoor_ust_session_unreadable(s, k->uuid, p->comm, k->pid);
		free(p);
		spoor_keeper_drop(h->keeper, k->uuid);
		return;
	}
	p->sock.fd = p->process.fd = -1;
	p->cred.pid = k->pid;
	p->program = p->dead = true;
	spoor_program_add(h, p);
	if (add_source(p, spoor_program_add_member(p, s, SPOOR_CAME_FIRST), a, st.st_ino))
		spoor_user_arena_free(a);
	else
		p->members[0].arenas[0]->live = false;
	spoor_program_end_arenas(p, end);
}
