/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An arena that a consumer before us has read: what is written already, and what was overwritten that is not. */
#include "trace_fixture.h"

#include "arena_fixture.h"
#include "collect/user/taker.h"
#include "collect/user/written.h"

static void add_source(struct spoor_source_list *l, uint64_t serial, uint64_t position)
{
	struct spoor_packet_source s = { .serial = serial, .position = position };

	memset(s.arena, 0x5a, sizeof(s.arena)); /* as arena_make() calls it */
	assert_int_equal(spoor_source_list_add(&s, l), 0);
}

/* It is told of what is still there, not of what it has given back, or was about to. */
static void test_resumed(void **state)
{
	struct made_arena m = arena_make(3);
	struct spoor_user_arena *a = NULL;
	struct spoor_user_piece piece;
	uint64_t written;

	arena_open(&m, 0, SPOOR_PACKET_FREE, 4000000);
	arena_open(&m, 1, SPOOR_PACKET_FULL, 4000000);
	arena_open(&m, 2, SPOOR_PACKET_READING, 4000000);
	arena_ints(&m, 1, 2000, 1, 1);
	written = arena_packet(&m, 1)->committed;
	assert_int_equal(open_made(&m, &a, NULL), 0);
	spoor_user_packet_resume(a, 0, arena_packet(&m, 0)->serial, ARENA_PACKET);
	spoor_user_packet_resume(a, 1, arena_packet(&m, 1)->serial, written);
	assert_int_equal(a->headers[0].consumed, 0);
	assert_int_equal(a->headers[1].consumed, written);
	spoor_user_packet_resume(a, 2, arena_packet(&m, 2)->serial, ARENA_PACKET);
	spoor_user_packet_look(a, 2, NULL, &piece);
	assert_true(piece.done && !piece.len && !a->malformed);
	spoor_user_arena_free(a);
	free(m.base);
}

/* As a program does it (agent/core/packet_find.c), up to a store of open_packet()'s. */
static void overwrite(struct made_arena *m, unsigned i, unsigned stores, uint64_t n)
{
	struct spoor_arena_packet *p = arena_packet(m, i);
	uint64_t serial = arena_head(m)->serial++;

	p->owner = SPOOR_OWNER(2, 0, SPOOR_PACKET_READING, 4000000);
	if (stores > 0)
		p->gone_next = p->gone + n;
	if (stores > 1)
		p->serial = serial;
	if (stores > 2)
		p->committed = 0;
	if (stores > 3)
		p->gone = p->gone_next;
	if (stores > 4)
		p->begun = serial;
	if (stores > 5)
		p->owner = SPOOR_OWNER(3, 0, SPOOR_PACKET_OWNED, 4000000);
}

#define EACH 50 /* events of a packet */
#define FIRST 20 /* of these are in the trace */

/*
 * A consumer took some, and noted them or was killed before; then it is overwritten, and gone from the moment at which
 * a thread holds it for that. Who comes next knows the trace.
 */
static void check_overwritten(unsigned stores, bool noted)
{
	struct made_arena m = arena_make(2);
	struct spoor_source_list written = {};
	struct spoor_user_arena *a = NULL;
	struct spoor_user_piece piece;
	uint8_t room[ARENA_PACKET];
	uint64_t serial, position;

	arena_head(&m)->channels[0].mode = SPOOR_ARENA_OVERWRITE;
	arena_open(&m, 0, SPOOR_PACKET_FULL, 4000000);
	arena_open(&m, 1, SPOOR_PACKET_OWNED, 4000000);
	for (unsigned i = 0; i < EACH; i++)
		arena_ints(&m, 0, 1000 + i, i, i);
	serial = arena_packet(&m, 0)->serial;
	position = arena_packet(&m, 0)->committed / EACH * FIRST;
	arena_packet(&m, 0)->consumed = noted ? SPOOR_CONSUMED(serial, position) : 0;
	arena_head(&m)->taken = noted ? FIRST : 0;
	overwrite(&m, 0, stores, EACH);
	add_source(&written, serial, position);
	add_source(&written, SPOOR_SOURCE_TAKEN, FIRST);
	assert_int_equal(open_made(&m, &a, NULL), 0);
	spoor_written_apply(&written, a);
	assert_int_equal(spoor_user_arena_overwritten(a), EACH - FIRST);
	spoor_user_packet_look(a, 0, room, &piece);
	assert_int_equal(piece.len, 0);
	assert_false(piece.done);
	assert_false(a->malformed);
	spoor_source_list_done(&written);
	spoor_user_arena_free(a);
	free(m.base);
}

static void test_overwritten(void **state)
{
	for (unsigned stores = 0; stores <= 6; stores++)
		for (unsigned how = 0; how < 2; how++)
			check_overwritten(stores, how);
}

static uint64_t *lost_of(struct spoor_user_arena *a)
{
	return (uint64_t *)&((struct spoor_arena *)a->base)->channels[0].lost;
}

/* What cannot be is garbage, once; what could be before, stays. */
static void test_counts(void **state)
{
	struct made_arena m = arena_make(2);
	struct spoor_user_arena *a = NULL;

	arena_head(&m)->channels[0].mode = SPOOR_ARENA_OVERWRITE;
	arena_head(&m)->channels[0].lost = 11;
	for (unsigned i = 0; i < 2; i++)
		arena_open(&m, i, SPOOR_PACKET_OWNED, 4000000);
	arena_packet(&m, 0)->begun = arena_packet(&m, 0)->serial;
	arena_packet(&m, 0)->gone = 7;
	assert_int_equal(open_made(&m, &a, NULL), 0);
	assert_int_equal(spoor_user_arena_lost(a), 11);
	assert_int_equal(spoor_user_arena_overwritten(a), 7);
	spoor_user_arena_peek(a, true);
	*lost_of(a) = UINT64_MAX - 5;
	assert_int_equal(spoor_user_arena_lost(a), 11);
	assert_int_equal(a->malformed, 1);
	spoor_user_arena_peek(a, false);
	assert_int_equal(a->malformed, 0);
	assert_int_equal(spoor_user_arena_lost(a), 11);
	*lost_of(a) = 12;
	a->headers[0].gone = 8;
	assert_int_equal(spoor_user_arena_lost(a), 11);
	assert_int_equal(spoor_user_arena_overwritten(a), 7);
	assert_int_equal(a->malformed, 1);
	spoor_user_arena_free(a);
	free(m.base);
}

#define OLD_CLOCKS 60 /* a millisecond apart */

/* One that is older than the recorder, with an event of when it was half as old. */
static struct made_arena make_old(struct fixture *f, struct spoor_source *s, struct spoor_taker **ret)
{
	struct made_arena m = arena_make(2);

	arena_head(&m)->clock = SPOOR_ARENA_TSC;
	for (unsigned i = 0; i < OLD_CLOCKS; i++)
		arena_head(&m)->clocks[i] = (struct spoor_arena_clock){ 3000000ULL * (i + 1), 1000000ULL * (i + 1) };
	arena_head(&m)->n_clocks = OLD_CLOCKS;
	arena_head(&m)->made = 1;
	arena_open(&m, 0, SPOOR_PACKET_OWNED, 4000000);
	arena_ints(&m, 0, 3000000ULL * OLD_CLOCKS / 2, 1, 1);
	open_writer(f, (struct spoor_writer_options){ .n_lanes = SPOOR_LANES });
	assert_int_equal(open_made(&m, &s->arena, NULL), 0);
	assert_int_equal(spoor_taker_new(f->w, ret), 0);
	assert_int_equal(spoor_taker_look_back(*ret, s), 0);
	assert_true(s->own_clock && s->clock->n >= OLD_CLOCKS);
	return m;
}

/* It has a clock of its own, which does not grow as long as its program runs. */
static void test_own_clock(void **state)
{
	struct fixture *f = *state;
	struct spoor_source s = {};
	struct spoor_taker *t = NULL;
	struct made_arena m = make_old(f, &s, &t);

	for (unsigned i = 0; i < 3; i++) {
		spoor_taker_round(t);
		assert_int_equal(spoor_taker_take(t, &s), 0);
		assert_int_equal(spoor_taker_write(t, NULL), 0);
	}
	assert_true(s.clock->n < 10);
	spoor_taker_free(t);
	spoor_source_done(&s);
	close_writer(f);
	free(m.base);
}

/* What was taken, and is taken once more for there was too much of all at once, has the same stamps. */
static void test_undone_clock(void **state)
{
	struct fixture *f = *state;
	struct spoor_source s = {};
	struct spoor_taker *t = NULL;
	struct made_arena m = make_old(f, &s, &t);

	for (unsigned i = 0; i < 2; i++) {
		spoor_taker_round(t);
		assert_int_equal(spoor_taker_take(t, &s), 0);
		assert_true(spoor_taker_bytes(t) > 0);
		assert_true(s.clock->n >= OLD_CLOCKS);
		spoor_taker_undo(t);
	}
	spoor_taker_free(t);
	spoor_source_done(&s);
	close_writer(f);
	free(m.base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resumed),
		cmocka_unit_test(test_overwritten),
		cmocka_unit_test(test_counts),
		TEST_OF_TRACE(test_own_clock),
		TEST_OF_TRACE(test_undone_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
