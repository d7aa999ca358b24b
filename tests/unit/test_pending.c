/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls that have not ended. */
#include "trace_fixture.h"

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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
