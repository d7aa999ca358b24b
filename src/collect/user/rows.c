/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/rows.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "object/identity.h"
#include "object/mapped_file.h"
#include "unwind/row_file.h"

#define MOST_WAITING 20000
#define MOST_KEPT 256 /* files whose rows are at hand: a descriptor each */
#define REST 9	      /* what failed is tried again after so many times as long as it took */

struct asked {
	struct asked *next;
	uint32_t pid;
	struct spoor_user_rows_answer a;
};

struct list {
	struct asked *first, **last;
};

/* The thread's own: rows of a file, by its content. */
struct kept {
	uint64_t hash[2];
	int fd;		/* -1: it has none */
	uint64_t until; /* ns: this holds so long */
};

struct spoor_user_rows {
	struct spoor_rowd *rowd;
	pthread_t thread;
	bool running;
	int done_fd;
	struct kept kept[MOST_KEPT];
	size_t n_kept; /* ever */
	bool told;     /* why one has none */

	pthread_mutex_t lock; /* all below */
	pthread_cond_t wake;
	bool stop;
	struct list asked, answered;
	size_t n_waiting;
};

static void append(struct list *l, struct asked *a)
{
	a->next = NULL;
	*l->last = a;
	l->last = &a->next;
}

static struct asked *first(struct list *l)
{
	struct asked *a = l->first;

	if (!a)
		return NULL;
	l->first = a->next;
	if (!l->first)
		l->last = &l->first;
	return a;
}

static void free_list(struct list *l)
{
	struct asked *a;

	while ((a = first(l))) {
		if (a->a.fd >= 0)
			close(a->a.fd);
		free(a->a.def);
		free(a->a.why);
		free(a);
	}
}

/* ---- the thread ---- */

/*
 * The file. Of a program that runs the kernel is asked what lies there: what the program says about itself leads to no
 * other file than it has mapped.
 */
static int open_file(const struct asked *a)
{
	const struct spoor_def_object *d = a->a.def;
	struct spoor_mapped_file m = { .pid = a->pid, .path = d->path };

	if (spoor_mapped_file_at(a->pid, d->start, &m) || m.ino != d->ino || !d->ino || d->path[0] != '/')
		return -ENOENT;
	return spoor_mapped_file_open(&m);
}

static int share(struct spoor_rows *rows, struct spoor_error *e)
{
	int fd = spoor_row_file_share(rows);

	spoor_rows_free(rows);
	return fd < 0 ? spoor_fail(e, -fd, "no unwind rows: %s", strerror(-fd)) : fd;
}

/* The vDSO is the same in every process of this kernel. */
static int vdso_rows(void)
{
	const void *image = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct spoor_rows rows;

	if (!image || spoor_rows_compile(image, 2 * sysconf(_SC_PAGESIZE), &rows, NULL))
		return -ENODATA;
	return share(&rows, NULL);
}

static struct kept *find(struct spoor_user_rows *r, const uint64_t hash[2])
{
	for (size_t i = 0; i < r->n_kept && i < MOST_KEPT; i++)
		if (r->kept[i].hash[0] == hash[0] && r->kept[i].hash[1] == hash[1])
			return &r->kept[i];
	return NULL;
}

static void keep(struct spoor_user_rows *r, const uint64_t hash[2], int fd, uint64_t until)
{
	struct kept *k = find(r, hash);
	bool used = k || r->n_kept >= MOST_KEPT;

	if (!k)
		k = &r->kept[r->n_kept++ % MOST_KEPT];
	if (used && k->fd >= 0)
		close(k->fd);
	*k = (struct kept){ .hash = { hash[0], hash[1] }, .fd = fd < 0 ? -1 : fd, .until = until };
}

/* It has none, and never will. */
static bool is_of_content(int err)
{
	return err == -ENODATA || err == -ENOEXEC || err == -EBADMSG;
}

static int compile(struct spoor_user_rows *r, int file, struct spoor_object_identity *id, struct spoor_error *e)
{
	struct spoor_rows rows;
	int err = spoor_rowd_get(r->rowd, file, id, &rows, e);

	return err ? err : share(&rows, e);
}

/* e: where it is not for the content that there are none. */
static int file_rows(struct spoor_user_rows *r, int file, struct spoor_error *e)
{
	struct spoor_object_identity id = {};
	uint64_t began = spoor_now_monotonic(), now;
	struct kept *k;
	int fd = spoor_object_identify(file, &id, e);

	if (fd < 0)
		return fd;
	k = find(r, id.hash);
	if (k && began < k->until)
		return k->fd;
	fd = compile(r, file, &id, e);
	if (is_of_content(fd))
		e->text[0] = '\0';
	now = spoor_now_monotonic();
	keep(r, id.hash, fd, fd >= 0 || is_of_content(fd) ? UINT64_MAX : now + REST * (now - began));
	return fd;
}

static int find_rows(struct spoor_user_rows *r, const struct asked *a, struct spoor_error *e)
{
	_cleanup_(spoor_closep) int file = -1;
	static const uint64_t vdso[2] = { 1, 0 }; /* no content's hash */
	struct kept *k;
	int fd;

	if (!(a->a.def->flags & SPOOR_DEF_OBJECT_VDSO)) {
		file = open_file(a);
		return file < 0 ? file : file_rows(r, file, e);
	}
	k = find(r, vdso);
	if (k)
		return k->fd;
	fd = vdso_rows();
	keep(r, vdso, fd, UINT64_MAX);
	return fd;
}

static void work(struct spoor_user_rows *r, struct asked *a)
{
	struct spoor_error e = { "" };
	int fd = find_rows(r, a, &e);

	a->a.fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (e.text[0] && !r->told) {
		a->a.why = strdup(e.text);
		r->told = true;
	}
}

static void *serve(void *arg)
{
	struct spoor_user_rows *r = arg;
	uint64_t one = 1;

	pthread_mutex_lock(&r->lock);
	while (!r->stop) {
		struct asked *a = first(&r->asked);

		if (!a) {
			pthread_cond_wait(&r->wake, &r->lock);
			continue;
		}
		pthread_mutex_unlock(&r->lock);
		work(r, a);
		pthread_mutex_lock(&r->lock);
		append(&r->answered, a);
		if (write(r->done_fd, &one, sizeof(one)) < 0)
			continue; /* it is readable already */
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* ---- asking ---- */

/* Not before it is asked: a thread has the privileges that its maker had then. */
static int run(struct spoor_user_rows *r)
{
	sigset_t all, old;
	int err;

	if (r->running)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = -pthread_create(&r->thread, NULL, serve, r);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	r->running = !err;
	return err;
}

int spoor_user_rows_ask(struct spoor_user_rows *r, struct spoor_user_rows_asker owner, uint32_t pid,
			const struct spoor_def_object *d)
{
	struct asked *a;
	int err = run(r);

	if (err)
		return err;
	a = calloc(1, sizeof(*a));
	if (!a || !(a->a.def = malloc(d->def.size))) {
		free(a);
		return -ENOMEM;
	}
	memcpy(a->a.def, d, d->def.size);
	a->pid = pid;
	a->a.owner = owner;
	a->a.fd = -1;
	pthread_mutex_lock(&r->lock);
	if (r->n_waiting < MOST_WAITING) {
		append(&r->asked, a);
		r->n_waiting++;
		pthread_cond_signal(&r->wake);
	} else {
		err = -ENOBUFS;
	}
	pthread_mutex_unlock(&r->lock);
	if (err) {
		free(a->a.def);
		free(a);
	}
	return err;
}

bool spoor_user_rows_take(struct spoor_user_rows *r, struct spoor_user_rows_answer *ret)
{
	struct asked *a;
	uint64_t n;

	pthread_mutex_lock(&r->lock);
	a = first(&r->answered);
	r->n_waiting -= a != NULL;
	if (!a && read(r->done_fd, &n, sizeof(n)) < 0)
		n = 0;
	pthread_mutex_unlock(&r->lock);
	if (!a)
		return false;
	*ret = a->a;
	free(a);
	return true;
}

int spoor_user_rows_fd(const struct spoor_user_rows *r)
{
	return r->done_fd;
}

/* ---- beginning and end ---- */

int spoor_user_rows_new(const char *cache_dir, struct spoor_user_rows **ret, struct spoor_error *e)
{
	struct spoor_user_rows *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return spoor_fail(e, ENOMEM, "out of memory");
	r->asked.last = &r->asked.first;
	r->answered.last = &r->answered.first;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->wake, NULL);
	r->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = spoor_rowd_start(cache_dir, &r->rowd, e);
	if (err && cache_dir)
		err = spoor_rowd_start(NULL, &r->rowd, e); /* without a cache it is only slower */
	if (err) {
		spoor_user_rows_free(r);
		return err;
	}
	*ret = r;
	return 0;
}

void spoor_user_rows_free(struct spoor_user_rows *r)
{
	if (!r)
		return;
	if (r->running) {
		pthread_mutex_lock(&r->lock);
		r->stop = true;
		pthread_cond_signal(&r->wake);
		pthread_mutex_unlock(&r->lock);
		pthread_join(r->thread, NULL);
	}
	free_list(&r->asked);
	free_list(&r->answered);
	for (size_t i = 0; i < r->n_kept && i < MOST_KEPT; i++)
		if (r->kept[i].fd >= 0)
			close(r->kept[i].fd);
	spoor_rowd_stop(r->rowd);
	if (r->done_fd >= 0)
		close(r->done_fd);
	free(r);
}
