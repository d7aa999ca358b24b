/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/waker.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST 100
#define REST_US 1000 /* between two calls, whatever programs do */
#ifndef FUTEX_32
#define FUTEX_32 2
#endif

struct spoor_waker {
	pthread_mutex_t lock;
	pthread_t thread;
	bool runs, ends;
	int fd;
	uint32_t changed; /* futex word: the list below has changed */
	struct spoor_arena *arenas[MOST];
	unsigned n;
};

/* What to sleep on, and what the words were: the first is our own. */
static unsigned gather(struct spoor_waker *w, struct futex_waitv *words)
{
	unsigned n = 0;

	pthread_mutex_lock(&w->lock);
	words[n++] = (struct futex_waitv){
		.uaddr = (uintptr_t)&w->changed, .val = w->changed, .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG
	};
	for (unsigned i = 0; i < w->n; i++)
		words[n++] = (struct futex_waitv){
			.uaddr = (uintptr_t)&w->arenas[i]->wake,
			.val = __atomic_load_n(&w->arenas[i]->wake, __ATOMIC_ACQUIRE),
			.flags = FUTEX_32,
		};
	if (w->ends)
		n = 0;
	pthread_mutex_unlock(&w->lock);
	return n;
}

static void *run(void *arg)
{
	struct futex_waitv words[MOST + 1];
	struct spoor_waker *w = arg;
	unsigned n;

	while ((n = gather(w, words))) {
		long r = syscall(SYS_futex_waitv, words, n, 0, NULL, CLOCK_MONOTONIC);

		if (r < 0 && errno == ENOSYS)
			break; /* before Linux 5.16: rounds alone */
		if ((r > 0 || (r < 0 && errno == EAGAIN)) && write(w->fd, &(uint64_t){ 1 }, sizeof(uint64_t)) < 0)
			break;
		usleep(REST_US);
	}
	return NULL;
}

static void start(struct spoor_waker *w)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	w->runs = !pthread_create(&w->thread, NULL, run, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* With the lock held. */
static void tell(struct spoor_waker *w)
{
	__atomic_fetch_add(&w->changed, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &w->changed, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

int spoor_waker_new(struct spoor_waker **ret)
{
	struct spoor_waker *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	pthread_mutex_init(&w->lock, NULL);
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->fd < 0) {
		free(w);
		return -EMFILE;
	}
	*ret = w;
	return 0;
}

void spoor_waker_free(struct spoor_waker *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->ends = true;
	tell(w);
	pthread_mutex_unlock(&w->lock);
	if (w->runs)
		pthread_join(w->thread, NULL);
	close(w->fd);
	free(w);
}

int spoor_waker_fd(const struct spoor_waker *w)
{
	return w->fd;
}

void spoor_waker_heard(struct spoor_waker *w)
{
	uint64_t n;

	if (read(w->fd, &n, sizeof(n)) < 0)
		return; /* another turn took it */
}

void spoor_waker_add(struct spoor_waker *w, struct spoor_user_arena *a)
{
	struct spoor_arena *live = (struct spoor_arena *)a->base;

	pthread_mutex_lock(&w->lock);
	if (w->n < MOST) {
		w->arenas[w->n++] = live;
		__atomic_store_n(&live->consumer_waits, 1, __ATOMIC_RELEASE);
		tell(w);
	}
	pthread_mutex_unlock(&w->lock);
	if (!w->runs)
		start(w);
}

void spoor_waker_remove(struct spoor_waker *w, struct spoor_user_arena *a)
{
	pthread_mutex_lock(&w->lock);
	for (unsigned i = 0; i < w->n; i++) {
		if ((uint8_t *)w->arenas[i] != a->base)
			continue;
		__atomic_store_n(&w->arenas[i]->consumer_waits, 0, __ATOMIC_RELEASE);
		w->arenas[i] = w->arenas[--w->n];
		tell(w);
		break;
	}
	pthread_mutex_unlock(&w->lock);
}
