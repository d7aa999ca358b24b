/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Equal stacks are stored once a segment: what the writer makes of them, and what the reader of other ids. */
#include "trace_fixture.h"

#include "trace/stack_set.h"

struct two_frames {
	struct spoor_stack s;
	uint64_t frames[2];
};

static struct two_frames stack_of(uint64_t ts, uint32_t id, uint64_t offset)
{
	return (struct two_frames){ .s = { .h = { .ts = ts, .id = SPOOR_EV_STACK, .size4 = 10 }, .id = id, .n = 2 },
				    .frames = { SPOOR_FRAME(2, 0x1000), SPOOR_FRAME(3, offset) } };
}

static void put(struct fixture *f, struct two_frames b)
{
	assert_int_equal(spoor_writer_define(f->w, &b.s.h), 0);
}

static void put_alias(struct fixture *f, uint64_t ts, uint32_t id, uint32_t stack)
{
	struct spoor_stack_alias a = {
		.h = { .ts = ts, .id = SPOOR_EV_STACK_ALIAS, .size4 = 6 }, .id = id, .stack = stack
	};

	assert_int_equal(spoor_writer_define(f->w, &a.h), 0);
}

/* Definitions in full, and other ids, of segment nr of the trace. */
static void assert_stored(struct fixture *f, unsigned nr, unsigned stacks, unsigned aliases)
{
	unsigned seen[2] = {};
	char path[400];
	struct spoor_trace *t = NULL;
	struct spoor_event ev;

	stream_path(f, nr, "", path, sizeof(path));
	assert_int_equal(spoor_trace_open(path, &t, &f->e), 0);
	while (spoor_trace_next(t, &ev) > 0) {
		seen[0] += ev.h->id == SPOOR_EV_STACK;
		seen[1] += ev.h->id == SPOOR_EV_STACK_ALIAS;
	}
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
	assert_int_equal(seen[0], stacks);
	assert_int_equal(seen[1], aliases);
}

static const struct spoor_segment *first_segment(struct spoor_trace *t)
{
	struct spoor_event ev;

	assert_int_equal(spoor_trace_next(t, &ev), 1);
	return ev.segment;
}

static void test_equal_ones(void **state)
{
	struct two_frames other = stack_of(104, 4, 0x2000), user = stack_of(105, 5, 0x2000);
	struct fixture *f = *state;
	const struct spoor_segment *s;
	struct spoor_trace *t;

	open_writer(f, (struct spoor_writer_options){});
	put(f, stack_of(100, 1, 0x2000));
	put(f, stack_of(101, 2, 0x2000)); /* equal */
	put(f, stack_of(102, 3, 0x3000));
	other.s.status = SPOOR_WALK_TRUNCATED;
	put(f, other);
	user.s.way = SPOOR_WAY_USER;
	put(f, user);
	put(f, stack_of(106, 1, 0x2000)); /* the same again: needs nothing */
	assert_int_equal(spoor_writer_flush(f->w, &f->e), 0);
	put(f, stack_of(107, 6, 0x2000)); /* what was flushed is not forgotten */
	close_writer(f);
	assert_stored(f, 1, 4, 2);
	t = open_trace(f);
	s = first_segment(t);
	for (uint32_t id = 1; id < 7; id++)
		assert_int_equal(spoor_segment_stack(s, id)->id, id == 2 || id == 6 ? 1 : id);
	spoor_trace_close(t);
}

static void test_many(void **state)
{
	struct fixture *f = *state;
	const struct spoor_segment *s;
	struct spoor_trace *t;

	open_writer(f, (struct spoor_writer_options){});
	for (uint32_t id = 1; id <= 20000; id++)
		put(f, stack_of(id, id, id % 9973)); /* a prime: each occurs twice or three times */
	close_writer(f);
	assert_stored(f, 1, 9973, 20000 - 9973);
	t = open_trace(f);
	s = first_segment(t);
	for (uint32_t id = 1; id <= 20000; id++)
		assert_int_equal(SPOOR_FRAME_OFFSET(spoor_segment_stack(s, id)->frames[1]), id % 9973);
	spoor_trace_close(t);
}

/* What one segment has does not help the other: while two are open each gets what it lacks. */
static void test_rotation(void **state)
{
	struct fixture *f = *state;

	open_writer(f, (struct spoor_writer_options){});
	put(f, stack_of(100, 1, 0x2000));
	assert_int_equal(spoor_writer_segment_begin(f->w, &f->e), 0);
	put(f, stack_of(200, 2, 0x2000)); /* 1: an alias; 2: in full */
	put(f, stack_of(201, 1, 0x2000)); /* 1: nothing; 2: an alias */
	assert_int_equal(spoor_writer_segment_end(f->w, &f->e), 0);
	put(f, stack_of(300, 3, 0x2000)); /* 2: an alias */
	close_writer(f);
	assert_stored(f, 1, 1, 1);
	assert_stored(f, 2, 1, 2);
}

/* Definitions are put in order of time: an alias may stand before what it is of. */
static void test_alias_first(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;

	open_writer(f, (struct spoor_writer_options){});
	put(f, stack_of(100, 1, 0x2000));
	put(f, stack_of(50, 2, 0x2000));
	close_writer(f);
	assert_stored(f, 1, 1, 1);
	t = open_trace(f);
	assert_int_equal(spoor_segment_stack(first_segment(t), 2)->id, 1);
	spoor_trace_close(t);
}

static void test_hostile(void **state)
{
	struct fixture *f = *state;
	const struct spoor_segment *s;
	struct spoor_trace *t;

	open_writer(f, (struct spoor_writer_options){});
	put(f, stack_of(100, 1, 0x2000));
	put_alias(f, 101, 2, 1);
	put_alias(f, 102, 3, 2);  /* of an alias */
	put_alias(f, 103, 4, 77); /* of nothing */
	put_alias(f, 104, 5, 6);  /* in a circle */
	put_alias(f, 105, 6, 5);
	close_writer(f);
	t = open_trace(f);
	s = first_segment(t);
	assert_int_equal(spoor_segment_stack(s, 2)->id, 1);
	for (uint32_t id = 3; id < 8; id++)
		assert_null(spoor_segment_stack(s, id));
	assert_int_equal(spoor_trace_info(t)->n_damages, 4);
	assert_non_null(strstr(spoor_trace_damage(t, 0), "defs: offset "));
	assert_non_null(strstr(spoor_trace_damage(t, 0), "of no stack that is defined here"));
	spoor_trace_close(t);
}

static void test_alias_of_itself(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;

	open_writer(f, (struct spoor_writer_options){});
	put(f, stack_of(100, 1, 0x2000));
	put_alias(f, 101, 2, 2);
	close_writer(f);
	t = open_trace(f);
	assert_null(spoor_segment_stack(first_segment(t), 2));
	assert_int_equal(count(t), 0);
	assert_int_equal(spoor_trace_info(t)->n_damages, 1);
	assert_non_null(strstr(spoor_trace_damage(t, 0), "an impossible value"));
	spoor_trace_close(t);
}

/* A key is of everything but id and time, and of the seed. */
static void test_key(void **state)
{
	struct two_frames a = stack_of(1, 1, 0x2000), b = stack_of(2, 2, 0x2000);
	struct spoor_stack_key key = spoor_stack_key(&a.s, 7), same = spoor_stack_key(&b.s, 7), other;

	assert_memory_equal(&key, &same, sizeof(key));
	other = spoor_stack_key(&a.s, 8);
	assert_memory_not_equal(&key, &other, sizeof(key));
	b.frames[0] |= SPOOR_FRAME_INTERRUPTED;
	other = spoor_stack_key(&b.s, 7);
	assert_memory_not_equal(&key, &other, sizeof(key));
	a.s.n = 1;
	other = spoor_stack_key(&a.s, 7);
	assert_memory_not_equal(&key, &other, sizeof(key));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_OF_TRACE(test_equal_ones),
		TEST_OF_TRACE(test_many),
		TEST_OF_TRACE(test_rotation),
		TEST_OF_TRACE(test_alias_first),
		TEST_OF_TRACE(test_hostile),
		TEST_OF_TRACE(test_alias_of_itself),
		cmocka_unit_test(test_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
