/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes hostile but valid traces of user events through the writer: `user_gen SCENARIO DIR [COUNT]`. Always the same.
 *
 *   types     every type of field in every shape, with extreme values and empty ones, with contexts, with levels
 *   small     the same, two events of each class: for fuzzing
 *   names     names that CTF cannot take, that are its keywords, that occur twice, that look like Spoor's own
 *   long      events as long as can be
 *   many      COUNT (3,000) classes, come to know one after another
 *   lanes     64 lanes at once, packets of many threads, all with sources
 *   both      kernel and user events in one trace
 *   rotate    both, segments handed over, new classes in each, the oldest dropped if there is a COUNT (bytes)
 *   snapshot  as rotate, halfway a snapshot into the directory that stands in COUNT's place
 *   slow      rotate, COUNT times (10), with a tenth of a second in between: for following
 *   bulk      COUNT (10 million) events of two fields on 4 lanes, for measuring
 *   strings   the same with a string
 */
#include <unistd.h>

#define GENERATOR "user_gen"
#define PADDING 0xa5
#include "user_events.h"

static unsigned most_rounds = 1000;

static const struct spoor_class_value colours[] = {
	{ "RED", 0, 0 }, { "GREEN", 1, 1 }, { "BLUE or so", 2, 5 }, { "RED", 9, 9 }, { "\"last\"", 200, 255 }
};
static const struct spoor_class_value signs[] = {
	{ "lowest", (uint64_t)INT64_MIN, (uint64_t)INT64_MIN }, { "MINUS", (uint64_t)-5, (uint64_t)-1 },
	{ "ZERO", 0, 0 }, { "plus", 1, INT64_MAX }, { "answer", 42, 42 }
};
static const struct spoor_class_value large[] = { { "top", 1ULL << 63, UINT64_MAX }, { "bottom", 0, 1 } };

/* One class a width and shape: all integers, both byte orders. */
static void integers(unsigned size, unsigned shape)
{
	static const uint8_t types[] = { SPOOR_VALUE_UNSIGNED, SPOOR_VALUE_SIGNED, SPOOR_VALUE_HEX, SPOOR_VALUE_OCTAL };
	static const char *const names[] = { "u", "s", "x", "o", "ube", "sbe", "xbe", "obe" };
	struct spoor_class_field f[8] = {};
	struct spoor_event_class c = { .kind = 1, .level = size, .name = "ints:widths", .file = "a.c", FIELDS(f) };
	uint16_t id;

	for (unsigned i = 0; i < 8; i++)
		f[i] = (struct spoor_class_field){
			.name = names[i], .type = types[i % 4], .size = size, .shape = shape,
			.flags = i < 4 ? 0 : SPOOR_VALUE_BIG_ENDIAN,
			.length_size = shape == SPOOR_SHAPE_SEQUENCE ? 1 << (i % 4) : 0,
			.count = shape == SPOOR_SHAPE_ARRAY ? 1 + i : 0
		};
	id = class_id(&c);
	for (unsigned i = 0; i < 60 && i < most_rounds; i++, now += draw(100))
		event(i % 3, &c, id, 10 + i % 2, 0);
}

static void others(void)
{
	static const struct spoor_class_field f[] = {
		{ "cpu", SPOOR_VALUE_UNSIGNED, 4, .flags = SPOOR_VALUE_CONTEXT },
		{ "procname", SPOOR_VALUE_TEXT, 1, SPOOR_SHAPE_ARRAY, SPOOR_VALUE_CONTEXT, .count = 16 },
		{ "vpid", SPOOR_VALUE_SIGNED, 4, .flags = SPOOR_VALUE_CONTEXT },
		{ "ip", SPOOR_VALUE_POINTER, 8, .flags = SPOOR_VALUE_CONTEXT },
		{ "stack", SPOOR_VALUE_STACK, 4, .flags = SPOOR_VALUE_CONTEXT },
		{ "callstack", SPOOR_VALUE_POINTER, 8, SPOOR_SHAPE_SEQUENCE, SPOOR_VALUE_CONTEXT, 2 },
		{ "f", SPOOR_VALUE_FLOAT, 4 },
		{ "d", SPOOR_VALUE_FLOAT, 8 },
		{ "dbe", SPOOR_VALUE_FLOAT, 8, .flags = SPOOR_VALUE_BIG_ENDIAN },
		{ "floats", SPOOR_VALUE_FLOAT, 4, SPOOR_SHAPE_ARRAY, .count = 3 },
		{ "doubles", SPOOR_VALUE_FLOAT, 8, SPOOR_SHAPE_SEQUENCE, .length_size = 4 },
		{ "p", SPOOR_VALUE_POINTER, 8 },
		{ "p32", SPOOR_VALUE_POINTER, 4 },
		{ "string", SPOOR_VALUE_STRING },
		{ "again", SPOOR_VALUE_STRING },
		{ "char", SPOOR_VALUE_TEXT, 1 },
		{ "text", SPOOR_VALUE_TEXT, 1, SPOOR_SHAPE_ARRAY, .count = 9 },
		{ "texts", SPOOR_VALUE_TEXT, 1, SPOOR_SHAPE_SEQUENCE, .length_size = 2 },
		{ "colour", SPOOR_VALUE_UNSIGNED, 1, .n_values = 5, .values = colours },
		{ "sign", SPOOR_VALUE_SIGNED, 8, .n_values = 5, .values = signs },
		{ "large", SPOOR_VALUE_UNSIGNED, 8, .n_values = 2, .values = large },
		{ "colours", SPOOR_VALUE_UNSIGNED, 2, .flags = SPOOR_VALUE_BIG_ENDIAN, .n_values = 5,
		  .values = colours },
	};
	struct spoor_event_class c = { .kind = 1, .level = 14, .line = 4711, .name = "others:all",
				       .file = "dir/*file*/\"x\\.c", FIELDS(f) };
	struct spoor_event_class none = { .kind = 3, .level = SPOOR_LEVEL_NONE, .name = "others:nothing" };
	uint16_t id = class_id(&c), none_id = class_id(&none);

	for (unsigned i = 0; i < 500 && i < most_rounds; i++, now += draw(100)) {
		event(i % 3, &c, id, 10 + i % 2, 0);
		if (i % 5 == 0)
			event(i % 3, &none, none_id, 10, 0);
	}
}

static void types(void)
{
	define_thread(10, 10, "types");
	define_thread(11, 10, "types \x1b[31m");
	define_program(10, SPOOR_PROGRAM_BEGUN, 0, 0);
	for (unsigned size = 1; size <= 8; size *= 2)
		for (unsigned shape = 0; shape < SPOOR_SHAPE_MAX; shape++)
			integers(size, shape);
	others();
	define_program(10, SPOOR_PROGRAM_CRASHED, 5, 1);
	flush_all();
}

static void names(void)
{
	static const char *const bad[] = { "event", "stream", "struct", "int", "padding", "_padding", "a b", "a_b",
					   "\xc3\xa9", "9", "x_length", "x", "x", "x_2", "_x", "name=1", "\"",
					   "env.x", "*/", "size", "string" };
	static const char *const events[] = { "a:b c",		"spoor:stack", "read", "\"quoted\":\\",
					      "\xff:\x01", "no_provider" };
	enum { N = sizeof(bad) / sizeof(*bad) };
	struct spoor_class_field f[N + 2] = {};
	struct spoor_event_class c = { .kind = 2, .level = 99, FIELDS(f) };

	for (unsigned i = 0; i < N; i++)
		f[i] = (struct spoor_class_field){ .name = bad[i], .type = SPOOR_VALUE_UNSIGNED, .size = 2 };
	for (unsigned i = N; i < N + 2; i++)
		f[i] = (struct spoor_class_field){ "x", SPOOR_VALUE_SIGNED, 1, SPOOR_SHAPE_SEQUENCE, .length_size = 1 };
	define_thread(20, 20, "names");
	for (unsigned k = 0; k < sizeof(events) / sizeof(*events); k++) {
		uint16_t id;

		c.name = events[k];
		c.file = events[k];
		id = class_id(&c);
		for (unsigned i = 0; i < 20; i++, now += draw(10))
			event(k, &c, id, 20, 0);
	}
	flush_all();
}

static void longest(void)
{
	static const struct spoor_class_field string[] = { { "s", SPOOR_VALUE_STRING } };
	static const struct spoor_class_field bytes[] = {
		{ "b", SPOOR_VALUE_HEX, 1, SPOOR_SHAPE_SEQUENCE, .length_size = 2 }
	};
	static const struct spoor_class_field array[] = {
		{ "a", SPOOR_VALUE_UNSIGNED, 1, SPOOR_SHAPE_ARRAY, .count = 65000 }
	};
	const struct spoor_event_class c[] = {
		{ .name = "long:string", FIELDS(string) }, { .name = "long:bytes", FIELDS(bytes) },
		{ .name = "long:array", FIELDS(array) }
	};
	static const size_t most[] = { 65511, 65510, 0 };

	define_thread(30, 30, "long");
	for (unsigned k = 0; k < 3; k++) {
		uint16_t id = class_id(&c[k]);

		for (unsigned i = 0; i < 5; i++, now += 1000)
			event(k, &c[k], id, 30, most[k]);
	}
	flush_all();
}

static const struct spoor_class_field two[] = {
	{ "number", SPOOR_VALUE_SIGNED, 4 }, { "long", SPOOR_VALUE_UNSIGNED, 8 }
};
static const struct spoor_class_field with_string[] = {
	{ "number", SPOOR_VALUE_SIGNED, 4 }, { "text", SPOOR_VALUE_STRING }
};

static void many(unsigned count)
{
	define_thread(40, 40, "many");
	for (unsigned i = 0; i < count; i++, now += 10) {
		struct spoor_event_class c = { .name = (char[32]){}, .file = "many.c", .line = i, FIELDS(two) };
		uint16_t id;

		snprintf((char *)c.name, 32, "many:event_%u", i);
		id = class_id(&c);
		event(i % 5, &c, id, 40, 0);
	}
	flush_all();
}

static void all_lanes(void)
{
	const struct spoor_event_class c = { .name = "lanes:string", .file = "l.c", FIELDS(with_string) };
	uint16_t id = class_id(&c);

	for (unsigned i = 0; i < LANES * 2; i++)
		define_thread(100 + i, 100, "lanes");
	for (unsigned i = 0; i < 20000; i++) {
		unsigned lane = draw(LANES);

		now += draw(3);
		event(lane, &c, id, 100 + lane + (draw(50) ? 0 : LANES), 0);
		lanes[lane].discarded += draw(100) == 0;
		if (!draw(2000))
			flush_all();
	}
	flush_all();
}

static void kernel_call(unsigned cpu)
{
	struct {
		struct spoor_syscall s; /* getpid */
	} b = { .s = { .h = { .ts = now, .id = 39, .tid = 50 }, .pid = 50, .dur = 3, .ret = 50 } };
	struct iovec span = { &b, SPOOR_SYSCALL_FIXED };
	struct spoor_error e = {};

	seal(&b, SPOOR_SYSCALL_FIXED);
	if (spoor_writer_packet(writer, cpu, 0, &span, 1, now, now, 0, &e) < 0)
		die(e.text);
}

static void both(unsigned count)
{
	const struct spoor_event_class c = { .name = "both:string", .file = "both.c", .line = 7, FIELDS(with_string) };
	uint16_t id = class_id(&c);

	define_thread(50, 50, "both");
	for (unsigned i = 0; i < count; i++) {
		now += 1 + draw(10);
		event(i % 3, &c, id, 50, 0);
		now += draw(3);
		if (i % 4 == 0)
			kernel_call(i % 2);
	}
	flush_all();
}

static void rotate(unsigned times, unsigned us)
{
	struct spoor_error e = {};

	for (unsigned i = 0; i < times; i++) {
		struct spoor_event_class c = { .name = (char[32]){}, FIELDS(two) };
		uint16_t id;

		both(50);
		usleep(us);
		if (spoor_writer_segment_begin(writer, &e) < 0)
			die(e.text);
		define_thread(50, 50, "rotate");
		snprintf((char *)c.name, 32, "rotate:%u", i);
		id = class_id(&c); /* both segments are open */
		event(1, &c, id, 50, 0);
		flush_all();
		spoor_writer_switch_lanes(writer);
		now += 5;
		event(1, &c, id, 50, 0);
		flush_all();
		if (spoor_writer_segment_end(writer, &e) < 0)
			die(e.text);
	}
}

static int rotate_with_snapshot(const char *path)
{
	struct spoor_error e = {};

	rotate(10, 0);
	if (spoor_writer_snapshot(writer, path, &e) < 0)
		die(e.text);
	rotate(10, 0);
	return 0;
}

static void bulk(uint64_t count, int strings)
{
	const struct spoor_event_class c = { .name = "bulk:two", FIELDS(two) };
	const struct spoor_event_class s = { .name = "bulk:string", FIELDS(with_string) };
	uint16_t id = class_id(strings ? &s : &c);

	for (unsigned i = 0; i < 64; i++)
		define_thread(100 + i, 100, "bulk");
	for (uint64_t done = 0; done < count; done++) {
		now += draw(200);
		event((done >> 8) % 4, strings ? &s : &c, id, 100 + (done >> 8) % 4, strings ? 12 : 0);
	}
	flush_all();
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	uint64_t count = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	struct spoor_writer_options o = {
		.path = argv[argc > 2 ? 2 : 0], .command = "user_gen", .mode = what, .n_lanes = LANES
	};
	struct spoor_error e = {};

	if (!strcmp(what, "both") || !strcmp(what, "rotate") || !strcmp(what, "snapshot") || !strcmp(what, "slow"))
		o.n_cpus = 2;
	if (!strcmp(what, "rotate") && count) {
		o.segment_size = 1 << 16;
		o.max_size = count;
	}
	if (spoor_writer_open(&o, &writer, &e) < 0)
		die(e.text);
	if (!strcmp(what, "small"))
		most_rounds = 2;
	if (!strcmp(what, "types") || !strcmp(what, "small"))
		types();
	else if (!strcmp(what, "names"))
		names();
	else if (!strcmp(what, "long"))
		longest();
	else if (!strcmp(what, "many"))
		many(count ? count : 3000);
	else if (!strcmp(what, "lanes"))
		all_lanes();
	else if (!strcmp(what, "both"))
		both(2000);
	else if (!strcmp(what, "rotate"))
		rotate(20, 0);
	else if (!strcmp(what, "slow"))
		rotate(count ? count : 10, 100000);
	else if (!strcmp(what, "snapshot"))
		rotate_with_snapshot(argv[argc > 3 ? 3 : 2]);
	else if (!strcmp(what, "bulk") || !strcmp(what, "strings"))
		bulk(count ? count : 10000000, what[0] == 's');
	else
		die("usage: user_gen SCENARIO DIR [COUNT]");
	if (spoor_writer_close(writer, &e) < 0)
		die(e.text);
	return 0;
}
