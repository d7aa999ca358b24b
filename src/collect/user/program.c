/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A traced program: how it comes, and what it says. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "base/process.h"
#include "base/time.h"
#include "collect/user/hub_internal.h"

#define PROGRAM_FDS 3 /* its socket, its process, and what else there is to open */
#define SEND_BUFFER (4 << 20) /* the kernel takes twice as much: all rules of several sessions are told at once */

/* ---- coming ---- */

/* Of the process that connected, which may be gone by now, and its number another's (Linux 6.5; before, we believe). */
static int pidfd_of(int sock, pid_t pid)
{
	socklen_t len = sizeof(int);
	int fd = -1;

	if (!getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &fd, &len))
		return fd;
	return errno == ENOPROTOOPT && pid > 0 ? syscall(SYS_pidfd_open, pid, 0) : -1;
}

const struct spoor_ust_process *spoor_program_process(struct hub_program *p)
{
	if (p->identity.pid)
		return &p->identity;
	p->identity.pid = p->cred.pid;
	p->identity.start_time = spoor_process_start(p->cred.pid);
	return &p->identity;
}

static bool may_come(const struct spoor_hub *h, const struct ucred *c)
{
	return h->o.everybody || c->uid == geteuid() || !c->uid;
}

void spoor_program_add(struct spoor_hub *h, struct hub_program *p)
{
	p->hub = h;
	p->id = ++h->last_program;
	p->next = h->first;
	if (h->first)
		h->first->prev = p;
	h->first = p;
	h->n_programs++;
}

/* For all users. With few descriptors (ulimit -n) there are fewer. */
static size_t unused_places(const struct spoor_hub *h)
{
	struct rlimit l = { .rlim_cur = RLIM_INFINITY };
	size_t most = SPOOR_HUB_MOST_PROGRAMS;

	getrlimit(RLIMIT_NOFILE, &l);
	if (l.rlim_cur / PROGRAM_FDS < most)
		most = l.rlim_cur / PROGRAM_FDS;
	return h->n_programs < most ? most - h->n_programs : 0;
}

/* As from an absent recorder it goes away, and comes again. */
static void turn_away(struct spoor_hub *h, const struct hub_program *p, int fd)
{
	const struct spoor_ust_process process = { p->cred.pid, spoor_process_start(p->cred.pid) };

	if (spoor_turned_away_counts(&h->away, fd, p->cred.pid))
		for (struct spoor_ust_session *s = h->sessions; s; s = s->next)
			s->n_away += spoor_ust_session_wants(s, &process);
	if (!spoor_shares_say(&h->shares, p->cred.uid))
		return;
	spoor_hub_warn(h,
		       "user %u has as many connections as one user may have, others need the rest: those of his "
		       "programs that come now are recorded when there is room again, if they live",
		       p->cred.uid);
}

static bool has_place(struct spoor_hub *h, const struct hub_program *p, int fd)
{
	if (h->n_programs < SPOOR_HUB_MOST_PROGRAMS && spoor_shares_take(&h->shares, p->cred.uid, unused_places(h)))
		return true;
	turn_away(h, p, fd);
	return false;
}

static bool take_place(struct spoor_hub *h, struct hub_program *p, int fd)
{
	if (!may_come(h, &p->cred) || !has_place(h, p, fd))
		return false;
	if (!spoor_hub_watch(h, &p->sock, fd, p, HUB_PEER))
		return true;
	spoor_shares_give_back(&h->shares, p->cred.uid);
	return false;
}

/* Who is not root has as much as anybody may (net.core.wmem_max). */
static void make_room(int fd)
{
	const int size = SEND_BUFFER;

	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

struct hub_program *spoor_program_take_in(struct spoor_hub *h, int fd)
{
	struct hub_program *p = calloc(1, sizeof(*p));
	socklen_t len = sizeof(p->cred);
	int pidfd;

	if (!p || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &p->cred, &len) || !take_place(h, p, fd)) {
		free(p);
		spoor_fds_hang_up(fd);
		return NULL;
	}
	make_room(fd);
	p->process.fd = -1;
	pidfd = pidfd_of(fd, p->cred.pid);
	if (pidfd >= 0 && spoor_hub_watch(h, &p->process, pidfd, p, HUB_PROCESS))
		spoor_hub_unwatch(h, &p->process);
	spoor_program_add(h, p);
	return p;
}

/* Has it said what it has to say of the sessions that it was told of? */
static bool is_settled(const struct hub_program *p)
{
	for (unsigned i = 0; i < p->n_members; i++)
		if (p->members[i].setup)
			return false;
	return p->program && !p->met && !p->arenas_to_come;
}

void spoor_program_meet(struct hub_program *p)
{
	if (p->kept || p->sock.fd < 0 || p->hub->keeper < 0 || is_settled(p))
		return;
	p->kept = true;
	spoor_keeper_met(p->hub->keeper, (uint32_t)p->id, p->sock.fd);
}

void spoor_program_heard(struct hub_program *p)
{
	if (p->kept)
		spoor_keeper_heard(p->hub->keeper, (uint32_t)p->id);
	p->kept = false;
}

/* ---- HELLO ---- */

void spoor_program_keep_out(struct hub_program *p, const char *why)
{
	const struct spoor_ust_process *process = spoor_program_process(p);

	for (struct spoor_ust_session *s = p->hub->sessions; s; s = s->next)
		if (spoor_ust_session_wants(s, process) && !spoor_apart_has(s, process))
			spoor_apart_count(s, process, why);
	spoor_requests_refused(p->hub, p, -EPERM, why);
}

/* Whatever else it says, we may not understand it: its name is the kernel's. */
static int refuse_program(struct hub_program *p, const char *version)
{
	struct spoor_control_done refused = { .result = -EPROTO };

	snprintf(refused.text, sizeof(refused.text),
		 "the recorder speaks version %u with buffers of version %u: use its own libspoor-ust",
		 SPOOR_CONTROL_VERSION, SPOOR_ARENA_VERSION);
	spoor_program_send(p, &refused.head, SPOOR_CONTROL_DONE, sizeof(refused), NULL);
	if (!p->hub->sessions)
		return -EPROTO;
	spoor_process_name(p->cred.pid, p->comm);
	spoor_hub_warn(p->hub, "process %d (%s) has a libspoor-ust of another version (%s): not traced", p->cred.pid,
		       p->comm, version);
	spoor_program_keep_out(p, "the libspoor-ust there is not of this recorder's version");
	return -EPROTO;
}

/* No more than the head of a message is the same in all versions. */
static int refuse_version(struct hub_program *p, const struct spoor_control_head *m)
{
	char version[16];

	if (m->type == SPOOR_CONTROL_COMMAND && p->hub->o.command)
		spoor_request_refuse(p, m->serial, -EPROTO,
				     "this daemon is of another version: use the `spoor` that it came with");
	if (m->type != SPOOR_CONTROL_HELLO || (p->program && !p->met))
		return -EPROTO;
	snprintf(version, sizeof(version), "%u", m->version);
	return refuse_program(p, version);
}

static int refuse_arenas(struct hub_program *p, const struct spoor_control_hello *m)
{
	char version[32];

	snprintf(version, sizeof(version), "%u, buffers %u", m->head.version, m->arena_version);
	return refuse_program(p, version);
}

/*
 * It obeys root and its own user alone, and in its user namespace we are neither. It may have ended before we hear it,
 * and comes more than once: its start time tells it from others.
 */
static int on_stranger(struct hub_program *p, const struct spoor_control_hello *m)
{
	if (!spoor_program_process(p)->start_time)
		p->identity.start_time = m->start_time;
	if (m->n_sites)
		spoor_program_keep_out(p, "seen from there (a user namespace?) this recorder's user is neither root "
					  "nor the program's own: he is not obeyed");
	return 0;
}

static int on_hello(struct hub_program *p, const struct spoor_control_hello *m)
{
	bool forked = m->flags & SPOOR_HELLO_FORKED;
	int r;

	if (p->program && !p->met)
		return -EBADMSG;
	if (m->flags & SPOOR_HELLO_STRANGER)
		return on_stranger(p, m);
	p->met = false;
	p->came = spoor_now_monotonic();
	memcpy(p->comm, m->comm, sizeof(p->comm) - 1);
	memcpy(p->exe, m->exe, sizeof(p->exe) - 1);
	p->called = m->pid;
	p->n_sites = m->n_sites;
	p->n_stuck = m->n_stuck < m->n_sites ? m->n_stuck : m->n_sites;
	if (m->arena_version != SPOOR_ARENA_VERSION)
		return refuse_arenas(p, m);
	p->program = true;
	p->listens = !(m->flags & (SPOOR_HELLO_FORKED | SPOOR_HELLO_KICKED | SPOOR_HELLO_ALONE));
	p->arenas_to_come = forked && m->n_arenas < HUB_MOST_ARENAS ? m->n_arenas : 0;
	spoor_program_process(p); /* now: between hearing of buffers and having them kept there is no time */
	if (forked)
		return 0;
	p->answering = true;
	r = spoor_program_answer(p, m);
	spoor_requests_came(p->hub, p);
	p->answering = false;
	if (r)
		spoor_program_come_again(p);
	return 0;
}

/* ---- messages ---- */

/* A session that the program cannot be in. */
static void note_refusal(struct hub_program *p, const struct spoor_control_done *m, const char *text)
{
	for (unsigned i = 0; i < p->n_members; i++) {
		struct hub_member *member = &p->members[i];

		if (!member->setup || member->setup != m->head.serial)
			continue;
		member->setup = 0;
		if (m->result < 0) {
			spoor_program_refuses(p, member, m->result, text);
			continue;
		}
		member->refused[0] = '\0';
		if (*text && m->about == SPOOR_DONE_SITES && !p->n_stuck && !member->stuck) {
			member->stuck = true;
			member->session->n_stuck++;
		}
	}
}

static int on_done(struct hub_program *p, const struct spoor_control_done *m)
{
	char text[sizeof(m->text) + 1] = "";

	if (m->about == SPOOR_DONE_ALONE) {
		p->listens = false;
		p->kicked = spoor_now_monotonic(); /* as soon as it does not answer what it was told until now */
		return 0;
	}
	p->kicked = spoor_program_has_unread(p) ? p->kicked : 0;
	memcpy(text, m->text, sizeof(m->text));
	if (p->arenas_to_come)
		spoor_program_no_arena(p, m->head.serial, m->result, text);
	note_refusal(p, m, text);
	for (size_t i = 0; i < p->n_awaited;) {
		struct spoor_hub_request *q = p->awaited[i].request;

		if (p->awaited[i].serial != m->head.serial) {
			i++;
			continue;
		}
		memmove(&p->awaited[i], &p->awaited[i + 1], (--p->n_awaited - i) * sizeof(*p->awaited));
		if (q)
			q->awaited--;
		if (m->about == SPOOR_DONE_FIELDS)
			spoor_request_note(q, m->result, text);
		else
			spoor_request_done(q, p->cred.pid, m->result, text);
	}
	return 0;
}

static int carry_out(struct hub_program *p, const struct spoor_control_head *m, size_t size, int fd)
{
	const void *message = m;

	if (m->version != SPOOR_CONTROL_VERSION)
		return refuse_version(p, m);
	switch (m->type) {
	case SPOOR_CONTROL_HELLO:
		return size == sizeof(struct spoor_control_hello) ? on_hello(p, message) : -EBADMSG;
	case SPOOR_CONTROL_ARENA:
		return size == sizeof(struct spoor_control_arena) ? spoor_program_arena(p, message, fd) : -EBADMSG;
	case SPOOR_CONTROL_DONE:
		return size == sizeof(struct spoor_control_done) ? on_done(p, message) : -EBADMSG;
	case SPOOR_CONTROL_COMMAND:
		if (p->program || !p->hub->o.command)
			return -EBADMSG;
		spoor_program_heard(p);
		return spoor_request_command(p, m, size);
	}
	return -EBADMSG;
}

int spoor_program_message(struct hub_program *p, const void *message, size_t size, int fd)
{
	int r = carry_out(p, message, size, fd);

	if (p->kept && is_settled(p))
		spoor_program_heard(p);
	return r;
}
