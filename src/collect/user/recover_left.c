/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/recover_left.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process.h"
#include "base/time.h"
#include "collect/user/spill.h"

#define TRIES 20 /* to read what is being written */

static void free_left(struct spoor_left *l)
{
	if (!l)
		return;
	spoor_source_done(&l->source);
	spoor_user_clock_done(&l->clock);
	spoor_closep(&l->spill_fd);
	free(l->path);
	free(l);
}

static void free_leftp(struct spoor_left **l)
{
	free_left(*l);
}

static void keep(void *left)
{
}

void spoor_lefts_done(struct spoor_lefts *all)
{
	tdestroy(all->by_uuid, keep);
	for (size_t i = 0; i < all->n; i++)
		free_left(all->all[i]);
	free(all->all);
}

/* Returns how much there is. */
static size_t read_at(int fd, void *to, size_t size, uint64_t from)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = pread(fd, (uint8_t *)to + done, size - done, from + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += n;
	}
	return done;
}

/* Into memory: a file can be cut while it is mapped. */
static int read_file(const char *path, int *ret_fd, struct stat *ret_stat, uint8_t **ret, size_t *ret_size,
		     struct spoor_error *e)
{
	_cleanup_(spoor_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	_cleanup_(spoor_freep) uint8_t *data = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return spoor_fail(e, errno, "%s: cannot be opened: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > SPOOR_ARENA_LARGEST)
		return spoor_fail(e, EBADMSG, "%s: it is no buffer of a traced program", path);
	data = malloc(st.st_size + 1);
	if (!data)
		return spoor_fail(e, ENOMEM, "%s: out of memory", path);
	*ret_size = read_at(fd, data, st.st_size, 0);
	*ret_stat = st;
	*ret = TAKE_PTR(data);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static bool same_times(const struct spoor_arena_packet *a, const struct spoor_arena_packet *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (a[i].serial != b[i].serial || a[i].begun != b[i].begun || a[i].owner != b[i].owner)
			return false;
	return true;
}

/*
 * As they were at one moment, so that no packet is missing between two that are there: none was taken or begun from one
 * look to the next. buf: room for as many.
 */
static void read_headers(const struct spoor_user_arena *a, int fd, struct spoor_arena_packet *to,
			 struct spoor_arena_packet *buf)
{
	size_t size = a->n_packets * sizeof(*to);

	for (int i = 0; i < TRIES; i++) {
		memmove(to, a->headers, size); /* where nothing more is there to be read */
		memcpy(buf, a->headers, size);
		read_at(fd, to, size, a->head.headers_offset);
		read_at(fd, buf, size, a->head.headers_offset);
		if (same_times(to, buf, a->n_packets))
			break;
	}
}

/* Is what is in a packet what its header said, which was read before it? now: what it says after that. */
static bool stood(const struct spoor_arena_packet *h, const struct spoor_arena_packet *now)
{
	return h->serial == now->serial && h->begun == now->begun && h->committed <= now->committed;
}

/* Once more, in an order in which what is read later is there if what was read before says so: how many stood. */
static unsigned read_again(struct spoor_user_arena *a, int fd, struct spoor_arena_packet *now)
{
	unsigned n = 0;

	read_at(fd, a->base, sizeof(a->head), 0);
	read_headers(a, fd, a->headers, now);
	read_at(fd, a->base + a->head.data_offset, a->size - a->head.data_offset, a->head.data_offset);
	read_headers(a, fd, now, now + a->n_packets);
	for (unsigned i = 0; i < a->n_packets; i++)
		n += stood(&a->headers[i], &now[i]);
	return n;
}

/* What stood is not taken either if its program is about to overwrite it: others of its age may be gone. */
static void take_owner(struct spoor_user_arena *a, unsigned i, uint64_t now)
{
	uint64_t before = a->headers[i].owner;

	a->headers[i].owner = now;
	if (!spoor_user_packet_leaves(a, i))
		a->headers[i].owner = before;
}

/*
 * Its program writes on while it is read: more than half of its packets are to stand meanwhile, if that can be had. Of
 * one in which another began nothing is taken: it is overwritten, or was spilled, and is there.
 */
static int settle(struct spoor_user_arena *a, int fd)
{
	_cleanup_(spoor_freep) struct spoor_arena_packet *now = calloc(a->n_packets, 2 * sizeof(*now));
	struct spoor_arena *head = (struct spoor_arena *)a->base;

	if (!now)
		return -ENOMEM;
	if (a->size < a->head.size) /* it was cut: whoever runs, it is not his */
		return 0;
	for (int i = 0; i < TRIES && read_again(a, fd, now) <= a->n_packets / 2; i++)
		;
	for (unsigned i = 0; i < a->n_packets; i++) {
		if (stood(&a->headers[i], &now[i])) {
			take_owner(a, i, now[i].owner);
			continue;
		}
		a->headers[i] = now[i];
		a->headers[i].committed = 0;
	}
	/* They are only added to: those of what was read are there now. */
	read_at(fd, &head->defs_used, sizeof(head->defs_used), offsetof(struct spoor_arena, defs_used));
	read_at(fd, a->base + a->head.defs_offset, a->head.defs_size, a->head.defs_offset);
	return 0;
}

static bool same_boot(const struct spoor_arena *h)
{
	uint8_t ours[16];

	return !spoor_boot_id(ours) && !memcmp(ours, h->boot_id, sizeof(ours));
}

static void take_clocks(struct spoor_left *l)
{
	struct spoor_user_arena *a = l->source.arena;

	spoor_user_arena_clocks(a, &l->clock);
	for (unsigned i = 0; i < a->n_packets; i++)
		if (a->headers[i].mono)
			spoor_user_clock_add(&l->clock, (struct spoor_clock_pair){ a->headers[i].tsc,
										   a->headers[i].mono });
	/* What came after the program's last pair lies before now. */
	if (same_boot(&a->head))
		spoor_user_clock_add(&l->clock, spoor_clock_pair_now());
}

/* Equal: the same program's. */
static int by_uuid(const void *a, const void *b)
{
	const struct spoor_left *x = a, *y = b;

	return memcmp(x->source.arena->head.uuid, y->source.arena->head.uuid, 16);
}

/* Named twice, or with its directory: 0. A copy: an error, for it may not be as the other is. */
static int pass_over(const struct spoor_left *l, const struct spoor_left *known, const char *path,
		     struct spoor_error *e)
{
	if (l->dev == known->dev && l->ino == known->ino)
		return 0;
	return spoor_fail(e, EEXIST, "%s: another file has the same program's buffer, and was taken", path);
}

/* Of copies the larger one is taken: the other was cut. */
static int replace(struct spoor_lefts *all, struct spoor_left **known, struct spoor_left *l, struct spoor_error *e)
{
	struct spoor_left *before = *known;
	int err = pass_over(before, l, before->path, e);
	size_t i = 0;

	while (all->all[i] != before)
		i++;
	all->all[i] = *known = l;
	free_left(before);
	return err;
}

static int add_left(struct spoor_lefts *all, const char *path, struct spoor_error *e)
{
	_cleanup_(free_leftp) struct spoor_left *l = calloc(1, sizeof(*l));
	struct spoor_left **grown = reallocarray(all->all, all->n + 1, sizeof(*grown)), **known;
	_cleanup_(spoor_closep) int fd = -1;
	struct spoor_error inner = { "" };
	uint8_t *data = NULL;
	struct stat st = {};
	size_t size = 0;
	int err;

	if (grown)
		all->all = grown;
	if (!l || !grown)
		return spoor_fail(e, ENOMEM, "%s: out of memory", path);
	l->spill_fd = -1;
	l->path = strdup(path);
	if (!l->path)
		return spoor_fail(e, ENOMEM, "%s: out of memory", path);
	err = read_file(path, &fd, &st, &data, &size, e);
	if (err)
		return err;
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	err = spoor_user_arena_own(data, size, &l->source.arena, &inner);
	if (err)
		return spoor_fail(e, -err, "%s: %s", path, inner.text);
	known = tfind(l, &all->by_uuid, by_uuid);
	if (known && l->source.arena->size <= (*known)->source.arena->size)
		return pass_over(l, *known, path, e);
	l->runs = same_boot(&l->source.arena->head) &&
		  spoor_process_runs(l->source.arena->head.pid, l->source.arena->head.start_time);
	if (l->runs && settle(l->source.arena, fd))
		return spoor_fail(e, ENOMEM, "%s: out of memory", path);
	err = spoor_spill_add(l->source.arena, path, &l->spill_fd, e);
	if (err)
		return err;
	take_clocks(l);
	l->source.clock = &l->clock;
	if (known)
		return replace(all, known, TAKE_PTR(l), e);
	if (!tsearch(l, &all->by_uuid, by_uuid))
		return spoor_fail(e, ENOMEM, "%s: out of memory", path);
	all->all[all->n++] = TAKE_PTR(l);
	return 0;
}

/* A file that cannot be read does not take the others with it. */
static int try_left(struct spoor_lefts *all, const char *path, struct spoor_error *e)
{
	struct spoor_error why = { "" };
	int err = add_left(all, path, &why);

	if (err == -ENOMEM)
		return spoor_fail(e, ENOMEM, "%s", why.text);
	if (err && !all->unreadable++)
		snprintf(all->why, sizeof(all->why), "%s", why.text);
	return 0;
}

static bool ends_in(const char *name, const char *suffix)
{
	size_t n = strlen(name), m = strlen(suffix);

	return n > m && !strcmp(name + n - m, suffix);
}

/* DIR/... of a shell names it beside the buffers. */
static int try_spilled(struct spoor_lefts *all, const char *path, struct spoor_error *e)
{
	_cleanup_(spoor_freep) char *name = NULL;

	if (asprintf(&name, "%.*s.arena", (int)(strlen(path) - strlen(".spill")), path) < 0) {
		name = NULL;
		return spoor_fail(e, ENOMEM, "%s: out of memory", path);
	}
	return try_left(all, name, e);
}

int spoor_lefts_add(struct spoor_lefts *all, const char *path, struct spoor_error *e)
{
	DIR *d = opendir(path);
	struct dirent *de;
	int err = 0;

	if (!d)
		return ends_in(path, ".spill") ? try_spilled(all, path, e) : try_left(all, path, e);
	while (!err && (de = readdir(d))) {
		_cleanup_(spoor_freep) char *name = NULL;

		if (!ends_in(de->d_name, ".arena"))
			continue;
		if (asprintf(&name, "%s/%s", path, de->d_name) < 0) {
			name = NULL;
			err = spoor_fail(e, ENOMEM, "%s: out of memory", path);
			break;
		}
		err = try_left(all, name, e);
	}
	closedir(d);
	return err;
}
