/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/relay/traces.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "trace/digest.h"
#include "trace/writer.h"

#define MOST_NAMES 10000

int relay_traces_open(const char *path, struct relay_traces *ret, struct spoor_error *e)
{
	int fd;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return spoor_fail(e, errno, "%s: cannot be created: %s", path, strerror(errno));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return spoor_fail(e, errno, "%s: cannot be opened: %s", path, strerror(errno));
	if (faccessat(fd, ".", W_OK, AT_EACCESS) < 0) {
		int err = errno;

		close(fd);
		return spoor_fail(e, err, "%s: cannot be written to: %s", path, strerror(err));
	}
	*ret = (struct relay_traces){ .dir_fd = fd };
	snprintf(ret->path, sizeof(ret->path), "%s", path);
	return 0;
}

static void forget(struct relay_traces *all, struct relay_trace *t)
{
	struct relay_trace **at = &all->first;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	spoor_replica_close(t->replica);
	free(t);
}

void relay_traces_close(struct relay_traces *t)
{
	while (t->first)
		forget(t, t->first);
	spoor_closep(&t->dir_fd);
	t->dir_fd = -1;
}

/* ---- finding ---- */

static struct relay_trace *find(struct relay_traces *all, const char *host, const char *name)
{
	struct relay_trace *t = all->first;

	while (t && (strcmp(t->host, host) || strcmp(t->name, name)))
		t = t->next;
	return t;
}

/* NAME.spoor, NAME-2.spoor ... */
static bool numbered(const char *name, unsigned n, char *to)
{
	size_t len = strlen(name);
	bool suffix = len > 6 && !strcmp(name + len - 6, ".spoor");

	if (n == 1)
		return snprintf(to, SPOOR_RELAY_NAME, "%s", name) < SPOOR_RELAY_NAME;
	return snprintf(to, SPOOR_RELAY_NAME, "%.*s-%u%s", (int)(suffix ? len - 6 : len), name, n,
			suffix ? ".spoor" : "") < SPOOR_RELAY_NAME;
}

static int read_owner(int host_fd, const char *name, struct relay_owner *ret)
{
	_cleanup_(spoor_closep) int fd = openat(host_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : relay_owner_read(fd, ret);
}

static bool same(const uint8_t *a, const uint8_t *b)
{
	uint8_t differ = 0;

	for (int i = 0; i < 16; i++) /* in the same time wherever they differ */
		differ |= a[i] ^ b[i];
	return !differ;
}

/* Under which name the sender's trace is, or can be. *ret_owner: whose is there. 1: it is there; 0: not. */
static int find_name(int host_fd, const struct spoor_relay_hello *h, const char *peer, char *name,
		     struct relay_owner *ret_owner, struct spoor_error *e)
{
	for (unsigned i = 1; i < MOST_NAMES && numbered(h->name, i, name); i++) {
		struct stat st;

		if (fstatat(host_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return errno == ENOENT ? 0 : spoor_fail(e, errno, "%s: %s", name, strerror(errno));
		if (read_owner(host_fd, name, ret_owner) || !same(ret_owner->token, h->token))
			continue;
		if (strcmp(ret_owner->peer, peer))
			return spoor_fail(e, EACCES, "%s: was begun with another certificate", name);
		return 1;
	}
	return spoor_fail(e, EEXIST, "%s: there are too many of that name", h->name);
}

/* ---- taking ---- */

static int open_trace(struct relay_traces *all, int host_fd, struct relay_trace *t, struct spoor_error *e)
{
	int r;

	if (t->replica)
		return 0;
	r = spoor_replica_open(host_fd, t->name, t->host, t->owner.parts, &t->replica);
	if (!r)
		r = relay_owner_write(spoor_replica_fd(t->replica), &t->owner);
	if (r)
		return spoor_fail(e, -r, "%s/%s/%s: cannot be written: %s", all->path, t->host, t->name,
				  r == -EBUSY ? "another relay, or a reader, holds it" : strerror(-r));
	return 0;
}

/* Its writer is done for: what is there is read, and the trace is the new sender's. */
static int resume(struct relay_traces *all, struct relay_trace *t, const struct spoor_relay_hello *h, uint64_t window,
		  void **ret, size_t *ret_len, struct spoor_error *e)
{
	char path[sizeof(all->path) + SPOOR_RELAY_HOST + SPOOR_RELAY_NAME + 2];

	spoor_replica_close(t->replica);
	t->replica = NULL;
	t->ended = false;
	snprintf(path, sizeof(path), "%s/%s/%s", all->path, t->host, t->name);
	return spoor_digest_make(path, h->boot_id, window, ret, ret_len, e);
}

static struct relay_trace *add(struct relay_traces *all, const char *host, const char *name)
{
	struct relay_trace *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	snprintf(t->host, sizeof(t->host), "%s", host);
	snprintf(t->name, sizeof(t->name), "%s", name);
	t->next = all->first;
	all->first = t;
	return t;
}

static int open_host(struct relay_traces *all, const char *host, struct spoor_error *e)
{
	char directory[SPOOR_RELAY_HOST + 1];
	int fd;

	spoor_host_directory(host, directory, sizeof(directory));
	if (strcmp(host, directory))
		return spoor_fail(e, EINVAL, "%s: no name for a host: a trace's own files are called so", host);
	if (mkdirat(all->dir_fd, host, 0700) < 0 && errno != EEXIST)
		return spoor_fail(e, errno, "%s/%s: %s", all->path, host, strerror(errno));
	fd = openat(all->dir_fd, host, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? spoor_fail(e, errno, "%s/%s: %s", all->path, host, strerror(errno)) : fd;
}

static void fill_owner(const struct spoor_relay_hello *h, const char *peer, uint64_t window, struct relay_owner *o)
{
	memcpy(o->token, h->token, sizeof(o->token));
	memcpy(o->incarnation, h->incarnation, sizeof(o->incarnation));
	snprintf(o->peer, sizeof(o->peer), "%s", peer);
	o->parts = h->parts;
	o->window = window;
}

/* there: it is on the disk, with this owner. */
static int check(const struct spoor_relay_hello *h, const char *name, bool there, const struct relay_owner *owner,
		 struct spoor_error *e)
{
	if (h->window > SPOOR_RELAY_WINDOW) /* with less of it told, packets would come twice */
		return spoor_fail(e, E2BIG, "%s: its sender may have more on the way than this relay can tell of",
				  name);
	if (!there && (h->kind == SPOOR_RELAY_RESUME || h->acked))
		return spoor_fail(e, ENOENT,
				  "%s is not in its directory: it was removed, or the relay was started with another "
				  "directory",
				  name);
	if (there && h->kind == SPOOR_RELAY_BEGIN && !same(owner->incarnation, h->incarnation))
		return spoor_fail(e, ESTALE, "%s: another sender has gone on with it", name);
	return 0;
}

/* Of one that could not be begun: its name is to be had when it is tried again. */
static void remove_begun(int host_fd, const char *host, const char *name)
{
	static const char *const below[] = { "/kernel", "/ust", "" };
	char path[SPOOR_RELAY_NAME + SPOOR_RELAY_HOST + 16];

	for (unsigned i = 0; i < sizeof(below) / sizeof(*below); i++) {
		snprintf(path, sizeof(path), "%s/%s%s", name, host, below[i]);
		unlinkat(host_fd, path, AT_REMOVEDIR);
	}
	unlinkat(host_fd, name, AT_REMOVEDIR);
}

int relay_traces_take(struct relay_traces *all, const struct spoor_relay_hello *h, const char *peer,
		      struct relay_trace **ret, void **ret_digest, size_t *ret_len, struct spoor_error *e)
{
	_cleanup_(spoor_closep) int host_fd = open_host(all, h->host, e);
	char name[SPOOR_RELAY_NAME];
	struct relay_owner owner = {};
	struct relay_trace *t;
	uint64_t window;
	bool known;
	int there, r;

	if (host_fd < 0)
		return host_fd;
	there = find_name(host_fd, h, peer, name, &owner, e);
	r = there < 0 ? there : check(h, name, there, &owner, e);
	if (r)
		return r;
	window = h->window > owner.window ? h->window : owner.window;
	t = find(all, h->host, name);
	known = t;
	if (!t)
		t = add(all, h->host, name);
	if (!t)
		return spoor_fail(e, ENOMEM, "out of memory");
	if (!known || h->kind == SPOOR_RELAY_RESUME)
		t->applied = h->acked;
	if (h->kind == SPOOR_RELAY_RESUME)
		r = resume(all, t, h, window, ret_digest, ret_len, e);
	if (!r) {
		fill_owner(h, peer, window, &t->owner);
		r = open_trace(all, host_fd, t, e);
	}
	if (r && !t->client) {
		forget(all, t);
		if (!there)
			remove_begun(host_fd, h->host, name);
		return r;
	}
	*ret = t;
	return r;
}

/* ---- operations ---- */

int relay_trace_apply(struct relay_trace *t, const struct spoor_relay_op *op)
{
	size_t len = op->head.size - sizeof(*op);

	if (!t->replica)
		return -ENOENT;
	switch (op->head.type) {
	case SPOOR_RELAY_SEGMENT:
		return spoor_replica_segment(t->replica, op->part, op->segment);
	case SPOOR_RELAY_METADATA:
		return spoor_replica_metadata(t->replica, op->part, op->segment, op->offset, op->data, len);
	case SPOOR_RELAY_READY:
		return spoor_replica_ready(t->replica, op->part, op->segment);
	case SPOOR_RELAY_PACKET:
		return spoor_replica_data(t->replica, op->part, op->segment, op->instance, op->offset, op->data, len);
	case SPOOR_RELAY_MANIFEST:
		return spoor_replica_manifest(t->replica, op->offset, op->flag == 1, op->data, len);
	case SPOOR_RELAY_DROP:
		return spoor_replica_drop(t->replica, op->part, op->segment);
	case SPOOR_RELAY_END:
		t->ended = true;
		t->in_order = op->flag == 1;
		return 0;
	}
	return -EBADMSG;
}

void relay_trace_leave(struct relay_traces *all, struct relay_trace *t, uint64_t now)
{
	t->client = NULL;
	t->left = now;
	if (t->ended)
		forget(all, t);
}

void relay_traces_tick(struct relay_traces *all, uint64_t now, uint64_t patience,
		       void (*each)(void *ctx, const struct relay_trace *t), void *ctx)
{
	for (struct relay_trace *t = all->first, *next; t; t = next) {
		next = t->next;
		if (t->client || now - t->left < patience)
			continue;
		each(ctx, t);
		forget(all, t);
	}
}

/* Whose sender left first, and how many are away. */
static struct relay_trace *first_left(const struct relay_traces *all, unsigned *ret_away)
{
	struct relay_trace *first = NULL;

	*ret_away = 0;
	for (struct relay_trace *t = all->first; t; t = t->next) {
		if (t->client)
			continue;
		++*ret_away;
		first = first && first->left <= t->left ? first : t;
	}
	return first;
}

void relay_traces_limit(struct relay_traces *all, unsigned most, void (*each)(void *ctx, const struct relay_trace *t),
			void *ctx)
{
	struct relay_trace *t;
	unsigned away;

	while ((t = first_left(all, &away)) && away > most) {
		each(ctx, t);
		forget(all, t);
	}
}
