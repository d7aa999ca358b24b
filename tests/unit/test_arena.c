/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The consumer's side of programs that trace themselves: clocks, lanes, arenas sound and rotten, what is recovered. */
#include "trace_fixture.h"

#include <limits.h>

#include "arena_fixture.h"
#include "collect/user/code.h"
#include "collect/user/lanes.h"
#include "collect/user/recover.h"
#include "collect/user/taker.h"

/* ---- clocks ---- */

static void test_clock(void **state)
{
	struct spoor_user_clock c = {};
	uint64_t last = 0;

	assert_int_equal(spoor_user_clock_add(&c, (struct spoor_clock_pair){ 3000000000, 1000000000 }), 0);
	assert_int_equal(spoor_user_clock_add(&c, (struct spoor_clock_pair){ 9000000000, 3000000000 }), 0);
	/* from there on it counts faster */
	assert_int_equal(spoor_user_clock_add(&c, (struct spoor_clock_pair){ 13000000000, 4000000000 }), 0);
	/* later by one clock, earlier by the other; faster than any */
	assert_int_equal(spoor_user_clock_add(&c, (struct spoor_clock_pair){ 10000000000, 2000000000 }), -EINVAL);
	assert_int_equal(spoor_user_clock_add(&c, (struct spoor_clock_pair){ 9000001000, 3500000000 }), -EINVAL);
	assert_in_range(spoor_user_clock_ns(&c, 6000000000), 1999999998, 2000000000);
	assert_in_range(spoor_user_clock_ns(&c, 11000000000), 3499999998, 3500000000);
	assert_in_range(spoor_user_clock_ns(&c, 17000000000), 4999999998, 5000000000);
	assert_in_range(spoor_user_clock_ns(&c, 1500000000), 499999998, 500000002);
	assert_in_range(spoor_user_clock_ns(&c, 0), 0, 2);
	for (uint64_t tsc = 0; tsc < 20000000000; tsc += 1234567) {
		uint64_t ns = spoor_user_clock_ns(&c, tsc);

		assert_true(ns >= last);
		last = ns;
	}
	spoor_user_clock_forget(&c, 3500000000);
	assert_int_equal(c.n, 2);
	assert_in_range(spoor_user_clock_ns(&c, 11000000000), 3499999998, 3500000000);
	spoor_user_clock_done(&c);
}

static void add_now(struct spoor_user_clock *c, uint64_t tsc, uint64_t ns)
{
	assert_int_equal(spoor_user_clock_now(c, (struct spoor_clock_pair){ tsc, ns }), 0);
}

/* While the machine sleeps one of them stands still, and the other goes on, or begins anew. */
static void test_clock_of_a_machine_that_sleeps(void **state)
{
	struct spoor_user_clock c = {};

	add_now(&c, 3000000000, 1000000000);
	add_now(&c, 6000000000, 2000000000);
	add_now(&c, 6000000000000, 2050000000);
	assert_in_range(spoor_user_clock_ns(&c, 4500000000), 1499999998, 1500000000);
	assert_in_range(spoor_user_clock_ns(&c, 6120000000), 2039999998, 2040000000);
	assert_int_equal(spoor_user_clock_ns(&c, 6151000000), 2050000000);
	assert_int_equal(spoor_user_clock_ns(&c, 5999850000000), 2050000000);
	assert_in_range(spoor_user_clock_ns(&c, 6000300000000), 2149999998, 2150000000);
	add_now(&c, 6003000000000, 3050000000);
	assert_in_range(spoor_user_clock_ns(&c, 6001500000000), 2549999998, 2550000000);
	add_now(&c, 900000000, 3100000000);
	assert_in_range(spoor_user_clock_ns(&c, 600000000), 2999999998, 3000000000);
	assert_in_range(spoor_user_clock_ns(&c, 1200000000), 3199999990, 3200000000);
	spoor_user_clock_done(&c);
}

/* Of the last stamps that there are, as only garbage has them: they do not begin at 0 again. */
static void test_clock_ends(void **state)
{
	struct spoor_user_clock c = {};

	assert_int_equal(spoor_user_clock_add(&c, (struct spoor_clock_pair){ 1000, 5000 }), 0);
	assert_int_equal(spoor_user_clock_ns(&c, UINT64_MAX), UINT64_MAX);
	assert_int_equal(spoor_user_clock_add(&c, (struct spoor_clock_pair){ 1000001000, 5000005000 }), 0);
	assert_int_equal(spoor_user_clock_ns(&c, UINT64_MAX / 2), UINT64_MAX);
	spoor_user_clock_done(&c);
}

/* ---- lanes ---- */

#define RUNS 60

static void test_lanes(void **state)
{
	struct spoor_run runs[RUNS];
	struct spoor_lanes l = {};

	/* One after another: one lane, whoever wrote them. */
	for (unsigned i = 0; i < RUNS; i++)
		runs[i] = (struct spoor_run){ .begin = 10 * i, .end = 10 * i + 5 };
	assert_int_equal(spoor_lanes_assign(&l, runs, RUNS), 0);
	assert_int_equal(l.n, 1);
	/* Three at once: three, for ever. */
	for (unsigned round = 1; round < 100; round++) {
		for (unsigned i = 0; i < 3; i++)
			runs[i] = (struct spoor_run){ .begin = 1000 * round + i, .end = 1000 * round + 900 + i };
		assert_int_equal(spoor_lanes_assign(&l, runs, 3), 0);
		assert_int_equal(l.n, 3);
	}
	/* Too many at once: nothing is changed. */
	for (unsigned i = 0; i < RUNS; i++)
		runs[i] = (struct spoor_run){ .begin = 1000000 + i, .end = 2000000 + i };
	assert_int_equal(spoor_lanes_assign(&l, runs, RUNS), -E2BIG);
	assert_int_equal(l.n, 3);
	assert_int_equal(spoor_lanes_horizon(&l), 0);
}

static void test_merge(void **state)
{
	struct spoor_event_header events[7][5], all[35];
	struct spoor_run runs[7], merged;

	for (unsigned i = 0; i < 7; i++) {
		for (unsigned k = 0; k < 5; k++)
			events[i][k] = (struct spoor_event_header){ .ts = 100 + i + 7 * k, .size4 = 4, .tid = i };
		runs[i] = (struct spoor_run){ .data = (void *)events[i], .len = sizeof(events[i]) };
		runs[i].begin = events[i][0].ts;
		runs[i].end = events[i][4].ts;
	}
	assert_int_equal(spoor_runs_merge(runs, 7, (void *)all, &merged), 0);
	assert_int_equal(merged.len, sizeof(all));
	for (unsigned i = 0; i < 35; i++)
		assert_int_equal(all[i].ts, 100 + i);
	assert_int_equal(merged.begin, 100);
	assert_int_equal(merged.end, 134);
}

/* ---- arenas ---- */

#define REFUSED(change)                                                         \
	do {                                                                    \
		struct made_arena m = arena_make(2);                            \
		struct spoor_arena *h __attribute__((unused)) = arena_head(&m); \
		struct spoor_user_arena *a = NULL;                              \
		struct spoor_error e = { "" };                                  \
		change;                                                         \
		assert_in_range(-open_made(&m, &a, &e), 1, 200);                \
		assert_null(a);                                                 \
		assert_true(*e.text);                                           \
		free(m.base);                                                   \
	} while (0)

static void test_refused(void **state)
{
	REFUSED(h->magic++);
	REFUSED(h->version++);
	REFUSED(h->state = SPOOR_ARENA_MAKING);
	REFUSED(h->size = SPOOR_ARENA_LARGEST + 1);
	REFUSED(h->clock = 3);
	REFUSED(h->n_channels = 9);
	REFUSED(h->n_channels = 0);
	REFUSED(h->n_packets = 3);
	REFUSED(h->n_packets = 0);
	REFUSED(h->n_packets = UINT_MAX);
	REFUSED(h->defs_size = UINT64_MAX - 8);
	REFUSED(h->defs_offset = UINT64_MAX - 7);
	REFUSED(h->defs_offset = 0);
	REFUSED(h->headers_offset += 128 * 1000);
	REFUSED(h->headers_offset += 8);
	REFUSED(h->data_offset += 8);
	REFUSED(h->data_offset = 0);
	REFUSED(h->channels[0].packet_size = 1);
	REFUSED(h->channels[0].packet_size = 0x80000000);
	REFUSED(h->channels[0].n_packets = 1);
	REFUSED(h->channels[0].first_packet = 1);
	REFUSED(h->channels[0].mode = 3);
	REFUSED(m.size = 100);
	REFUSED(m.size = sizeof(struct spoor_arena) - 1);
}

/* A file that was cut anywhere: nothing behind it counts as there, and what had been there is known. */
static void test_cut(void **state)
{
	struct made_arena m = arena_make(2);
	size_t whole = m.size;

	arena_open(&m, 0, SPOOR_PACKET_OWNED, 4000000);
	arena_open(&m, 1, SPOOR_PACKET_FULL, 4000001);
	for (int i = 0; i < 20; i++)
		arena_ints(&m, i % 2, 1000000 + i * 10, i, i);
	for (m.size = sizeof(struct spoor_arena); m.size <= whole; m.size += 7) {
		uint64_t there = 0, filled = arena_packet(&m, 0)->committed + arena_packet(&m, 1)->committed;
		struct spoor_user_arena *a = NULL;

		assert_int_equal(open_made(&m, &a, NULL), 0);
		for (unsigned i = 0; i < 2; i++) {
			there += a->headers[i].committed;
			assert_true(!a->headers[i].committed ||
				    a->packets[i].offset + a->headers[i].committed <= m.size);
		}
		if (m.size >= a->head.data_offset)
			assert_int_equal(there + a->missing, filled);
		spoor_user_arena_free(a);
	}
	free(m.base);
}

static void save(struct fixture *f, struct made_arena *m, const char *name)
{
	char path[320];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	file = fopen(path, "w");
	assert_int_equal(fwrite(m->base, 1, m->size, file), m->size);
	fclose(file);
	free(m->base);
}

static struct spoor_recovery recover(struct fixture *f)
{
	struct spoor_recovery r;

	if (spoor_recover((char *[]){ f->dir }, 1, f->path, "cmd", &r, &f->e))
		fail_msg("%s", f->e.text);
	return r;
}

/* Reads the trace: user events must come in order of time; calls see() for each. */
static unsigned read_back(struct fixture *f, void (*see)(const struct spoor_event *ev, unsigned i))
{
	struct spoor_trace *t = open_trace(f);
	struct spoor_event ev;
	uint64_t last = 0;
	unsigned n = 0;
	int r;

	while ((r = spoor_trace_next(t, &ev)) > 0) {
		if (!ev.class)
			continue;
		assert_true(ev.h->ts >= last);
		last = ev.h->ts;
		if (see)
			see(&ev, n);
		n++;
	}
	assert_int_equal(r, 0);
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	assert_true(spoor_trace_info(t)->ended);
	spoor_trace_close(t);
	return n;
}

static void see_ints(const struct spoor_event *ev, unsigned i)
{
	struct spoor_value v[2];

	assert_string_equal(ev->class->name, "zoo:ints");
	assert_string_equal(ev->class->file, "zoo.c");
	spoor_class_values(ev->class, ev->h, v);
	assert_int_equal((int64_t)spoor_value_integer(&v[0], 0), -(int)i);
	assert_int_equal(spoor_value_integer(&v[1], 0), 1000000 + i * 10);
	assert_int_equal(ev->h->ts, 1000000 + i * 10);
	assert_int_equal(ev->h->tid, 4000000 + i % 2);
}

static void test_recover(void **state)
{
	struct fixture *f = *state;
	struct made_arena m = arena_make(3);
	struct spoor_recovery r;

	arena_open(&m, 0, SPOOR_PACKET_OWNED, 4000000);
	arena_open(&m, 2, SPOOR_PACKET_FULL, 4000001);
	arena_event(&m, 0, 0, 0, "", 0); /* padding */
	for (unsigned i = 0; i < 200; i++) {
		arena_ints(&m, i % 2 ? 2 : 0, 1000000 + i * 10, -(int)i, 1000000 + i * 10);
		if (i % 50 == 0)
			arena_event(&m, 0, 0, 0, "12345678", 8);
	}
	arena_head(&m)->channels[0].lost = 11;
	save(f, &m, "4000000.arena");
	r = recover(f);
	assert_int_equal(r.events, 200);
	assert_int_equal(r.lost, 11);
	assert_int_equal(r.damaged.n, 0);
	assert_int_equal(r.unseen, 1);
	assert_int_equal(r.programs, 1);
	assert_int_equal(read_back(f, see_ints), 200);
}

/* More threads at once than there are lanes, and more bytes than one round takes. */
static void test_crowd(void **state)
{
	struct fixture *f = *state;
	struct made_arena m = arena_make(300);
	struct spoor_recovery r;

	for (unsigned i = 0; i < 300; i++)
		arena_open(&m, i, SPOOR_PACKET_OWNED, 4000000 + i);
	for (unsigned k = 0; k < 100; k++)
		for (unsigned i = 0; i < 300; i++)
			arena_ints(&m, i, 1000000 + k * 5000 + i * 7, k, i);
	save(f, &m, "a.arena");
	r = recover(f);
	assert_int_equal(r.events, 30000);
	assert_int_equal(r.lost, 0);
	assert_int_equal(read_back(f, NULL), 30000);
}

/* What a hostile program may write after some sound events. */
static void with_garbage(struct fixture *f, void (*spoil)(struct made_arena *m), unsigned sound)
{
	struct made_arena m = arena_make(2), other = arena_make(1);
	struct spoor_recovery r;
	char cmd[192];

	arena_open(&m, 0, SPOOR_PACKET_OWNED, 4000000);
	arena_open(&m, 1, SPOOR_PACKET_OWNED, 4000001);
	for (unsigned i = 0; i < 5; i++)
		arena_ints(&m, 0, 1000 + i, 0, 0);
	spoil(&m);
	arena_open(&other, 0, SPOOR_PACKET_OWNED, 4000007);
	memset(arena_head(&other)->uuid, 1, 16);
	for (unsigned i = 0; i < 7; i++)
		arena_text(&other, 0, 1000 + i, "hay", i);
	save(f, &m, "bad.arena");
	save(f, &other, "good.arena");
	r = recover(f);
	assert_int_equal(r.events, sound + 7);
	assert_int_equal(read_back(f, NULL), sound + 7);
	assert_true(r.damaged.places > 0);
	snprintf(cmd, sizeof(cmd), "rm -rf %s %s/*.arena", f->path, f->dir);
	assert_int_equal(system(cmd), 0);
}

static void spoil_id(struct made_arena *m)
{
	arena_event(m, 0, 1010, 77, "", 0);
	arena_ints(m, 0, 1011, 0, 0);
}

static void spoil_size(struct made_arena *m)
{
	arena_event(m, 0, 1010, CLASS_INTS, "123456789012", 12);
	((struct spoor_event_header *)(arena_data(m, 0) + arena_packet(m, 0)->committed - 32))->size4 = 2;
}

static void spoil_long(struct made_arena *m)
{
	arena_ints(m, 0, 1010, 0, 0);
	((struct spoor_event_header *)(arena_data(m, 0) + arena_packet(m, 0)->committed - 32))->size4 = 16000;
}

static void spoil_fields(struct made_arena *m)
{
	arena_event(m, 0, 1010, CLASS_INTS, "1234", 4);
}

static void spoil_string(struct made_arena *m)
{
	uint8_t body[24];

	memset(body, 'x', sizeof(body));
	arena_event(m, 0, 1010, CLASS_TEXT, body, sizeof(body));
}

static void spoil_sequence(struct made_arena *m)
{
	arena_event(m, 0, 1010, CLASS_TEXT, "\0\xff\xff", 3);
}

static void spoil_order(struct made_arena *m)
{
	arena_ints(m, 0, 900, 0, 0);
}

static void spoil_future(struct made_arena *m)
{
	arena_ints(m, 0, UINT64_MAX, 0, 0);
}

static void spoil_committed(struct made_arena *m)
{
	arena_packet(m, 1)->committed = ARENA_PACKET + 8;
}

static void spoil_odd(struct made_arena *m)
{
	arena_packet(m, 1)->committed = 12;
}

static void spoil_defs(struct made_arena *m)
{
	arena_head(m)->defs_used = ARENA_DEFS + 8;
}

static void test_garbage(void **state)
{
	struct fixture *f = *state;

	with_garbage(f, spoil_id, 5);
	with_garbage(f, spoil_size, 5);
	with_garbage(f, spoil_long, 5);
	with_garbage(f, spoil_fields, 5);
	with_garbage(f, spoil_string, 5);
	with_garbage(f, spoil_sequence, 5);
	with_garbage(f, spoil_order, 5);
	with_garbage(f, spoil_future, 5);
	with_garbage(f, spoil_committed, 5);
	with_garbage(f, spoil_odd, 5);
	with_garbage(f, spoil_defs, 0);
}

/* The trace has events of 256 kB at most; what is longer than any path is none. */
static void test_path_of_an_object(void **state)
{
	const size_t size = sizeof(struct spoor_def_object) + 300000;
	struct spoor_def_object *d = calloc(1, size);
	struct spoor_code c = {};

	d->end = 4096;
	memset(d->path, 'x', PATH_MAX + 15);
	assert_int_equal(spoor_code_take(&c, d, size), 0);
	memset(d->path, 'x', 299999);
	assert_int_equal(spoor_code_take(&c, d, size), -EBADMSG);
	spoor_code_done(&c);
	free(d);
}

/* ---- spilled packets ---- */

static void spill(FILE *file, struct made_arena *m, unsigned i)
{
	struct spoor_arena_packet h = *arena_packet(m, i);
	struct spoor_spill s = { .magic = SPOOR_SPILL_MAGIC, .type = SPOOR_SPILL_PACKET };

	s.size = sizeof(s) + sizeof(h) + h.committed;
	memcpy(s.uuid, arena_head(m)->uuid, 16);
	fwrite(&s, sizeof(s), 1, file);
	fwrite(&h, sizeof(h), 1, file);
	fwrite(arena_data(m, i), 1, h.committed, file);
}

static void test_spill(void **state)
{
	struct fixture *f = *state;
	struct made_arena m = arena_make(2);
	struct spoor_spill torn = { .magic = SPOOR_SPILL_MAGIC, .type = SPOOR_SPILL_PACKET, .size = 1000 };
	char path[160];
	FILE *file;

	snprintf(path, sizeof(path), "%s/p.spill", f->dir);
	file = fopen(path, "w");
	for (unsigned i = 0; i < 200; i += 2) { /* packets of two events, one of each of two threads */
		arena_open(&m, 0, SPOOR_PACKET_FULL, 4000000);
		arena_open(&m, 1, SPOOR_PACKET_FULL, 4000001);
		arena_ints(&m, 0, 1000000 + i * 10, -(int)i, 1000000 + i * 10);
		arena_ints(&m, 1, 1000010 + i * 10, -(int)i - 1, 1000010 + i * 10);
		if (i < 198)
			spill(file, &m, 1);
		spill(file, &m, 0); /* the last of it is in both files */
	}
	fwrite(&torn, sizeof(torn), 1, file);
	fclose(file);
	save(f, &m, "p.arena");
	assert_int_equal(recover(f).events, 200);
	assert_int_equal(read_back(f, see_ints), 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clock), cmocka_unit_test(test_clock_of_a_machine_that_sleeps),
		cmocka_unit_test(test_clock_ends), cmocka_unit_test(test_lanes),
		cmocka_unit_test(test_merge), cmocka_unit_test(test_refused),    cmocka_unit_test(test_cut),
		TEST_OF_TRACE(test_recover),  TEST_OF_TRACE(test_crowd),         TEST_OF_TRACE(test_garbage),
		cmocka_unit_test(test_path_of_an_object), TEST_OF_TRACE(test_spill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
