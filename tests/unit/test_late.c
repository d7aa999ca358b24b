/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events that come too late for any lane: counted, and told of where nothing else is to be written, too. */
#include "trace_fixture.h"

#include "arena_fixture.h"
#include "collect/user/taker.h"
#include "collect/user/written.h"

#define EACH 10 /* events of a program */
#define THERE (SPOOR_LANES * EACH + 1)
#define LATE (EACH - 1 + EACH)

/* One more program that has ended, alone in a round. */
static void take_one(struct spoor_taker *t, unsigned n, uint64_t begin)
{
	struct made_arena m = arena_make(1);
	struct spoor_source s = {};
	struct spoor_error e = { "" };

	memcpy(arena_head(&m)->uuid, &n, sizeof(n));
	arena_open(&m, 0, SPOOR_PACKET_FULL, 4000000);
	for (unsigned i = 0; i < EACH; i++)
		arena_ints(&m, 0, begin + i, i, i);
	assert_int_equal(open_made(&m, &s.arena, &e), 0);
	spoor_taker_round(t);
	assert_int_equal(spoor_taker_take(t, &s), 0);
	if (spoor_taker_write(t, &e))
		fail_msg("%s", e.text);
	spoor_taker_forget(t, &s);
	spoor_source_done(&s);
	free(m.base);
}

static void test_late(void **state)
{
	struct spoor_source_list written = {};
	struct spoor_taker_counts counts;
	struct spoor_written_sum sum;
	struct fixture *f = *state;
	struct spoor_taker *t = NULL;
	struct spoor_trace *trace;
	struct spoor_event ev;
	unsigned n = 0;

	assert_int_equal(spoor_writer_open(&(struct spoor_writer_options){ .path = f->path, .n_lanes = SPOOR_LANES },
					   &f->w, &f->e), 0);
	assert_int_equal(spoor_taker_new(f->w, &t), 0);
	for (unsigned i = 1; i <= SPOOR_LANES; i++)
		take_one(t, i, 2000);
	take_one(t, SPOOR_LANES + 1, 2000); /* its last event is not before the end of any other's */
	take_one(t, SPOOR_LANES + 2, 1500);
	spoor_taker_counts(t, &counts);
	assert_int_equal(counts.events, THERE);
	assert_int_equal(counts.late, LATE);
	assert_int_equal(spoor_writer_close(f->w, &f->e), 0);
	spoor_taker_free(t);
	trace = open_trace(f);
	assert_int_equal(spoor_trace_sources(trace, spoor_source_list_add, &written), 0);
	spoor_written_sum(&written, &sum);
	assert_int_equal(sum.events, THERE);
	assert_int_equal(sum.late, LATE);
	while (spoor_trace_next(trace, &ev) > 0)
		n += ev.class != NULL;
	assert_int_equal(n, THERE);
	assert_int_equal(spoor_trace_discarded(trace), LATE);
	assert_int_equal(spoor_trace_info(trace)->n_damages, 0);
	spoor_trace_close(trace);
	spoor_source_list_done(&written);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(test_late, setup, teardown) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
