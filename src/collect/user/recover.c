/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/recover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "collect/user/spill.h"
#include "collect/user/taker.h"
#include "collect/user/threads.h"

#define FIRST_STEP (10 * 1000000ULL) /* ns of a round; it is adapted to how much that is */
#define ENOUGH (2u << 20) /* bytes of a round: with less, the next one is longer */

struct left {
	struct spoor_source source;
	struct spoor_user_clock clock;
	int spill_fd;
	bool runs;
};

struct piece { /* a packet with something in it */
	struct left *left;
	unsigned packet;
	uint64_t begin; /* ns */
};

struct recovery {
	struct left **all;
	size_t n;
	struct piece *pieces; /* by begin */
	size_t n_pieces;
	struct spoor_recovery *ret;
};

/* ---- reading what is left ---- */

static void free_left(struct left *l)
{
	if (!l)
		return;
	spoor_source_done(&l->source);
	spoor_user_clock_done(&l->clock);
	spoor_closep(&l->spill_fd);
	free(l);
}

static void free_leftp(struct left **l)
{
	free_left(*l);
}

static void recovery_done(struct recovery *r)
{
	for (size_t i = 0; i < r->n; i++)
		free_left(r->all[i]);
	free(r->all);
	free(r->pieces);
}

/* Into memory: a file can be cut while it is mapped. */
static int read_file(const char *path, uint8_t **ret, size_t *ret_size, struct spoor_error *e)
{
	_cleanup_(spoor_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	_cleanup_(spoor_freep) uint8_t *data = NULL;
	size_t done = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return spoor_fail(e, errno, "%s: cannot be opened: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > SPOOR_ARENA_LARGEST)
		return spoor_fail(e, EBADMSG, "%s: it is no buffer of a traced program", path);
	data = malloc(st.st_size + 1);
	if (!data)
		return spoor_fail(e, ENOMEM, "%s: out of memory", path);
	while (done < (size_t)st.st_size) {
		ssize_t n = pread(fd, data + done, st.st_size - done, done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += n;
	}
	*ret = TAKE_PTR(data);
	*ret_size = done;
	return 0;
}

static bool same_boot(const struct spoor_arena *h)
{
	_cleanup_(spoor_fclosep) FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	char text[64] = "", ours[33] = "", theirs[33];
	size_t n = 0;

	if (!f || !fgets(text, sizeof(text), f))
		return false;
	for (const char *p = text; *p && n < 32; p++)
		if (*p != '-')
			ours[n++] = *p;
	for (int i = 0; i < 16; i++)
		snprintf(theirs + 2 * i, 3, "%02x", h->boot_id[i]);
	return !strncmp(ours, theirs, 32);
}

static void take_clocks(struct left *l)
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

static int add_left(struct recovery *r, const char *path, struct spoor_error *e)
{
	_cleanup_(free_leftp) struct left *l = calloc(1, sizeof(*l));
	struct left **grown = reallocarray(r->all, r->n + 1, sizeof(*grown));
	struct spoor_error inner = { "" };
	uint8_t *data = NULL;
	size_t size = 0;
	int err;

	if (grown)
		r->all = grown;
	if (!l || !grown)
		return spoor_fail(e, ENOMEM, "%s: out of memory", path);
	l->spill_fd = -1;
	err = read_file(path, &data, &size, e);
	if (err)
		return err;
	err = spoor_user_arena_own(data, size, &l->source.arena, &inner);
	if (err)
		return spoor_fail(e, -err, "%s: %s", path, inner.text);
	err = spoor_spill_add(l->source.arena, path, &l->clock, &l->spill_fd, e);
	if (err)
		return err;
	take_clocks(l);
	l->source.clock = &l->clock;
	l->runs = same_boot(&l->source.arena->head) &&
		  spoor_process_runs(l->source.arena->head.pid, l->source.arena->head.start_time);
	r->all[r->n++] = TAKE_PTR(l);
	return 0;
}

/* A file that cannot be read does not take the others with it. */
static int try_left(struct recovery *r, const char *path, struct spoor_error *e)
{
	struct spoor_error why = { "" };
	int err = add_left(r, path, &why);

	if (err == -ENOMEM)
		return spoor_fail(e, ENOMEM, "%s", why.text);
	if (err && !r->ret->unreadable++)
		snprintf(r->ret->why, sizeof(r->ret->why), "%s", why.text);
	return 0;
}

static bool is_arena(const char *name)
{
	size_t n = strlen(name);

	return n > 6 && !strcmp(name + n - 6, ".arena");
}

static int add_path(struct recovery *r, const char *path, struct spoor_error *e)
{
	DIR *d = opendir(path);
	struct dirent *de;
	int err = 0;

	if (!d)
		return try_left(r, path, e);
	while (!err && (de = readdir(d))) {
		_cleanup_(spoor_freep) char *name = NULL;

		if (!is_arena(de->d_name))
			continue;
		if (asprintf(&name, "%s/%s", path, de->d_name) < 0) {
			name = NULL;
			err = spoor_fail(e, ENOMEM, "%s: out of memory", path);
			break;
		}
		err = try_left(r, name, e);
	}
	closedir(d);
	return err;
}

/* ---- in the order of time ---- */

static int by_begin(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static uint64_t begin_of(struct left *l, unsigned i)
{
	struct spoor_user_arena *a = l->source.arena;
	uint64_t ts = 0;

	if (a->packets[i].fd >= 0) {
		if (pread(a->packets[i].fd, &ts, sizeof(ts), a->packets[i].offset) != sizeof(ts))
			return 0;
	} else {
		memcpy(&ts, a->base + a->packets[i].offset, sizeof(ts));
	}
	return a->head.clock == SPOOR_ARENA_TSC ? spoor_user_clock_ns(&l->clock, ts) : ts;
}

static int list_pieces(struct recovery *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		n += r->all[i]->source.arena->n_packets;
	r->pieces = calloc(n ? n : 1, sizeof(*r->pieces));
	if (!r->pieces)
		return -ENOMEM;
	for (size_t i = 0; i < r->n; i++) {
		struct spoor_user_arena *a = r->all[i]->source.arena;

		for (unsigned k = 0; k < a->n_packets; k++)
			if (a->headers[k].committed && SPOOR_OWNER_STATE(a->headers[k].owner) != SPOOR_PACKET_FREE)
				r->pieces[r->n_pieces++] = (struct piece){ r->all[i], k, begin_of(r->all[i], k) };
	}
	qsort(r->pieces, r->n_pieces, sizeof(*r->pieces), by_begin);
	return 0;
}

static bool is_done(const struct piece *p)
{
	const struct spoor_user_arena *a = p->left->source.arena;
	const struct spoor_user_packet *k = &a->packets[p->packet];

	return k->bad || (k->serial == a->headers[p->packet].serial && k->position >= a->headers[p->packet].committed);
}

struct sweep {
	size_t first, next; /* pieces before `first` are done, those from `next` on begin later */
	uint64_t from, step;
};

/* Takes what lies before `until`. -EAGAIN: that is more than a round can be. */
static int take_until(struct recovery *r, struct sweep *s, struct spoor_taker *t, uint64_t until)
{
	spoor_taker_round_until(t, until);
	for (s->next = s->first; s->next < r->n_pieces && r->pieces[s->next].begin <= until; s->next++) {
		struct piece *p = &r->pieces[s->next];
		int err = is_done(p) ? 0 : spoor_taker_take_packet(t, &p->left->source, p->packet);

		if (err)
			return err;
	}
	return 0;
}

static int sweep(struct recovery *r, struct spoor_taker *t, struct spoor_error *e)
{
	struct sweep s = { .step = FIRST_STEP, .from = r->n_pieces ? r->pieces[0].begin : 0 };

	while (s.first < r->n_pieces) {
		uint64_t until = s.from + s.step < SPOOR_TAKER_END ? s.from + s.step : SPOOR_TAKER_END;
		int err = take_until(r, &s, t, until);

		if (err == -EAGAIN && s.step > 1) {
			spoor_taker_undo(t);
			s.step /= 2;
			continue;
		}
		if (err && err != -EAGAIN)
			return err;
		if (spoor_taker_bytes(t) < ENOUGH && s.step < SPOOR_TAKER_END)
			s.step *= 2;
		err = spoor_taker_write(t, e) ?: err;
		if (err && err != -EAGAIN)
			return err;
		while (s.first < r->n_pieces && is_done(&r->pieces[s.first]))
			s.first++;
		if (err == -EAGAIN)
			continue; /* so much at one nanosecond */
		s.from = until;
		if (s.first == s.next && s.next < r->n_pieces && r->pieces[s.next].begin > until)
			s.from = r->pieces[s.next].begin - 1;
		else if (until == SPOOR_TAKER_END)
			break;
	}
	return 0;
}

/* ---- the trace ---- */

static void tell(struct recovery *r, struct spoor_taker *t)
{
	for (size_t i = 0; i < r->n; i++) {
		struct spoor_source *s = &r->all[i]->source;
		unsigned state = SPOOR_PROGRAM_CRASHED;

		if (s->arena->malformed)
			state = SPOOR_PROGRAM_DAMAGED;
		else if (r->all[i]->runs)
			state = SPOOR_PROGRAM_RUNS;
		else if (spoor_user_arena_state(s->arena) == SPOOR_ARENA_ENDED)
			state = SPOOR_PROGRAM_ENDED;
		spoor_taker_tell(t, s, state);
		r->ret->programs++;
		r->ret->crashed += state == SPOOR_PROGRAM_CRASHED;
		r->ret->running += state == SPOOR_PROGRAM_RUNS;
		r->ret->stuck += s->arena->head.n_stuck != 0;
		r->ret->malformed += s->arena->malformed;
		r->ret->lost += spoor_user_arena_lost(s->arena);
	}
}

static int define_all(struct recovery *r, struct spoor_taker *t)
{
	uint64_t begin = r->n_pieces ? r->pieces[0].begin : 0;

	spoor_taker_round_until(t, begin);
	for (size_t i = 0; i < r->n; i++) {
		spoor_user_arena_define(r->all[i]->source.arena, spoor_taker_classes(t));
		spoor_taker_tell(t, &r->all[i]->source, SPOOR_PROGRAM_BEGUN);
	}
	return 0;
}

static int write_trace(struct recovery *r, const char *output, const char *command, struct spoor_error *e)
{
	const struct spoor_arena *h = &r->all[0]->source.arena->head;
	struct spoor_writer_options o = {
		.path = output,
		.command = command,
		.mode = "recovered",
		.n_lanes = SPOOR_LANES,
		.boot_id = h->boot_id,
		.epoch_offset = h->realtime - h->made,
	};
	struct spoor_taker_counts counts;
	struct spoor_writer *w = NULL;
	struct spoor_taker *t = NULL;
	int err = spoor_writer_open(&o, &w, e), err2;

	if (err)
		return err;
	err = spoor_taker_new(w, &t);
	if (!err)
		err = define_all(r, t);
	if (!err)
		err = sweep(r, t, e);
	if (t) {
		tell(r, t);
		spoor_taker_counts(t, &counts);
		r->ret->events = counts.events;
		r->ret->lost += counts.late;
	}
	err2 = spoor_writer_close(w, err ? NULL : e);
	spoor_taker_free(t);
	if (err == -ENOMEM)
		return spoor_fail(e, ENOMEM, "%s: out of memory", output);
	return err ? err : err2;
}

static int check_boots(const struct recovery *r, struct spoor_error *e)
{
	for (size_t i = 1; i < r->n; i++)
		if (memcmp(r->all[i]->source.arena->head.boot_id, r->all[0]->source.arena->head.boot_id, 16))
			return spoor_fail(e, EINVAL,
					  "the files are from before and after a restart of the machine, whose clocks "
					  "do not compare: recover them apart");
	return 0;
}

int spoor_recover(char *const *paths, size_t n, const char *output, const char *command, struct spoor_recovery *ret,
		  struct spoor_error *e)
{
	_cleanup_(recovery_done) struct recovery r = { .ret = ret };
	int err = 0;

	*ret = (struct spoor_recovery){};
	for (size_t i = 0; i < n && !err; i++)
		err = add_path(&r, paths[i], e);
	if (!err && !r.n && ret->unreadable)
		return spoor_fail(e, EBADMSG, "%s", ret->why);
	if (!err && !r.n)
		return spoor_fail(e, ENODATA, "%s: there is no buffer of a program (*.arena) in it", paths[0]);
	if (!err)
		err = check_boots(&r, e);
	if (!err && list_pieces(&r))
		err = spoor_fail(e, ENOMEM, "out of memory");
	return err ? err : write_trace(&r, output, command, e);
}
