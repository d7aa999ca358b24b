/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Programs that walk their own stacks are told how to walk through the objects that their arenas define. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "collect/user/hub_internal.h"

bool spoor_hub_begin_rows(struct spoor_hub *h)
{
	struct spoor_error e = { "" };

	if (h->rows || h->rows_failed)
		return h->rows;
	if (spoor_user_rows_new(h->o.cache_dir, &h->rows, &e)) {
		h->rows_failed = true;
		spoor_hub_warn(h, "%s", e.text);
		return false;
	}
	spoor_hub_watch(h, &h->rows_done, dup(spoor_user_rows_fd(h->rows)), h, HUB_ROWS);
	return true;
}

static int send_rows(struct hub_program *p, struct spoor_control_rows *m, int fd)
{
	int r;

	m->head = (struct spoor_control_head){ .magic = SPOOR_CONTROL_MAGIC,
					       .version = SPOOR_CONTROL_VERSION,
					       .type = SPOOR_CONTROL_ROWS,
					       .size = sizeof(*m),
					       .serial = m->head.serial };
	r = spoor_fds_send(p->sock.fd, m, sizeof(*m), &fd, fd >= 0, MSG_DONTWAIT);
	if (r)
		return r;
	if (!p->listens && p->cred.pid != getpid())
		spoor_kick(p);
	return 0;
}

/* fd: rows, or -1. */
static void tell(struct hub_program *p, const struct spoor_ust_session *s, struct spoor_control_rows m,
		 const char *path, bool is_main, int fd)
{
	m.session = s->id;
	m.app = spoor_app_match(&s->app, path, is_main);
	m.limit = spoor_scope_limit(&s->custom, path, is_main);
	/* Who does not read walks by frame pointers: its loss. */
	if (p->sock.fd >= 0)
		send_rows(p, &m, fd);
}

/* Others may follow, of which nothing is said. */
static void warn(struct spoor_hub *h, const char *why, const char *path)
{
	spoor_hub_warn(h, "%s; call stacks are walked by frame pointers through %s", why, path);
}

static void ask(struct hub_program *p, const struct hub_member *m, struct spoor_source *s)
{
	const struct spoor_user_rows_asker who = { .program = p->id, .session = m->session->id };
	struct spoor_hub *h = p->hub;

	spoor_user_arena_define(s->arena, spoor_taker_classes(m->session->taker));
	while (s->live && s->rows_asked < s->arena->code.n && spoor_hub_begin_rows(h)) {
		const struct spoor_def_object *d = s->arena->code.all[s->rows_asked].def;
		int err;

		if (!s->rows_asked++)
			tell(p, m->session, (struct spoor_control_rows){}, SPOOR_ANONYMOUS, false, -1);
		err = spoor_user_rows_ask(h->rows, who, p->cred.pid, d);
		if (err && !h->rows_failed)
			warn(h, strerror(-err), d->path);
		h->rows_failed |= err < 0;
	}
}

void spoor_program_ask_rows(struct hub_program *p)
{
	for (unsigned i = 0; i < p->n_members; i++)
		for (size_t k = 0; k < p->members[i].n_arenas; k++)
			ask(p, &p->members[i], p->members[i].arenas[k]);
}

static struct hub_program *find(struct spoor_hub *h, uint64_t id)
{
	struct hub_program *p = h->first;

	while (p && p->id != id)
		p = p->next;
	return p;
}

static const struct spoor_ust_session *session_of(const struct hub_program *p, uint32_t id)
{
	for (unsigned i = 0; i < p->n_members; i++)
		if (p->members[i].session->id == id)
			return p->members[i].session;
	return NULL;
}

void spoor_hub_tell_rows(struct spoor_hub *h)
{
	struct spoor_user_rows_answer a;

	while (spoor_user_rows_take(h->rows, &a)) {
		struct hub_program *p = find(h, a.owner.program);
		const struct spoor_ust_session *s = p ? session_of(p, a.owner.session) : NULL;
		struct spoor_control_rows m = { .head.serial = a.def->def.id, .start = a.def->start,
						.end = a.def->end, .bias = a.def->bias };

		if (s)
			tell(p, s, m, a.def->path, a.def->flags & SPOOR_DEF_OBJECT_MAIN, a.fd);
		if (a.why)
			warn(h, a.why, a.def->path);
		if (a.fd >= 0)
			close(a.fd);
		free(a.def);
		free(a.why);
	}
}
