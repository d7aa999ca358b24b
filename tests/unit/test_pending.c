/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls that have not ended. */
#include "trace_fixture.h"

#include <errno.h>
#include <signal.h>

static int see_of(struct spoor_pendings *p, uint32_t pid, uint32_t tid, unsigned id, uint64_t start, uint64_t end)
{
	struct spoor_syscall s = { .h = { .ts = end, .id = id, .size4 = 10, .tid = tid },
				   .pid = pid,
				   .dur = end - start };
	struct spoor_event ev = { .h = &s.h };

	return spoor_pendings_see(p, &ev);
}

static int see(struct spoor_pendings *p, uint32_t tid, unsigned id, uint64_t start, uint64_t end)
{
	return see_of(p, 0, tid, id, start, end);
}

static void see_pending_of(struct spoor_pendings *p, uint32_t pid, uint32_t tid, unsigned id, uint64_t start,
			   unsigned why)
{
	struct {
		struct spoor_pending s;
		uint8_t pad[2];
	} b = { .s = { .h = { .ts = start + 5, .id = SPOOR_EV_PENDING, .size4 = 10, .tid = tid },
		       .pid = pid,
		       .nr = id,
		       .start = start,
		       .why = why,
		       .exact = why != SPOOR_PENDING_BEFORE } };
	struct spoor_event ev = { .h = (void *)&b };

	assert_int_equal(spoor_pendings_see(p, &ev), 0);
}

static void see_pending(struct spoor_pendings *p, uint32_t tid, unsigned id, uint64_t start, unsigned why)
{
	see_pending_of(p, 0, tid, id, start, why);
}

#define SECOND 1000000000ULL

/* A call of 100 ns, which slept and ended with `ret` at 1000, and its thread later, if it does. */
static void see_cut_of(struct spoor_pendings *p, unsigned why, uint32_t tid, int32_t ret, uint64_t later, unsigned kind,
		       int code)
{
	struct spoor_syscall s = { .h = { .ts = 1000, .id = 7, .size4 = 10, .tid = tid }, .dur = 100, .ret = ret };
	struct {
		struct spoor_thread_exit s;
		uint8_t pad[3];
	} x = { .s = { .h = { .ts = 1000 + later, .id = SPOOR_EV_THREAD_EXIT, .size4 = 7, .tid = tid },
		       .code = code,
		       .kind = kind } };

	see_pending(p, tid, 7, 900, why);
	assert_int_equal(spoor_pendings_see(p, &(struct spoor_event){ .h = &s.h }), 0);
	if (later)
		assert_int_equal(spoor_pendings_see(p, &(struct spoor_event){ .h = (void *)&x }), 0);
}

static void see_cut(struct spoor_pendings *p, uint32_t tid, int32_t ret, uint64_t later, unsigned kind, int code)
{
	see_cut_of(p, SPOOR_PENDING_SLEEP, tid, ret, later, kind, code);
}

/* Threads whose calls were ended by what killed them, a bit for each. */
static unsigned killed(const struct spoor_pendings *p, uint64_t from)
{
	struct spoor_event ev;
	unsigned found = 0;
	size_t it = 0;

	while (spoor_pendings_next_killed(p, &it, from, &ev)) {
		assert_int_equal(ev.h->ts, 1000);
		found |= 1U << ev.h->tid;
	}
	return found;
}

static void test_killed(void **state)
{
	struct spoor_pendings *p;

	assert_int_equal(spoor_pendings_new(&p), 0);
	see_cut(p, 1, -512, 5, SPOOR_EXIT_THREAD, SIGKILL);
	assert_int_equal(killed(p, 0), 0); /* nobody wants to know */
	spoor_pendings_keep_killed(p);
	see_cut(p, 1, -512, 5, SPOOR_EXIT_THREAD, SIGKILL);
	see_cut(p, 2, -516, 90 * SECOND, SPOOR_EXIT_PROCESS, SIGSEGV); /* its core was dumped meanwhile */
	see_cut(p, 3, -EINTR, SECOND, SPOOR_EXIT_PROCESS, SIGKILL);
	see_cut(p, 4, -EINTR, 90 * SECOND, SPOOR_EXIT_PROCESS, SIGKILL); /* it went on, and calculated */
	see_cut(p, 5, -512, 5, SPOOR_EXIT_PROCESS, 3 << 8);
	see_cut(p, 6, -512, 5, SPOOR_EXIT_LEFT, SIGKILL);
	see_cut(p, 7, -512, 5, SPOOR_EXIT_EXEC, SIGKILL);
	see_cut(p, 8, -EAGAIN, 5, SPOOR_EXIT_THREAD, SIGKILL);
	see_cut(p, 9, -514, 0, 0, 0); /* its end is not there */
	see_cut(p, 10, -EINTR, 0, 0, 0);
	see_cut(p, 11, -512, 0, 0, 0);
	see(p, 11, 8, 1010, 1020);
	see_cut(p, 12, -512, 0, 0, 0);
	see_pending(p, 12, 7, 1010, SPOOR_PENDING_SLEEP);
	see_cut(p, 1, 0, 5, SPOOR_EXIT_THREAD, SIGKILL); /* another thread of that number */
	see_cut_of(p, SPOOR_PENDING_KILLED, 13, 0, 5, SPOOR_EXIT_PROCESS, SIGKILL); /* what woke it was killed, too */
	see_cut_of(p, SPOOR_PENDING_KILLED, 14, 0, 5, SPOOR_EXIT_PROCESS, 3 << 8);
	see_cut_of(p, SPOOR_PENDING_KILLED, 15, 1, 0, 0, 0);
	assert_int_equal(killed(p, UINT64_MAX), 1 << 1 | 1 << 2 | 1 << 3 | 1 << 13);
	assert_int_equal(killed(p, 1001), 1 << 1 | 1 << 2 | 1 << 3 | 1 << 13);
	assert_int_equal(killed(p, 1000), 1 << 1 | 1 << 2 | 1 << 3 | 1 << 9 | 1 << 13 | 1 << 15);
	spoor_pendings_free(p);
}

static void test_stopped(void **state)
{
	const struct spoor_pending *in_flight;
	enum spoor_unfinished why;
	struct spoor_pendings *p;
	struct spoor_event ev;
	size_t it = 0;

	assert_int_equal(spoor_pendings_new(&p), 0);
	spoor_pendings_keep_killed(p);
	see_cut(p, 1, -512, 0, 0, 0);
	see_pending(p, 1, 7, 1100, SPOOR_PENDING_BEFORE); /* since it was stopped, it seems */
	assert_true(spoor_pendings_next(p, &it, &ev, &why));
	in_flight = (const void *)ev.h;
	assert_int_equal(why, SPOOR_UNFINISHED_IN_FLIGHT);
	assert_int_equal(in_flight->start, 900);
	assert_int_equal(in_flight->h.ts, 1105);
	assert_true(in_flight->exact);
	assert_int_equal(killed(p, 0), 0);
	see_cut(p, 1, -512, 0, 0, 0);
	see_pending(p, 1, 8, 1100, SPOOR_PENDING_BEFORE); /* another call */
	it = 0;
	assert_true(spoor_pendings_next(p, &it, &ev, &why));
	assert_int_equal(((const struct spoor_pending *)ev.h)->start, 1100);
	spoor_pendings_free(p);
}

/* Only the call whose begin was a bound is told, and once. */
static void test_began_before(void **state)
{
	struct spoor_syscall_other wide = { .h = { .id = SPOOR_EV_SYSCALL_OTHER, .size4 = sizeof(wide) / 4, .tid = 4 },
					    .dur = 70,
					    .ret = 1LL << 40,
					    .nr = 7 };
	struct spoor_pendings *p;

	assert_int_equal(spoor_pendings_new(&p), 0);
	see_pending(p, 1, 7, 100, SPOOR_PENDING_BEFORE);
	see_pending(p, 2, 7, 100, SPOOR_PENDING_SLEEP);
	see_pending(p, 3, 7, 100, SPOOR_PENDING_BEFORE);
	assert_int_equal(see(p, 1, 7, 100, 130), 1);
	assert_int_equal(see(p, 1, 7, 140, 150), 0);
	assert_int_equal(see(p, 2, 7, 100, 130), 0);
	assert_int_equal(see(p, 3, 8, 140, 150), 0); /* another call: the first's end was lost */
	assert_int_equal(see(p, 3, 7, 160, 170), 0);
	see_pending(p, 4, 7, 100, SPOOR_PENDING_BEFORE);
	wide.h.ts = 130;
	assert_int_equal(spoor_pendings_see(p, &(struct spoor_event){ .h = &wide.h }), 1);
	spoor_pendings_free(p);
}

static void test_unfinished(void **state)
{
	struct spoor_pendings *p;
	enum spoor_unfinished why;
	struct spoor_event ev;
	unsigned in_flight = 0, lost = 0;
	size_t it = 0;

	assert_int_equal(spoor_pendings_new(&p), 0);
	for (uint32_t tid = 1; tid <= 1000; tid++) {
		assert_int_equal(see(p, tid, 1, 5, 10), 0);
		see_pending(p, tid, 0, 20, SPOOR_PENDING_SLEEP);
		if (tid % 3 == 0)
			see(p, tid, 0, 20, 40);
		if (tid % 3 == 1)
			see(p, tid, 0, 50, 60);
	}
	see_pending(p, 2000, 7, 100, SPOOR_PENDING_BEFORE);
	assert_int_equal(see(p, 2000, 7, 90, 130), 1); /* when it began was not known exactly */
	see_pending(p, 2001, 59, 100, SPOOR_PENDING_SLEEP);
	see_pending(p, 2001, 59, 100, SPOOR_PENDING_MOVED);
	see(p, 2000, 59, 100, 140); /* execve by a thread that was not the leader */
	while (spoor_pendings_next(p, &it, &ev, &why)) {
		assert_int_equal(ev.h->tid % 3, why == SPOOR_UNFINISHED_LOST ? 1 : 2);
		in_flight += why == SPOOR_UNFINISHED_IN_FLIGHT;
		lost += why == SPOOR_UNFINISHED_LOST;
	}
	assert_int_equal(in_flight, 333);
	assert_int_equal(lost, 334);
	spoor_pendings_free(p);
	spoor_pendings_free(NULL);
}

/* It began under another tid, and ended, or the recording did, under its process's. */
static void test_execve_that_moved(void **state)
{
	struct spoor_pendings *p;
	enum spoor_unfinished why;
	struct spoor_event ev;
	size_t it = 0, n = 0;

	assert_int_equal(spoor_pendings_new(&p), 0);
	see_pending_of(p, 10, 11, 59, 100, SPOOR_PENDING_SLEEP);
	see_pending_of(p, 20, 21, 59, 100, SPOOR_PENDING_SLEEP);
	assert_int_equal(see_of(p, 10, 10, 59, 100, 120), 0);
	see_pending_of(p, 10, 12, 59, 300, SPOOR_PENDING_SLEEP);
	see_pending_of(p, 10, 10, 59, 300, SPOOR_PENDING_DEATH);
	for (; spoor_pendings_next(p, &it, &ev, &why); n++)
		assert_true(ev.h->tid == 10 || ev.h->tid == 21);
	assert_int_equal(n, 2);
	spoor_pendings_free(p);
}

/* Of many processes, as a build makes them, none is looked for when another one executes: it would be minutes. */
static void test_many_that_execute(void **state)
{
	struct spoor_pendings *p;

	assert_int_equal(spoor_pendings_new(&p), 0);
	see_pending(p, 1, 61, 50, SPOOR_PENDING_SLEEP);
	for (uint32_t pid = 2; pid < 300000; pid++) {
		see_pending_of(p, pid, pid, 0, 50, SPOOR_PENDING_SLEEP);
		assert_int_equal(see_of(p, pid, pid, 0, 50, 60), 0);
		see_pending_of(p, pid, pid, 59, 100, SPOOR_PENDING_SLEEP);
		assert_int_equal(see_of(p, pid, pid, 59, 100, 120), 0);
	}
	spoor_pendings_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unfinished),
		cmocka_unit_test(test_execve_that_moved),
		cmocka_unit_test(test_many_that_execute),
		cmocka_unit_test(test_began_before),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
