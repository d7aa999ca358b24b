/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A traced program: how it comes, and what it says. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/strings.h"
#include "base/time.h"
#include "collect/user/hub_internal.h"
#include "collect/user/threads.h"

#define MOST_ARENAS 64                   /* of one process */
#define MOST_BYTES (256ULL << 20)        /* of one arena, where its owner is not ours */
#define MOST_AWAITED 4096

/* ---- coming ---- */

static int pidfd_open(pid_t pid)
{
	return pid > 0 ? syscall(SYS_pidfd_open, pid, 0) : -1;
}

static bool may_come(const struct spoor_hub *h, const struct ucred *c)
{
	return h->o.everybody || c->uid == geteuid() || !c->uid;
}

static void take_in(struct spoor_hub *h, int fd)
{
	struct hub_program *p = calloc(1, sizeof(*p));
	socklen_t len = sizeof(p->cred);
	int pidfd;

	if (!p || h->n_programs >= SPOOR_HUB_MOST_PROGRAMS || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &p->cred, &len) ||
	    !may_come(h, &p->cred) || spoor_hub_watch(h, &p->sock, fd, p, HUB_PEER)) {
		free(p);
		close(fd);
		return;
	}
	p->hub = h;
	p->process.fd = -1;
	pidfd = pidfd_open(p->cred.pid);
	if (pidfd >= 0 && spoor_hub_watch(h, &p->process, pidfd, p, HUB_PROCESS))
		spoor_hub_unwatch(h, &p->process);
	p->next = h->first;
	if (h->first)
		h->first->prev = p;
	h->first = p;
	h->n_programs++;
}

void spoor_program_accept(struct spoor_hub *h)
{
	for (int i = 0; i < 64; i++) {
		int fd = accept4(h->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		take_in(h, fd);
	}
}

/* ---- sending ---- */

static int await(struct hub_program *p, uint32_t serial, struct spoor_hub_request *q)
{
	struct hub_awaited *grown;

	if (!q)
		return 0;
	if (p->n_awaited >= MOST_AWAITED)
		return -ENOBUFS;
	grown = reallocarray(p->awaited, p->n_awaited + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	p->awaited = grown;
	p->awaited[p->n_awaited++] = (struct hub_awaited){ serial, q };
	q->awaited++;
	return 0;
}

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
	if (!p->listens && p->program && p->cred.pid != getpid()) {
		p->kicked = spoor_now_monotonic();
		spoor_kick(p->cred.pid);
	}
	return await(p, m->serial, q);
}

/* ---- HELLO ---- */

/* The session that concerns the process: its parent's, if it goes on under its rules; else the first that wants it. */
static struct spoor_ust_session *session_for(struct hub_program *p, const struct spoor_control_hello *m)
{
	for (struct spoor_ust_session *s = p->hub->sessions; s; s = s->next)
		if (m->flags & SPOOR_HELLO_FORKED ? s->id == m->session : spoor_ust_session_wants(s, p->cred.pid))
			return s;
	return NULL;
}

static int send_setup(struct hub_program *p)
{
	const struct spoor_ust_session *s = p->session;
	struct spoor_control_setup setup = { .n_channels = 1 };
	int r;

	if (s)
		spoor_ust_session_setup(s, p->cred.pid, &setup);
	r = spoor_program_send(p, &setup.head, SPOOR_CONTROL_SETUP, sizeof(setup), NULL);
	for (size_t i = 0; !r && s && i < s->n_rules; i++) {
		struct spoor_control_rule rule = s->rules[i].rule;

		rule.filter[0] = '\0';
		if (!s->rules[i].pid || s->rules[i].pid == p->cred.pid)
			r = spoor_program_send(p, &rule.head, SPOOR_CONTROL_RULE, sizeof(rule), NULL);
	}
	return r;
}

static int on_hello(struct hub_program *p, const struct spoor_control_hello *m)
{
	struct spoor_control_done refused = { .result = -EPROTO };
	bool forked = m->flags & SPOOR_HELLO_FORKED;

	if (p->program)
		return -EBADMSG;
	memcpy(p->comm, m->comm, sizeof(p->comm) - 1);
	memcpy(p->exe, m->exe, sizeof(p->exe) - 1);
	p->called = m->pid;
	p->n_sites = m->n_sites;
	p->n_stuck = m->n_stuck < m->n_sites ? m->n_stuck : m->n_sites;
	if (m->head.version != SPOOR_CONTROL_VERSION || m->arena_version != SPOOR_ARENA_VERSION) {
		snprintf(
			refused.text, sizeof(refused.text),
			"the recorder speaks version %u with buffers of version %u: use its own libspoor-ust",
			SPOOR_CONTROL_VERSION, SPOOR_ARENA_VERSION);
		spoor_program_send(p, &refused.head, SPOOR_CONTROL_DONE, sizeof(refused), NULL);
		if (p->hub->sessions) {
			char text[384];

			snprintf(
				text, sizeof(text),
				"process %d (%s) has a libspoor-ust of another version (%u, buffers %u): not traced",
				p->cred.pid, p->comm, m->head.version, m->arena_version);
			spoor_hub_warn(p->hub, text);
		}
		return -EPROTO;
	}
	p->program = true;
	p->listens = !forked && !(m->flags & SPOOR_HELLO_KICKED);
	p->session = session_for(p, m);
	if (p->session)
		p->session->n_stuck += p->n_stuck != 0;
	if (forked)
		return p->session ? 0 : -ENOENT;
	if (send_setup(p))
		return -EPIPE;
	spoor_request_came(p->hub, p);
	return 0;
}

/* ---- ARENA ---- */

static bool is_known(const struct hub_program *p, const uint8_t *uuid)
{
	for (size_t i = 0; i < p->n_arenas; i++)
		if (!memcmp(p->arenas[i]->arena->head.uuid, uuid, 16))
			return true;
	return false;
}

static int add_source(struct hub_program *p, struct spoor_user_arena *a, ino_t ino)
{
	struct spoor_source *s = calloc(1, sizeof(*s));
	struct spoor_source **grown = reallocarray(p->arenas, p->n_arenas + 1, sizeof(*grown));

	if (grown)
		p->arenas = grown;
	if (!s || !grown) {
		free(s);
		return -ENOMEM;
	}
	spoor_written_apply(&p->session->written, a);
	s->arena = a;
	s->ino = ino;
	s->pid = p->cred.pid;
	s->live = p->cred.pid > 0;
	s->foreign = (uint32_t)p->cred.pid != a->head.pid;
	p->arenas[p->n_arenas++] = s;
	if (!p->session->flight)
		spoor_waker_add(p->hub->waker, a);
	spoor_hub_hurry(p->hub);
	spoor_taker_look_back(p->session->taker, s);
	spoor_taker_tell(p->session->taker, s, SPOOR_PROGRAM_BEGUN);
	return 0;
}

static int on_arena(struct hub_program *p, const struct spoor_control_arena *m, int fd)
{
	struct spoor_user_arena *a = NULL;
	struct spoor_error e = { "" };
	struct spoor_kept k;
	char text[640];
	struct stat st;
	int r;

	if (!p->program || !p->session || fd < 0 || p->n_arenas >= MOST_ARENAS)
		return -EBADMSG;
	if (fstat(fd, &st) || (p->cred.uid != geteuid() && (uint64_t)st.st_size > MOST_BYTES))
		return -EFBIG;
	if (is_known(p, m->uuid))
		return 0; /* it was asked again */
	r = spoor_user_arena_map(fd, &a, &e);
	if (r) {
		snprintf(text, sizeof(text), "process %d (%s): %s", p->cred.pid, p->comm, e.text);
		spoor_hub_warn(p->hub, text);
		p->session->n_damaged++;
		p->session->malformed++;
		return r;
	}
	r = add_source(p, a, st.st_ino);
	if (r) { /* nobody has it yet */
		spoor_user_arena_free(a);
		return r;
	}
	k = (struct spoor_kept){ .pid = p->cred.pid, .session = p->session->id, .start_time = a->head.start_time };
	memcpy(k.uuid, a->head.uuid, sizeof(k.uuid));
	spoor_keeper_keep(p->hub->keeper, &k, fd);
	return 0;
}

void spoor_program_adopt(struct spoor_hub *h, const struct spoor_kept *k, int fd)
{
	struct spoor_ust_session *s = h->sessions;
	struct spoor_user_arena *a = NULL;
	struct hub_program *p;
	struct stat st;

	while (s && s->id != k->session)
		s = s->next;
	p = s ? calloc(1, sizeof(*p)) : NULL;
	if (!p || fstat(fd, &st) || spoor_user_arena_map(fd, &a, NULL)) {
		free(p);
		spoor_keeper_drop(h->keeper, k->uuid);
		return;
	}
	*p = (struct hub_program){ .hub = h, .sock.fd = -1, .process.fd = -1, .session = s, .next = h->first };
	p->cred.pid = k->pid;
	p->program = p->gone = p->dead = true;
	if (h->first)
		h->first->prev = p;
	h->first = p;
	h->n_programs++;
	if (add_source(p, a, st.st_ino))
		spoor_user_arena_free(a);
	else
		p->arenas[0]->live = false;
}

/* ---- messages ---- */

static int on_done(struct hub_program *p, const struct spoor_control_done *m)
{
	p->kicked = 0;
	for (size_t i = 0; i < p->n_awaited; i++) {
		struct spoor_hub_request *q = p->awaited[i].request;
		char text[sizeof(m->text) + 1] = "";

		if (p->awaited[i].serial != m->head.serial)
			continue;
		memcpy(text, m->text, sizeof(m->text));
		memmove(&p->awaited[i], &p->awaited[i + 1], (--p->n_awaited - i) * sizeof(*p->awaited));
		q->awaited--;
		spoor_request_done(q, p->cred.pid, m->result, text);
		break;
	}
	return 0;
}

int spoor_program_message(struct hub_program *p, const void *message, size_t size, int fd)
{
	const struct spoor_control_head *m = message;

	if (m->type == SPOOR_CONTROL_HELLO)
		return size == sizeof(struct spoor_control_hello) ? on_hello(p, message) : -EBADMSG;
	if (m->version != SPOOR_CONTROL_VERSION)
		return -EPROTO;
	switch (m->type) {
	case SPOOR_CONTROL_ARENA:
		return size == sizeof(struct spoor_control_arena) ? on_arena(p, message, fd) : -EBADMSG;
	case SPOOR_CONTROL_DONE:
		return size == sizeof(struct spoor_control_done) ? on_done(p, message) : -EBADMSG;
	case SPOOR_CONTROL_COMMAND:
		if (p->program || !p->hub->o.command)
			return -EBADMSG;
		spoor_request_command(p, m, size);
		return 0;
	}
	return -EBADMSG;
}
