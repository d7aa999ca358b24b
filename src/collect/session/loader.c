/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The loader's thread: its queue, the raw stacks that it unwinds, and how these come back. */
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "collect/session/objects_internal.h"
#include "collect/session/privileges.h"

#define MAX_WAITING_BYTES (64u << 20)
#define AT_ONCE_MOST (64ULL << 20) /* bytes: the whole file is hashed, and nobody is to wait for that of a large one */
#define AT_ONCE_NS (200 * 1000000ULL) /* of each second */
/* How long a raw stack waits for what is told of by another CPU: all rings are looked at every 200 ms. */
#define OBJECTS_WAIT_NS 1000000000ULL
#define LAYOUT_WAIT_NS 400000000ULL /* it may be told of at the end of the call only, but a hung one has none */

/* ---- raw stacks ---- */

static const struct spoor_object_entry *lookup(void *ctx, uint32_t id)
{
	return spoor_objects_get(ctx, id);
}

/* Hands a finished stack to the recording's thread. */
static void deliver(struct spoor_objects *s, const struct spoor_ctl_raw *raw, int status, const uint64_t *frames,
		    unsigned n)
{
	struct unwound *u = calloc(1, sizeof(*u) + n * sizeof(*frames));
	size_t size = sizeof(u->stack) + n * sizeof(*frames);
	uint64_t one = 1;

	if (!u)
		return;
	u->stack.h.id = SPOOR_EV_STACK;
	u->stack.h.size4 = SPOOR_SIZE4(size);
	u->stack.h.ts = raw->h.ts;
	u->stack.id = raw->stack;
	u->stack.status = status;
	u->stack.way = SPOOR_WAY_USER;
	u->stack.n = n;
	if (n)
		memcpy(u->stack.frames, frames, n * sizeof(*frames));
	pthread_mutex_lock(&s->lock);
	*s->unwound_last = u;
	s->unwound_last = &u->next;
	pthread_mutex_unlock(&s->lock);
	if (write(s->done_fd, &one, sizeof(one)) < 0)
		return; /* it is readable already */
}

/* May it wait on? A long queue is gone through in no time: what counts is the time since it was first looked at. */
static bool may_wait(struct work *w, uint64_t most_ns)
{
	uint64_t now = spoor_now_monotonic();

	if (!w->since)
		w->since = now;
	return now - w->since < most_ns;
}

static int unwind(struct spoor_objects *s, struct work *w)
{
	const struct spoor_layout *layout = spoor_layouts_get(s->layouts, w->raw->layout);
	uint64_t frames[SPOOR_MAX_FRAMES];
	unsigned n = 0;
	int status;

	if (!layout && w->raw->layout && may_wait(w, LAYOUT_WAIT_NS))
		return SPOOR_RAW_WAIT;
	if (!layout)
		layout = spoor_layouts_read(s->layouts, s, w->raw);
	if (!layout || !layout->n)
		status = SPOOR_WALK_GONE;
	else
		status = spoor_raw_unwind(w->raw, layout, lookup, s, frames, &n);
	if (status == SPOOR_RAW_WAIT && may_wait(w, OBJECTS_WAIT_NS))
		return status;
	status = status < 0 ? SPOOR_WALK_NO_ROWS : status;
	pthread_mutex_lock(&s->lock);
	s->counts.walks[status]++;
	pthread_mutex_unlock(&s->lock);
	deliver(s, w->raw, status, frames, n);
	return 0;
}

/* ---- the thread ---- */

static void free_work(struct work *w)
{
	free(w->object);
	free(w);
}

/* Objects come before raw stacks: until their rows are loaded, more of those come. */
static void append(struct spoor_objects *s, struct work *w)
{
	struct work **at = s->last;

	if (w->kind == WORK_OBJECT)
		for (at = &s->first; *at && (*at)->kind == WORK_OBJECT;)
			at = &(*at)->next;
	w->next = *at;
	*at = w;
	if (!w->next)
		s->last = &w->next;
	s->n_waiting++;
	s->counts.waiting += w->kind == WORK_RAW;
	s->bytes_waiting += w->bytes;
}

static uint64_t cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return spoor_ns(t);
}

/*
 * Each call that goes through it meanwhile is one more raw stack. Who takes those out of the rings has real-time
 * priority: on his CPU the loader, or a thread that opens a file for it, would wait for tens of milliseconds. Programs
 * may have as many files as they like, so it has that priority for a part of each second only.
 */
static void load_at_once(struct spoor_objects *s, const struct spoor_ctl_object *o)
{
	uint64_t now = spoor_now_monotonic(), had = cpu_time();

	if (now - s->hurried_since >= SPOOR_NS_PER_SEC) {
		s->hurried_since = now;
		s->hurried_ns = 0;
	}
	if (o->key.size > AT_ONCE_MOST || s->hurried_ns >= AT_ONCE_NS) {
		spoor_objects_load(s, o);
		return;
	}
	spoor_privileges_at_once(true);
	spoor_objects_load(s, o);
	spoor_privileges_at_once(false);
	s->hurried_ns += cpu_time() - had;
}

static void *loader(void *arg)
{
	struct spoor_objects *s = arg;
	size_t stuck = 0; /* so many in a row had to wait */

	spoor_privileges_hurry(false);
	spoor_privileges_drop(1ULL << CAP_SYS_NICE); /* of this thread alone: it opens the files of strangers */
	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		struct work *w = s->first;
		bool again = false;

		if (!w) {
			pthread_cond_wait(&s->wake, &s->lock);
			continue;
		}
		s->first = w->next;
		if (!s->first)
			s->last = &s->first;
		pthread_mutex_unlock(&s->lock);

		if (w->kind == WORK_OBJECT)
			load_at_once(s, w->object);
		else if (w->kind == WORK_LAYOUT)
			spoor_layouts_keep(s->layouts, w->layout);
		else
			again = unwind(s, w) == SPOOR_RAW_WAIT;
		pthread_mutex_lock(&s->lock);
		stuck = again ? stuck + 1 : 0;
		if (stuck >= s->n_waiting) {
			pthread_mutex_unlock(&s->lock);
			usleep(5000);
			pthread_mutex_lock(&s->lock);
			stuck = 0;
		}
		s->n_waiting--;
		s->counts.waiting -= w->kind == WORK_RAW;
		s->bytes_waiting -= w->bytes;
		if (again)
			append(s, w);
		else
			free_work(w);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static int queue(struct spoor_objects *s, enum work_kind kind, const struct spoor_event_header *h)
{
	size_t size = spoor_event_size(h);
	struct work *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->object = malloc(size);
	if (!w->object) {
		free(w);
		return -ENOMEM;
	}
	memcpy(w->object, h, size);
	w->kind = kind;
	w->bytes = size;
	pthread_mutex_lock(&s->lock);
	if (kind == WORK_RAW && s->bytes_waiting > MAX_WAITING_BYTES) {
		s->counts.overflow++;
		pthread_mutex_unlock(&s->lock);
		free_work(w);
		return -ENOBUFS;
	}
	append(s, w);
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

int spoor_objects_announce(struct spoor_objects *s, const struct spoor_ctl_object *o)
{
	if (s->running)
		return queue(s, WORK_OBJECT, &o->h);
	spoor_objects_announced_left(s, o);
	return 0;
}

int spoor_objects_raw(struct spoor_objects *s, const struct spoor_ctl_raw *r)
{
	int err = s->running ? queue(s, WORK_RAW, &r->h) : -ESRCH;

	if (err) /* its event is written, and is to find it */
		deliver(s, r, SPOOR_WALK_LOST, NULL, 0);
	return s->running ? err : 0;
}

int spoor_objects_layout(struct spoor_objects *s, const struct spoor_ctl_layout *l)
{
	return s->running ? queue(s, WORK_LAYOUT, &l->h) : 0;
}

int spoor_loader_start(struct spoor_objects *s, struct spoor_error *e)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = -pthread_create(&s->thread, NULL, loader, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r)
		return spoor_fail(e, -r, "cannot start the loader thread: %s", strerror(-r));
	s->running = true;
	return 0;
}

void spoor_loader_stop(struct spoor_objects *s)
{
	struct unwound *u, *next_u;
	struct work *w, *next;

	if (s->running) {
		pthread_mutex_lock(&s->lock);
		s->stop = true;
		pthread_cond_signal(&s->wake);
		pthread_mutex_unlock(&s->lock);
		pthread_join(s->thread, NULL);
	}
	for (w = s->first; w; w = next) {
		next = w->next;
		free_work(w);
	}
	for (u = s->unwound; u; u = next_u) {
		next_u = u->next;
		free(u);
	}
}

/* ---- what it has done ---- */

size_t spoor_objects_unwound(struct spoor_objects *s, void (*done)(void *ctx, const struct spoor_stack *st), void *ctx)
{
	struct unwound *u, *next;
	uint64_t count;
	size_t n = 0;

	if (read(s->done_fd, &count, sizeof(count)) < 0)
		count = 0;
	pthread_mutex_lock(&s->lock);
	u = s->unwound;
	s->unwound = NULL;
	s->unwound_last = &s->unwound;
	pthread_mutex_unlock(&s->lock);
	for (; u; u = next, n++) {
		next = u->next;
		done(ctx, &u->stack);
		free(u);
	}
	return n;
}

int spoor_objects_fd(const struct spoor_objects *s)
{
	return s->done_fd;
}

size_t spoor_objects_waiting(struct spoor_objects *s)
{
	size_t n;

	pthread_mutex_lock(&s->lock);
	n = s->n_waiting;
	pthread_mutex_unlock(&s->lock);
	return n;
}
