/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/rescue.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/kernel/ring.h"
#include "collect/session/consumer.h"
#include "collect/session/objects.h"
#include "collect/session/privileges.h"
#include "collect/session/recall.h"

#define QUIET_US 10000 /* a producer runs for microseconds, with preemption off */
#define QUIET_TRIES 20

/* ---- what is in the rings ---- */

struct rescue {
	struct spoor_kernel *k;
	struct spoor_writer *w;
	struct spoor_objects *objects;
	struct spoor_consumer *consumer;
	unsigned n_rings;
};

static struct spoor_ring *ring_at(const struct rescue *s, unsigned i)
{
	return spoor_kernel_ring(s->k, i / SPOOR_LEVELS, i % SPOOR_LEVELS);
}

static uint64_t produced(const struct rescue *s)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < s->n_rings; i++)
		sum += __atomic_load_n(&ring_at(s, i)->head, __ATOMIC_ACQUIRE);
	return sum;
}

/* Spoor's links ended with it; who was just producing then has done so after a grace period. */
static void await_producers(const struct rescue *s)
{
	uint64_t before;
	int tries = 0;

	do {
		before = produced(s);
		if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
			usleep(QUIET_US);
	} while (produced(s) != before && ++tries < QUIET_TRIES);
}

/* The segment of the ring's first record; 0: it is empty. Records before a mark are of the segment before. */
static uint64_t segment_of(const struct rescue *s, unsigned i)
{
	struct spoor_ring *ring = ring_at(s, i);
	struct spoor_ring_reader r = spoor_ring_begin(s->k, ring);
	const struct spoor_event_header *h = spoor_ring_peek(&r), *first = h;

	for (; h; h = spoor_ring_peek(&r)) {
		const struct spoor_ctl_mark *mark = (const void *)h;

		if (h->id == SPOOR_CTL_MARK)
			return mark->epoch - (h != first);
		spoor_ring_skip(&r, h);
	}
	return first ? ring->epoch : 0;
}

/* Its definitions were written before it, but what was handed to the loader is gone with that. */
static void pass_over(struct rescue *s, const struct spoor_event_header *h)
{
	if (h->id == SPOOR_CTL_OBJECT)
		spoor_objects_announce(s->objects, (const void *)h);
	if (h->id == SPOOR_CTL_RAW)
		spoor_objects_raw(s->objects, (const void *)h);
}

/* Spoor writes a packet, then gives its room in the ring back: it may have been killed in between. */
static void skip_written(struct rescue *s, unsigned i, const struct spoor_last_packet *last)
{
	struct spoor_ring_reader r = spoor_ring_begin(s->k, ring_at(s, i));
	const struct spoor_event_header *h;
	uint64_t left = last->bytes;

	for (; left && (h = spoor_ring_peek(&r)); spoor_ring_skip(&r, h)) {
		if (!spoor_is_event(h->id)) {
			pass_over(s, h);
			continue;
		}
		if (left == last->bytes && memcmp(h, &last->first, sizeof(*h)))
			return;
		left -= spoor_event_size(h) < left ? spoor_event_size(h) : left;
	}
	spoor_ring_release(&r);
}

/* ---- writing it ---- */

static int begin_ring(struct rescue *s, unsigned i, uint64_t segment, uint64_t newest)
{
	struct spoor_last_packet last;
	int r = spoor_writer_continue(s->w, i / SPOOR_LEVELS, i % SPOOR_LEVELS, segment, &last, NULL);

	if (r)
		return r;
	spoor_consumer_go_on(s->consumer, i, segment, newest);
	skip_written(s, i, &last);
	return 0;
}

static int begin_rings(struct rescue *s, const uint64_t *segments, uint64_t newest)
{
	int r = 0;

	for (unsigned i = 0; i < s->n_rings && !r; i++)
		if (segments[i])
			r = begin_ring(s, i, segments[i], newest);
	return r;
}

static int save(struct rescue *s)
{
	_cleanup_(spoor_freep) uint64_t *segments = calloc(s->n_rings, sizeof(*segments));
	uint64_t oldest = UINT64_MAX;
	unsigned newest;
	int64_t r;

	if (!segments)
		return -ENOMEM;
	for (unsigned i = 0; i < s->n_rings; i++) {
		segments[i] = segment_of(s, i);
		if (segments[i] && segments[i] < oldest)
			oldest = segments[i];
	}
	if (oldest == UINT64_MAX)
		return 0;
	r = spoor_writer_take_over(s->w, oldest, &newest, NULL);
	if (!r)
		r = spoor_consumer_new(s->k, s->objects, s->w, false, &s->consumer);
	if (!r)
		r = begin_rings(s, segments, newest);
	if (!r)
		r = spoor_recall(s->k, s->w, s->consumer);
	if (r)
		return r;
	do
		r = spoor_consumer_drain(s->consumer, NULL);
	while (r > 0);
	spoor_consumer_clock(s->consumer);
	return r ? r : spoor_writer_flush(s->w, NULL);
}

/* ---- the process ---- */

static int by_value(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void close_others(const struct spoor_writer *w, int pidfd)
{
	int keep[SPOOR_WRITER_DESCRIPTORS + 1];
	unsigned n = spoor_writer_descriptors(w, keep, SPOOR_WRITER_DESCRIPTORS);
	int next = 3;

	keep[n++] = pidfd;
	qsort(keep, n, sizeof(*keep), by_value);
	for (unsigned i = 0; i < n; i++) {
		if (keep[i] > next)
			close_range(next, keep[i] - 1, 0);
		if (keep[i] >= next)
			next = keep[i] + 1;
	}
	close_range(next, ~0U, 0);
}

/* Nothing but SIGKILL ends it: where a whole group is to end, Spoor ends in order, and it after that. */
static void be_on_its_own(void)
{
	sigset_t all;

	setsid();
	prctl(PR_SET_NAME, "trace-rescue"); /* pkill(1) of Spoor is not to take it as well */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
}

static int leave_all(const struct spoor_writer *w, int pidfd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setrlimit(RLIMIT_CORE, &(struct rlimit){});
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
		return -errno;
	close_others(w, pidfd);
	spoor_privileges_drop_all();
	return 0;
}

static _Noreturn void be_rescuer(struct rescue *s, const struct spoor_ledger *l, int pidfd, int ready_fd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	be_on_its_own();
	if (write(ready_fd, "", 1) != 1)
		_exit(1);
	spoor_kernel_keep_rings(s->k);
	if (leave_all(s->w, pidfd))
		_exit(1);
	while (poll(&p, 1, -1) < 1)
		;
	await_producers(s);
	_exit(spoor_objects_left(l, &s->objects) || save(s));
}

int spoor_rescue_start(struct spoor_rescue *r, struct spoor_kernel *k, struct spoor_writer *w, struct spoor_ledger *l,
		       struct spoor_error *e)
{
	_cleanup_(spoor_closep) int pidfd = syscall(SYS_pidfd_open, getpid(), 0), ready_fd = -1;
	struct rescue s = { .k = k, .w = w, .n_rings = k->n_cpus * SPOOR_LEVELS };
	int ready[2];
	pid_t pid;
	char byte;

	if (pidfd < 0 || pipe2(ready, O_CLOEXEC))
		return spoor_fail(e, errno, "cannot start a process: %s", strerror(errno));
	ready_fd = ready[0];
	pid = fork();
	if (!pid)
		be_rescuer(&s, l, pidfd, ready[1]);
	close(ready[1]);
	if (pid < 0)
		return spoor_fail(e, errno, "cannot start a process: %s", strerror(errno));
	/* Else who kills our group takes it as well. If it has ended, that is seen later. */
	while (read(ready_fd, &byte, 1) < 0 && errno == EINTR)
		;
	r->pid = pid;
	return 0;
}

bool spoor_rescue_killed(struct spoor_rescue *r)
{
	if (!r->pid || waitpid(r->pid, NULL, WNOHANG) != r->pid)
		return false;
	r->pid = 0;
	return true;
}

void spoor_rescue_stop(struct spoor_rescue *r)
{
	if (!r->pid)
		return;
	kill(r->pid, SIGKILL);
	while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
		;
	r->pid = 0;
}
