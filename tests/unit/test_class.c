/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Classes of user events: what can be one, its definition and back, its events, the writer's care of it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/class.h"
#include "trace/reader.h"
#include "trace/writer.h"

#include "user_trace_fixture.h"

static struct spoor_event_class class_of(const struct spoor_class_field *fields, unsigned n)
{
	return (struct spoor_event_class){ .id = SPOOR_EV_USER, .name = "p:e", .n_fields = n, .fields = fields };
}

static int try_field(struct spoor_class_field f)
{
	struct spoor_event_class c = class_of(&f, 1);
	struct spoor_class *def = NULL;
	int r = spoor_class_encode(&c, &def);

	free(def);
	return r;
}

static void test_what_can_be_a_field(void **state)
{
	const struct spoor_class_value value = { "v", 0, 255 }, wide = { "v", 0, 256 }, turned = { "v", 2, 1 };

	assert_int_equal(try_field((struct spoor_class_field){ "f", SPOOR_VALUE_UNSIGNED, 1 }), 0);
	assert_int_equal(try_field((struct spoor_class_field){ "", SPOOR_VALUE_UNSIGNED, 1 }), -EINVAL);
	assert_int_equal(try_field((struct spoor_class_field){ NULL, SPOOR_VALUE_UNSIGNED, 1 }), -EINVAL);
	assert_int_equal(try_field((struct spoor_class_field){ "f", 0, 1 }), -EINVAL);
	assert_int_equal(try_field((struct spoor_class_field){ "f", SPOOR_VALUE_TYPE_MAX, 1 }), -EINVAL);
	assert_int_equal(try_field((struct spoor_class_field){ "f", SPOOR_VALUE_SIGNED, 3 }), -EINVAL);
	assert_int_equal(try_field((struct spoor_class_field){ "f", SPOOR_VALUE_FLOAT, 2 }), -EINVAL);
	assert_int_equal(try_field((struct spoor_class_field){ "f", SPOOR_VALUE_STRING, 1 }), -EINVAL);
	assert_int_equal(try_field((struct spoor_class_field){ "f", SPOOR_VALUE_STRING }), 0);
	assert_int_equal(try_field((struct spoor_class_field){ "f", SPOOR_VALUE_HEX, 2, SPOOR_SHAPE_ARRAY }), -EINVAL);
	assert_int_equal(try_field((struct spoor_class_field){ "f", SPOOR_VALUE_HEX, 2, SPOOR_SHAPE_SEQUENCE, 0, 3 }),
			 -EINVAL);
	assert_int_equal(try_field((struct spoor_class_field){ "f", SPOOR_VALUE_HEX, 2, SPOOR_SHAPE_SEQUENCE, 0, 8 }),
			 0);
	assert_int_equal(try_field((struct spoor_class_field){ "f", SPOOR_VALUE_HEX, 2, SPOOR_SHAPE_MAX }), -EINVAL);
	assert_int_equal(try_field((struct spoor_class_field){ "f", SPOOR_VALUE_HEX, 2, .flags = 4 }), -EINVAL);
	assert_int_equal(try_field((struct spoor_class_field){ "f", SPOOR_VALUE_TEXT, 1, .flags = 2 }), -EINVAL);
	assert_int_equal(try_field((struct spoor_class_field){ "f", SPOOR_VALUE_UNSIGNED, 1, .n_values = 1,
							       .values = &value }), 0);
	assert_int_equal(try_field((struct spoor_class_field){ "f", SPOOR_VALUE_HEX, 1, .n_values = 1,
							       .values = &value }), -EINVAL);
	assert_int_equal(try_field((struct spoor_class_field){ "f", SPOOR_VALUE_UNSIGNED, 1, .n_values = 1,
							       .values = &wide }), -EINVAL);
	assert_int_equal(try_field((struct spoor_class_field){ "f", SPOOR_VALUE_UNSIGNED, 1, .n_values = 1,
							       .values = &turned }), -EINVAL);
}

static void test_what_can_be_a_class(void **state)
{
	static struct spoor_class_field many[SPOOR_MAX_CLASS_FIELDS + 1];
	static char name[70000];
	struct spoor_class_field late[] = { { "f", SPOOR_VALUE_UNSIGNED, 1 },
					    { "cpu", SPOOR_VALUE_UNSIGNED, 4, .flags = SPOOR_VALUE_CONTEXT } };
	struct spoor_event_class c = class_of(many, SPOOR_MAX_CLASS_FIELDS);
	struct spoor_class *def;

	for (unsigned i = 0; i <= SPOOR_MAX_CLASS_FIELDS; i++)
		many[i] = (struct spoor_class_field){ "f", SPOOR_VALUE_UNSIGNED, 8, SPOOR_SHAPE_ARRAY, .count = 31 };
	assert_int_equal(spoor_class_encode(&c, &def), 0); /* 16 + 256 * 248 bytes */
	free(def);
	many[7].count = 31 + 260;
	assert_int_equal(spoor_class_encode(&c, &def), -EINVAL); /* longer than an event can be */
	many[7].count = 31;
	c.n_fields++;
	assert_int_equal(spoor_class_encode(&c, &def), -E2BIG);
	c = class_of(late, 2);
	assert_int_equal(spoor_class_encode(&c, &def), -EINVAL); /* contexts come first */
	c.n_fields = 1;
	c.id = SPOOR_EV_USER - 1;
	assert_int_equal(spoor_class_encode(&c, &def), -EINVAL);
	c.id = SPOOR_EV_USER;
	c.name = "";
	assert_int_equal(spoor_class_encode(&c, &def), -EINVAL);
	memset(name, 'x', sizeof(name) - 1);
	c.name = name;
	assert_int_equal(spoor_class_encode(&c, &def), -E2BIG);
}

static void test_definition_and_back(void **state)
{
	const struct spoor_class_value values[] = { { "MINUS", -3, -1 }, { "", 5, 5 } };
	const struct spoor_class_field f[] = {
		{ "cpu", SPOOR_VALUE_UNSIGNED, 4, .flags = SPOOR_VALUE_CONTEXT },
		{ "e", SPOOR_VALUE_SIGNED, 2, .flags = SPOOR_VALUE_BIG_ENDIAN, .n_values = 2, .values = values },
		{ "a", SPOOR_VALUE_FLOAT, 4, SPOOR_SHAPE_ARRAY, .count = 7 },
		{ "s", SPOOR_VALUE_TEXT, 1, SPOOR_SHAPE_SEQUENCE, .length_size = 4 },
	};
	struct spoor_event_class c = class_of(f, 4), *back;
	struct spoor_class *def;

	c.file = "x.c";
	c.line = 123456;
	c.level = 6;
	c.kind = SPOOR_CLASS_MARKER;
	assert_int_equal(spoor_class_encode(&c, &def), 0);
	assert_int_equal(def->h.id, SPOOR_EV_CLASS);
	assert_int_equal(spoor_class_decode(def, &back), 0);
	assert_string_equal(back->name, "p:e");
	assert_string_equal(back->file, "x.c");
	assert_true(back->line == 123456 && back->level == 6 && back->kind == SPOOR_CLASS_MARKER && !back->fixed_size);
	assert_int_equal(back->n_fields, 4);
	for (unsigned i = 0; i < 4; i++) {
		const struct spoor_class_field *x = &back->fields[i];

		assert_string_equal(x->name, f[i].name);
		assert_true(x->type == f[i].type && x->size == f[i].size && x->shape == f[i].shape);
		assert_true(x->flags == f[i].flags && x->count == f[i].count && x->length_size == f[i].length_size);
	}
	assert_string_equal(back->fields[1].values[0].label, "MINUS");
	assert_true(back->fields[1].values[0].first == (uint64_t)-3 && back->fields[1].n_values == 2);
	assert_int_equal(spoor_class_find(back, "cpu", 1), 0);
	assert_int_equal(spoor_class_find(back, "cpu", 0), -ENOENT);
	free(back);
	for (unsigned cut = 0; cut < def->len; cut++) { /* shortened by any number of bytes it makes no sense */
		uint16_t len = def->len;

		def->len = cut;
		assert_int_equal(spoor_class_decode(def, &back), -EBADMSG);
		def->len = len;
	}
	free(def);
}

static char *format_of(struct spoor_event_class *c)
{
	struct spoor_event_class *back;
	struct spoor_class *def;
	char *format;

	assert_int_equal(spoor_class_encode(c, &def), 0);
	assert_int_equal(spoor_class_decode(def, &back), 0);
	format = back->format ? strdup(back->format) : NULL;
	free(back);
	free(def);
	return format;
}

static void test_format(void **state)
{
	const struct spoor_class_field f[] = { { "n", SPOOR_VALUE_UNSIGNED, 4 } };
	struct spoor_event_class c = class_of(f, 1);
	char *large = calloc(1, 1 << 20), *format;

	assert_null(format_of(&c));
	c.format = "n %u";
	format = format_of(&c);
	assert_string_equal(format, "n %u");
	free(format);
	c.format = memset(large, 'x', (1 << 20) - 1); /* that it has no room for, and goes without */
	assert_null(format_of(&c));
	free(large);
}

static void test_values(void **state)
{
	const struct spoor_class_value values[] = { { "one", 1, 1 }, { "some", 0, 9 } };
	const struct spoor_class_field f[] = {
		{ "s8", SPOOR_VALUE_SIGNED, 1 },
		{ "be", SPOOR_VALUE_UNSIGNED, 4, .flags = SPOOR_VALUE_BIG_ENDIAN },
		{ "sbe", SPOOR_VALUE_SIGNED, 2, .flags = SPOOR_VALUE_BIG_ENDIAN },
		{ "text", SPOOR_VALUE_STRING },
		{ "list", SPOOR_VALUE_UNSIGNED, 2, SPOOR_SHAPE_SEQUENCE, .length_size = 1 },
		{ "e", SPOOR_VALUE_UNSIGNED, 1, .n_values = 2, .values = values },
	};
	struct user_event e = { .h = { .size4 = 10 },
				.body = { 0xfe, 1, 2, 3, 4, 0xff, 0xfd, 'h', 'i', 0, 2, 1, 0, 2, 1, 1 } };
	struct spoor_event_class c = class_of(f, 6);
	struct spoor_value v[6];

	assert_int_equal(spoor_class_length(&c, &e.h), 32);
	spoor_class_values(&c, &e.h, v);
	assert_true(spoor_value_integer(&v[0], 0) == (uint64_t)-2);
	assert_int_equal(spoor_value_integer(&v[1], 0), 0x01020304);
	assert_true(spoor_value_integer(&v[2], 0) == (uint64_t)-3);
	assert_int_equal(v[3].n, 2);
	assert_string_equal((const char *)v[3].bytes, "hi");
	assert_int_equal(v[4].n, 2);
	assert_int_equal(spoor_value_integer(&v[4], 1), 0x102);
	assert_string_equal(spoor_value_label(&v[5]), "one");
	assert_null(spoor_value_label(&v[0]));
	e.body[15] = 10;
	assert_null(spoor_value_label(&v[5]));
	e.body[10] = 200; /* a sequence that goes beyond the event */
	assert_int_equal(spoor_class_length(&c, &e.h), 0);
	memset(e.body + 7, 'x', sizeof(e.body) - 7); /* a string without an end */
	assert_int_equal(spoor_class_length(&c, &e.h), 0);
}

static void test_lengths_that_overflow(void **state)
{
	const struct spoor_class_field f = { "l", SPOOR_VALUE_UNSIGNED, 8, SPOOR_SHAPE_SEQUENCE, .length_size = 8 };
	struct user_event e = { .h = { .size4 = 10 } };
	struct spoor_event_class c = class_of(&f, 1);
	static const uint64_t lengths[] = { UINT64_MAX, 1ULL << 61, (1ULL << 61) + 1, 3 };

	for (unsigned i = 0; i < 4; i++) {
		memcpy(e.body, &lengths[i], 8);
		assert_int_equal(spoor_class_length(&c, &e.h), 0);
	}
	memcpy(e.body, &(uint64_t){ 2 }, 8);
	assert_int_equal(spoor_class_length(&c, &e.h), 40);
	e.h.size4 = 4; /* not even room for the length */
	assert_int_equal(spoor_class_length(&c, &e.h), 0);
}

/* ---- in a trace ---- */

static void test_lanes(void **state)
{
	struct spoor_packet_source source = { { 7 }, 3, 100 }, found = { .serial = 3 };
	struct fixture *f = *state;
	struct spoor_trace *t;
	struct spoor_event ev;
	uint16_t id;

	open_user_writer(f, (struct spoor_writer_options){});
	id = add_class(f, "a:b");
	assert_int_equal(id, SPOOR_EV_USER);
	assert_int_equal(spoor_writer_flush(f->w, &f->e), 0);
	assert_int_equal(write_lane(f, 4, id, 10, NULL), -EINVAL); /* there are four */
	assert_int_equal(spoor_writer_lane_end(f->w, 1), 0);
	assert_int_equal(write_lane(f, 1, id, 10, &source), 0);
	assert_int_equal(spoor_writer_lane_end(f->w, 1), 10);
	source.position = 300;
	assert_int_equal(write_lane(f, 0, id, 5, &source), 0);
	assert_int_equal(write_lane(f, 1, id, 9, NULL), -EINVAL); /* before the end of its last packet: lost */
	assert_int_equal(spoor_writer_packet(f->w, 0, 0, NULL, 0, 1, 1, 0, &f->e), -EINVAL); /* no such part */
	assert_int_equal(spoor_writer_lost(f->w), 1);
	close_writer(f);
	t = open_trace(f);
	assert_int_equal(spoor_trace_next(t, &ev), 1); /* the definition */
	assert_int_equal(spoor_trace_next(t, &ev), 1);
	assert_true(ev.class && !strcmp(ev.class->name, "a:b") && ev.h->ts == 5 && ev.cpu == SPOOR_CPU_UNKNOWN);
	assert_int_equal(spoor_trace_next(t, &ev), 1);
	assert_true(ev.h->ts == 10 && ev.segment && ev.class && !strcmp(ev.class->name, "a:b"));
	assert_int_equal(spoor_trace_next(t, &ev), 0);
	assert_int_equal(spoor_trace_discarded(t), 1);
	assert_int_equal(spoor_trace_sources(t, take_source, &found), 0);
	assert_true(found.position == 300 && found.arena[0] == 7);
	assert_false(spoor_trace_info(t)->has_calls);
	spoor_trace_close(t);
}

static int stop(const struct spoor_packet_source *s, void *p)
{
	++*(int *)p;
	return 42;
}

static void test_sources_of_whole_packets_only(void **state)
{
	struct spoor_packet_source source = { { 7 }, 3, 100 }, found = { .serial = 3 };
	struct fixture *f = *state;
	struct spoor_trace *t;
	char path[512], host[256];
	int calls = 0;
	uint16_t id;

	open_user_writer(f, (struct spoor_writer_options){});
	id = add_class(f, "a:b");
	write_lane(f, 0, id, 10, &source);
	source.position = 200;
	write_lane(f, 0, id, 20, &source);
	close_writer(f);
	host_name(host, sizeof(host));
	snprintf(path, sizeof(path), "%s/%s/ust/seg-000001/lane0", f->path, host);
	assert_int_equal(truncate(path, 2 * (88 + 24 + 32) - 1), 0);
	t = open_trace(f);
	assert_int_equal(spoor_trace_sources(t, take_source, &found), 0);
	assert_int_equal(found.position, 100);
	assert_int_equal(spoor_trace_sources(t, stop, &calls), 42);
	assert_int_equal(calls, 1);
	spoor_trace_close(t);
}

static void test_refused_classes(void **state)
{
	const struct spoor_class_field bad = { "", SPOOR_VALUE_UNSIGNED, 8 };
	struct spoor_event_class c = class_of(&bad, 1);
	struct fixture *f = *state;
	struct spoor_trace *t;
	uint16_t id = 99;

	open_user_writer(f, (struct spoor_writer_options){});
	assert_int_equal(spoor_writer_class(f->w, &c, 1, &id, &f->e), -EINVAL);
	assert_non_null(strstr(f->e.text, "p:e"));
	assert_int_equal(id, 99);
	assert_int_equal(add_class(f, "good"), SPOOR_EV_USER);
	assert_int_equal(add_class(f, "good"), SPOOR_EV_USER + 1); /* the same again is another */
	close_writer(f);
	t = open_trace(f);
	assert_int_equal(count(t), 2);
	spoor_trace_close(t);
}

/* The size of a segment's metadata; *ret_inode tells whether it is shared. */
static off_t metadata(struct fixture *f, unsigned segment, ino_t *ret_inode)
{
	char path[512], host[256];
	struct stat st;

	host_name(host, sizeof(host));
	snprintf(path, sizeof(path), "%s/%s/ust/seg-%06u/metadata", f->path, host, segment);
	assert_int_equal(stat(path, &st), 0);
	*ret_inode = st.st_ino;
	return st.st_size;
}

static void test_metadata_is_shared_until_it_grows(void **state)
{
	struct fixture *f = *state;
	ino_t inodes[4];
	off_t sizes[4];

	open_user_writer(f, (struct spoor_writer_options){});
	add_class(f, "first");
	sizes[0] = metadata(f, 1, &inodes[0]);
	assert_int_equal(spoor_writer_segment_begin(f->w, &f->e), 0);
	assert_int_equal(metadata(f, 2, &inodes[1]), sizes[0]);
	assert_int_equal(inodes[0], inodes[1]);
	assert_int_equal(spoor_writer_segment_end(f->w, &f->e), 0);
	add_class(f, "second"); /* the closed segment must not see it */
	assert_int_equal(metadata(f, 1, &inodes[2]), sizes[0]);
	sizes[1] = metadata(f, 2, &inodes[1]);
	assert_true(sizes[1] > sizes[0] && inodes[1] != inodes[0]);
	add_class(f, "third"); /* appended to */
	sizes[2] = metadata(f, 2, &inodes[2]);
	assert_true(sizes[2] > sizes[1] && inodes[2] == inodes[1]);
	close_writer(f);
}

static void test_each_segment_defines_all_classes(void **state)
{
	struct fixture *f = *state;
	struct spoor_trace *t;
	struct spoor_event ev;
	unsigned n = 0;
	uint16_t id;

	open_user_writer(f, (struct spoor_writer_options){});
	id = add_class(f, "a:b");
	write_lane(f, 0, id, 10, NULL);
	assert_int_equal(spoor_writer_segment_begin(f->w, &f->e), 0);
	write_lane(f, 0, id, 20, NULL); /* still the first segment's */
	spoor_writer_switch_lanes(f->w);
	write_lane(f, 0, id, 30, NULL);
	assert_int_equal(spoor_writer_segment_end(f->w, &f->e), 0);
	close_writer(f);
	t = open_trace(f);
	while (spoor_trace_next(t, &ev) > 0)
		n += ev.class != NULL;
	assert_int_equal(n, 3);
	assert_int_equal(spoor_trace_info(t)->n_damages, 0);
	spoor_trace_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_can_be_a_field),
		cmocka_unit_test(test_what_can_be_a_class),
		cmocka_unit_test(test_definition_and_back),
		cmocka_unit_test(test_format),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_lengths_that_overflow),
		TEST_OF_TRACE(test_lanes),
		TEST_OF_TRACE(test_sources_of_whole_packets_only),
		TEST_OF_TRACE(test_refused_classes),
		TEST_OF_TRACE(test_metadata_is_shared_until_it_grows),
		TEST_OF_TRACE(test_each_segment_defines_all_classes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
