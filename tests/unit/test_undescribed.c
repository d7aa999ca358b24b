/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Events whose class makes no sense: passed over and counted once, also by a recorder that follows one which was killed
 * after it had told of them, and before it gave the buffers back.
 */
#include "trace_fixture.h"

#include "arena_fixture.h"
#include "collect/user/taker.h"
#include "collect/user/written.h"

#define CLASS_SENSELESS 3
#define EACH 10 /* events of a program */

enum round { TOGETHER, ONE_BY_ONE, ALONE, N_ROUNDS }; /* of a program with events, and of one with senseless ones */

static struct made_arena make(unsigned program, unsigned mode)
{
	static const struct spoor_def_field none = {
		.type = SPOOR_DEF_INT, .shape = SPOOR_DEF_ARRAY, .bytes = 4, .base = 10
	};
	struct made_arena m = arena_make(1);

	arena_define(&m, CLASS_SENSELESS, "senseless", &none, (const char *const[]){ "none" }, 1);
	memcpy(arena_head(&m)->uuid, &program, sizeof(program));
	arena_head(&m)->channels[0].mode = mode;
	arena_open(&m, 0, SPOOR_PACKET_FULL, 4000000);
	for (unsigned i = 0; i < EACH; i++)
		if (program)
			arena_ints(&m, 0, 2000 + i, i, i);
		else
			arena_event(&m, 0, 2000 + i, CLASS_SENSELESS, "", 1);
	return m;
}

struct recorder {
	struct spoor_writer *w;
	struct spoor_taker *t;
	struct spoor_source sources[2];
	unsigned n;
};

/* Buffers as they were before any recorder gave something back; what it knows of them is written. */
static void come(struct recorder *r, struct made_arena *m, struct spoor_source_list *written)
{
	struct spoor_source *s = &r->sources[r->n++];

	assert_int_equal(open_made(m, &s->arena, NULL), 0);
	spoor_written_apply(written, s->arena);
	s->taken = s->arena->taken;
}

static void begin(struct recorder *r, struct fixture *f, const char *path, struct spoor_source_list *written)
{
	struct spoor_writer_options o = { .path = path, .n_lanes = SPOOR_LANES };
	struct spoor_written_sum sum;

	*r = (struct recorder){};
	if (spoor_writer_open(&o, &r->w, &f->e))
		fail_msg("%s", f->e.text);
	assert_int_equal(spoor_taker_new(r->w, &r->t), 0);
	spoor_taker_untold(r->t, written);
	spoor_written_sum(written, &sum);
	spoor_taker_count_from(r->t, &sum);
}

static void take(struct recorder *r, struct fixture *f, bool together)
{
	for (unsigned i = 0; i < r->n; i++) {
		if (!i || !together)
			spoor_taker_round(r->t);
		assert_int_equal(spoor_taker_take(r->t, &r->sources[i]), 0);
		if ((i == r->n - 1 || !together) && spoor_taker_write(r->t, &f->e))
			fail_msg("%s", f->e.text);
	}
}

/* What it told where: in the trace, and beside it. */
static void end(struct recorder *r, struct fixture *f, struct spoor_source_list *written)
{
	struct spoor_trace *trace;

	assert_int_equal(spoor_taker_unwritten(r->t, written), 0);
	for (unsigned i = 0; i < r->n; i++) {
		spoor_taker_forget(r->t, &r->sources[i]);
		spoor_source_done(&r->sources[i]);
	}
	assert_int_equal(spoor_writer_close(r->w, &f->e), 0);
	spoor_taker_free(r->t);
	trace = open_trace(f);
	assert_int_equal(spoor_trace_sources(trace, spoor_source_list_add, written), 0);
	spoor_trace_close(trace);
}

static void check_counts(const struct recorder *r, enum round how)
{
	struct spoor_taker_counts counts;

	spoor_taker_counts(r->t, &counts);
	assert_int_equal(counts.undescribed, EACH);
	assert_int_equal(counts.events, how == ALONE ? 0 : EACH);
	for (unsigned i = 0; i < r->n; i++)
		assert_int_equal(spoor_user_arena_overwritten(r->sources[i].arena), 0);
}

static void check(struct fixture *f, enum round how, unsigned mode)
{
	struct made_arena programs[] = { make(1, mode), make(0, mode) };
	struct spoor_source_list none = {}, written = {};
	struct recorder r;
	char next[128];

	snprintf(f->path, sizeof(f->path), "%s/%u-%u.spoor", f->dir, how, mode);
	snprintf(next, sizeof(next), "%s/%u-%u-next.spoor", f->dir, how, mode);
	begin(&r, f, f->path, &none);
	for (unsigned i = how == ALONE; i < 2; i++)
		come(&r, &programs[i], &none);
	take(&r, f, how == TOGETHER);
	check_counts(&r, how);
	end(&r, f, &written);
	begin(&r, f, next, &written);
	for (unsigned i = how == ALONE; i < 2; i++)
		come(&r, &programs[i], &written);
	take(&r, f, how == TOGETHER);
	check_counts(&r, how);
	end(&r, f, &none);
	for (unsigned i = 0; i < 2; i++)
		free(programs[i].base);
	spoor_source_list_done(&written);
	spoor_source_list_done(&none);
}

static void test_undescribed(void **state)
{
	for (enum round how = 0; how < N_ROUNDS; how++) {
		check(*state, how, SPOOR_ARENA_DISCARD);
		check(*state, how, SPOOR_ARENA_OVERWRITE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { TEST_OF_TRACE(test_undescribed) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
