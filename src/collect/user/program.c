/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A traced program, from its HELLO to its end. */
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
#define LOOK_NS (1 * SPOOR_NS_PER_SEC)
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
	if (m->head.version != SPOOR_CONTROL_VERSION || m->arena_version != SPOOR_ARENA_VERSION) {
		snprintf(refused.text, sizeof(refused.text),
			 "the recorder speaks version %u with buffers of version %u: use the libspoor-ust that came with it",
			 SPOOR_CONTROL_VERSION, SPOOR_ARENA_VERSION);
		spoor_program_send(p, &refused.head, SPOOR_CONTROL_DONE, sizeof(refused), NULL);
		if (p->hub->sessions) {
			char text[384];

			snprintf(text, sizeof(text),
				 "process %d (%s) has a libspoor-ust of another version (%u, buffers %u): it is not traced",
				 p->cred.pid, p->comm, m->head.version, m->arena_version);
			spoor_hub_warn(p->hub, text);
		}
		return -EPROTO;
	}
	p->program = true;
	p->listens = !forked && !(m->flags & SPOOR_HELLO_KICKED);
	p->session = session_for(p, m);
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

/* ---- going ---- */

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

/* ---- telling them ---- */

int spoor_hub_rule(struct spoor_hub *h, struct spoor_ust_session *s, const struct spoor_ust_rule *rule,
		   struct spoor_hub_request *q, struct spoor_error *e)
{
	int r = spoor_ust_session_rule(s, rule, e);

	if (r)
		return r;
	for (struct hub_program *p = h->first; p; p = p->next) {
		struct spoor_control_rule m = rule->rule;

		m.filter[0] = '\0'; /* the session's own business */
		if (p->program && p->session == s && (!rule->pid || rule->pid == (uint32_t)p->cred.pid))
			spoor_program_send(p, &m.head, SPOOR_CONTROL_RULE, sizeof(m), q);
	}
	return 0;
}

int spoor_hub_record(struct spoor_hub *h, struct spoor_ust_session *s, uint32_t pid, bool on, struct spoor_hub_request *q)
{
	int n = 0;

	if (!pid)
		s->recording = on;
	for (struct hub_program *p = h->first; p; p = p->next) {
		struct spoor_control_record m = { .on = on };

		if (!p->program || p->session != s || (pid && pid != (uint32_t)p->cred.pid))
			continue;
		n += !spoor_program_send(p, &m.head, SPOOR_CONTROL_RECORD, sizeof(m), q);
	}
	return n;
}

void spoor_hub_programs(struct spoor_hub *h, void (*each)(void *ctx, const struct spoor_hub_program_info *p), void *ctx)
{
	for (struct hub_program *p = h->first; p; p = p->next) {
		struct spoor_hub_program_info info = {
			.pid = p->cred.pid,
			.comm = p->comm,
			.exe = p->exe,
			.session = p->session,
			.n_sites = p->n_sites,
			.n_arenas = p->n_arenas,
			.listens = p->listens,
		};

		if (!p->program || p->dead)
			continue;
		for (size_t i = 0; i < p->n_arenas; i++) {
			info.events += p->arenas[i]->n;
			info.lost += spoor_user_arena_lost(p->arenas[i]->arena);
			info.malformed += p->arenas[i]->arena->malformed;
		}
		each(ctx, &info);
	}
}
