/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"

#define PATIENCE (SPOOR_NS_PER_SEC)
#define PATIENCE_BESIDE_OTHERS (SPOOR_NS_PER_SEC / 10)
#define SILENT_FOR (10 * SPOOR_NS_PER_SEC) /* then a device is asked again */
#define MOST_SILENT 16
#define MOST_LEFT 64
#define THREAD_STACK 65536

/* A thread that opens a file, which who waits for it may leave behind. */
struct attempt {
	pthread_cond_t answered;
	bool done, left;
	uint64_t device; /* of the file; 0: not known yet */
	int result;      /* the descriptor, or -errno */
	char path[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below, and of attempts */
static unsigned n_left;
static struct {
	uint64_t device, since;
} silent[MOST_SILENT];

static bool is_silent(uint64_t device)
{
	for (unsigned i = 0; i < MOST_SILENT; i++)
		if (device && silent[i].device == device && spoor_now_monotonic() - silent[i].since < SILENT_FOR)
			return true;
	return false;
}

/* In place of its older entry, or of the oldest. */
static void note_silent(uint64_t device)
{
	unsigned at = 0;

	for (unsigned i = 0; i < MOST_SILENT; i++)
		if (silent[i].device == device || (silent[at].device != device && silent[i].since < silent[at].since))
			at = i;
	silent[at].device = device;
	silent[at].since = spoor_now_monotonic();
}

/* What a link of /proc leads to (map_files) is got at, and its device known, without a word to the file system. */
static int open_it(struct attempt *a)
{
	_cleanup_(spoor_closep) int handle = open(a->path, O_PATH | O_CLOEXEC);
	struct statx st;
	char self[64];
	bool hopeless;
	int fd;

	if (handle < 0 || statx(handle, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0)
		return -errno;
	if (!S_ISREG(st.stx_mode))
		return -EINVAL;
	pthread_mutex_lock(&lock);
	a->device = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor;
	hopeless = is_silent(a->device);
	pthread_mutex_unlock(&lock);
	if (hopeless)
		return -ETIMEDOUT;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", handle);
	fd = open(self, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void free_attempt(struct attempt *a)
{
	pthread_cond_destroy(&a->answered);
	free(a);
}

static void *opener(void *arg)
{
	struct attempt *a = arg;
	int result = open_it(a);
	bool left;

	pthread_mutex_lock(&lock);
	a->result = result;
	a->done = true;
	left = a->left;
	n_left -= left;
	pthread_cond_signal(&a->answered);
	pthread_mutex_unlock(&lock);
	if (left) {
		if (result >= 0)
			close(result);
		free_attempt(a);
	}
	return NULL;
}

static struct attempt *new_attempt(const char *path)
{
	size_t len = strlen(path) + 1;
	struct attempt *a = calloc(1, sizeof(*a) + len);
	pthread_condattr_t attr;

	if (!a)
		return NULL;
	memcpy(a->path, path, len);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&a->answered, &attr);
	pthread_condattr_destroy(&attr);
	return a;
}

/* Signals are for others. */
static int begin(struct attempt *a)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&thread, &attr, opener, a);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return -r;
}

/* The result; without one in time the attempt is the thread's. */
static int await(struct attempt *a)
{
	uint64_t until = spoor_now_monotonic() + (n_left ? PATIENCE_BESIDE_OTHERS : PATIENCE);
	struct timespec at = { until / SPOOR_NS_PER_SEC, until % SPOOR_NS_PER_SEC };

	while (!a->done && pthread_cond_timedwait(&a->answered, &lock, &at) != ETIMEDOUT)
		;
	if (a->done)
		return a->result;
	a->left = true;
	n_left++;
	if (a->device)
		note_silent(a->device);
	return -ETIMEDOUT;
}

int spoor_open_regular(const char *path)
{
	struct attempt *a = new_attempt(path);
	int r = a ? 0 : -ENOMEM;
	bool left = false;

	if (!r) {
		pthread_mutex_lock(&lock);
		r = n_left < MOST_LEFT ? begin(a) : -ETIMEDOUT;
		if (!r) {
			r = await(a);
			left = a->left;
		}
		pthread_mutex_unlock(&lock);
	}
	if (r == -EAGAIN) /* the system has no room for a thread, as sick ones may: without, and without patience */
		r = open_it(a);
	if (a && !left)
		free_attempt(a);
	return r;
}
