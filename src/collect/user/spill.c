/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

struct spill {
	struct spoor_user_arena *a;
	int fd;
	uint64_t size;
	unsigned room; /* of a's arrays */
};

static int make_room(struct spill *s)
{
	struct spoor_user_arena *a = s->a;
	unsigned room = s->room ? s->room * 2 : a->n_packets + 256;
	void *p;

	if (a->n_packets < s->room)
		return 0;
	p = reallocarray(a->headers, room, sizeof(*a->headers));
	if (!p)
		return -ENOMEM;
	a->headers = p;
	p = reallocarray(a->packets, room, sizeof(*a->packets));
	if (!p)
		return -ENOMEM;
	a->packets = p;
	s->room = room;
	return 0;
}

static int add_packet(struct spill *s, uint64_t at, uint64_t size)
{
	struct spoor_user_arena *a = s->a;
	struct spoor_arena_packet h;
	int r = make_room(s);

	if (r)
		return r;
	if (size < sizeof(h) || pread(s->fd, &h, sizeof(h), at) != sizeof(h))
		return -EBADMSG;
	if (h.committed > size - sizeof(h) || h.committed > SPOOR_ARENA_MAX_PACKET || h.committed % 8 || !h.serial)
		return -EBADMSG;
	h.owner = SPOOR_OWNER(0, 0, SPOOR_PACKET_FULL, SPOOR_OWNER_TID(h.owner));
	h.consumed = 0;
	a->headers[a->n_packets] = h;
	a->packets[a->n_packets++] = (struct spoor_user_packet){
		.size = h.committed,
		.fd = s->fd,
		.offset = at + sizeof(h),
	};
	return 0;
}

/* One record at `at`. Returns its size; 0: it is the torn last one; or -errno. */
static int64_t add_record(struct spill *s, uint64_t at)
{
	struct spoor_spill r;
	int err = 0;

	if (s->size - at < sizeof(r) || pread(s->fd, &r, sizeof(r), at) != sizeof(r))
		return 0;
	if (r.magic != SPOOR_SPILL_MAGIC || r.size < sizeof(r) || r.size % 8)
		return -EBADMSG;
	if (r.size > s->size - at)
		return 0;
	if (memcmp(r.uuid, s->a->head.uuid, sizeof(r.uuid)))
		return r.size; /* another arena's, that had the name before */
	if (r.type == SPOOR_SPILL_PACKET)
		err = add_packet(s, at + sizeof(r), r.size - sizeof(r));
	return err ? err : (int64_t)r.size;
}

struct seen {
	uint64_t serial;
	unsigned packet;
};

static int by_serial(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->serial != y->serial)
		return x->serial < y->serial ? -1 : 1;
	return x->packet < y->packet ? -1 : x->packet > y->packet;
}

/* Of packets with one serial the longest counts. */
static int drop_doubles(struct spoor_user_arena *a)
{
	_cleanup_(spoor_freep) struct seen *all = reallocarray(NULL, a->n_packets, sizeof(*all));
	unsigned n = 0;

	if (!all)
		return -ENOMEM;
	for (unsigned i = 0; i < a->n_packets; i++)
		if (SPOOR_OWNER_STATE(a->headers[i].owner) != SPOOR_PACKET_FREE)
			all[n++] = (struct seen){ a->headers[i].serial, i };
	qsort(all, n, sizeof(*all), by_serial);
	for (unsigned i = 1; i < n; i++) {
		unsigned keep = all[i - 1].packet, drop = all[i].packet;

		if (all[i].serial != all[i - 1].serial)
			continue;
		if (a->headers[keep].committed < a->headers[drop].committed) {
			keep = all[i].packet;
			drop = all[i - 1].packet;
		}
		a->headers[drop].owner = 0;
		all[i].packet = keep;
	}
	return 0;
}

static int open_spill(const char *path, struct spill *s, struct spoor_error *e)
{
	_cleanup_(spoor_freep) char *name = NULL;
	size_t n = strlen(path);
	struct stat st = {};

	if (n < 6 || strcmp(path + n - 6, ".arena"))
		return -ENOENT;
	if (asprintf(&name, "%.*s.spill", (int)(n - 6), path) < 0) {
		name = NULL;
		return spoor_fail(e, ENOMEM, "%s: out of memory", path);
	}
	if (stat(name, &st) && errno == ENOENT)
		return -ENOENT;
	if (S_ISREG(st.st_mode)) { /* else to open it may do something */
		s->fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (s->fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
			return spoor_fail(e, errno, "%s: cannot be read: %s", name, strerror(errno));
	}
	if (s->fd >= 0 && !fstat(s->fd, &st) && S_ISREG(st.st_mode)) {
		s->size = st.st_size;
		return 0;
	}
	/* Others may make files there, too: the program wrote into none of theirs, and the arena has what it has. */
	spoor_user_arena_garbage(s->a, "what is in the place of its spill file");
	return -ENOENT;
}

int spoor_spill_add(struct spoor_user_arena *a, const char *path, int *ret_fd, struct spoor_error *e)
{
	struct spill s = { .a = a, .fd = -1 };
	int64_t n = 1;
	int r = open_spill(path, &s, e);

	if (r) {
		spoor_closep(&s.fd);
		return r == -ENOENT ? 0 : r;
	}
	for (uint64_t at = 0; n > 0 && at < s.size; at += n) {
		n = add_record(&s, at);
		if (n == -EBADMSG)
			spoor_user_arena_garbage(a, "its spilled packets");
	}
	r = n == -ENOMEM ? -ENOMEM : drop_doubles(a);
	*ret_fd = s.fd;
	return r ? spoor_fail(e, ENOMEM, "%s: out of memory", path) : 0;
}
