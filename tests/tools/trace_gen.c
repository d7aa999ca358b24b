/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes hostile but valid traces through the writer: `trace_gen SCENARIO DIR [COUNT]`. Always the same events.
 *
 *   calls     every system call of the table, x86-64 and i386, with arguments of every length
 *   own       every event of Spoor's own, with the shortest and the longest variable parts
 *   migrate   calls that block on one CPU and end on another; one in flight at the end; one whose end was lost
 *   nested    interrupts within system calls: two streams of one CPU
 *   reuse     a tid that is many threads one after another
 *   threads   COUNT (10,000) threads
 *   rotate    segments handed over CPU by CPU, the oldest dropped
 *   snapshot  as rotate, halfway a snapshot into the directory that stands in COUNT's place; 3 if that failed
 *   mixed     all of these in one trace, discarded events too
 *   bulk      COUNT (10 million) plain calls on 4 CPUs, for measuring
 */
#define GENERATOR "trace_gen"
#define PADDING 0
#include "trace_events.h"

static void calls(void)
{
	for (int longest = 0; longest < 2; longest++)
		for (unsigned id = 0; id < SPOOR_SYSCALL_MAX; id++)
			if (spoor_syscall_info(id)->name)
				for (int i = 0; i < 3 - 2 * longest; i++)
					call(id % CPUS, id, 100 + id, now += draw(1000), draw(1000), longest);
	flush_all();
}

static void own(void)
{
	static const size_t lengths[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 100, 4095 };

	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		now += draw(1000);
		define_stack(i == 10 ? SPOOR_MAX_FRAMES : i);
		define_object(lengths[i]);
		define_file(lengths[i]);
		define_thread(50 + i, now - draw(1000), 1 + draw(6), "fifteen letters" + i);
		define_rest(lengths[i]);
		exit_thread(i % CPUS, 50 + i);
		pending(i % CPUS, i, 60 + i, now, now - draw(100), 1 + draw(4));
	}
	flush_all();
}

static void migrate(void)
{
	for (int i = 0; i < 200; i++) {
		uint32_t tid = 1000 + draw(20);
		uint64_t start = now += draw(1000);

		pending(i % CPUS, 232, tid, now += 1 + draw(100), start, SPOOR_PENDING_SLEEP);
		for (unsigned n = draw(5); n; n--)
			call(draw(CPUS), draw(300), 2000 + draw(50), now += draw(100), draw(100), 0);
		if (!draw(4))
			flush_all();
		now += 1 + draw(100); /* a call ends after it has begun to sleep */
		call((i + 1) % CPUS, 232, tid, now, now - start, 0);
	}
	pending(0, 0, 3000, now, now - 5000, SPOOR_PENDING_BEFORE); /* no begin known, ends */
	call(1, 0, 3000, now += 10, 4000, 0);
	pending(1, 1, 3001, now, now - 50, SPOOR_PENDING_SLEEP); /* its end is lost */
	now += 100;
	call(2, 2, 3001, now, 20, 0);
	pending(2, 7, 3002, now, now - 70, SPOOR_PENDING_SLEEP); /* in flight, said twice */
	now += 1000;
	pending(3, 7, 3002, now, now - 1070, SPOOR_PENDING_END);
	pending(3, 7, 3003, now, now - 30, SPOOR_PENDING_DEATH);
	flush_all();
}

static void nested(void)
{
	for (int i = 0; i < 300; i++) {
		unsigned cpu = draw(CPUS);
		struct spoor_thread_exit dead = { .h = { .id = SPOOR_EV_THREAD_EXIT, .tid = 4000 + i }, .pid = 4000 };
		struct {
			struct spoor_thread_exit t;
			uint8_t room[8];
		} b = { .t = dead };

		now += 2 + draw(100);
		b.t.h.ts = now - draw(3); /* within the call, or at the very time of its end */
		seal(&b, sizeof(b.t));
		emit(cpu, 1, &b);
		call(cpu, draw(300), 4500 + cpu, now, 50, 0);
	}
	flush_all();
}

static void reuse(void)
{
	for (int i = 0; i < 100; i++) {
		char comm[32];

		now += 10;
		snprintf(comm, sizeof(comm), "life-%d", i);
		define_thread(5000, now, SPOOR_THREAD_FORK, comm);
		call(i % CPUS, 39, 5000, now += 10, 3, 0);
		define_thread(5000, now - 10, SPOOR_THREAD_EXEC, "other");
		call(i % CPUS, 39, 5000, now += 10, 3, 0);
		exit_thread(i % CPUS, 5000);
	}
	flush_all();
}

static void threads(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		define_thread(10000 + i, now - draw(1000), SPOOR_THREAD_ATTACH, "worker");
		call(i % CPUS, 0, 10000 + i, now += draw(10), draw(1000), 0);
	}
	flush_all();
}

static void rotate_once(void)
{
	struct spoor_error e = {};

	flush_all();
	if (spoor_writer_segment_begin(writer, &e) < 0)
		die(e.text);
	define_stack(3); /* to both segments */
	for (unsigned cpu = 0; cpu < CPUS; cpu++) {
		for (unsigned level = 0; level < LEVELS; level++)
			spoor_writer_switch_stream(writer, cpu, level);
		for (unsigned i = 0; i < 20; i++)
			call(draw(CPUS), 1, 6000, now += draw(10), 1, 0);
		define_thread(6000, now, SPOOR_THREAD_SEGMENT, "rotating");
		flush_all();
	}
	if (spoor_writer_segment_end(writer, &e) < 0)
		die(e.text);
}

static void rotate(unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		define_stack(2);
		for (unsigned n = 0; n < 100; n++)
			call(draw(CPUS), draw(300), 6000, now += draw(10), 1, 0);
		streams[draw(CPUS)][0].discarded += draw(50);
		rotate_once();
	}
}

/* Whether there is a snapshot or not, the recording is the same. Returns the exit code. */
static int rotate_with_snapshot(const char *path)
{
	struct spoor_error e = {};
	int r;

	rotate(10);
	r = spoor_writer_snapshot(writer, path, &e);
	if (r < 0)
		fprintf(stderr, "trace_gen: %s\n", e.text);
	rotate(10);
	return r < 0 ? 3 : 0;
}

static void bulk(uint64_t count)
{
	struct spoor_syscall *s;
	static _Alignas(8) uint8_t buf[4096];
	uint64_t done = 0;

	for (int i = 0; i < 1000; i++)
		define_stack(5);
	s = (void *)buf;
	for (; done < count; done++) {
		static const uint16_t ids[] = { 0, 1, 232, 257, 3, 39, 44, 202 };
		unsigned id = ids[done & 7], len;
		size_t size;

		now += draw(200);
		*s = (struct spoor_syscall){ .h = { .ts = now, .id = id, .tid = 100 + (done & 63) },
					     .pid = 100,
					     .stack = 1 + (done & 511),
					     .dur = 700,
					     .ret = 5 };
		size = put_data((uint8_t *)s + SPOOR_SYSCALL_FIXED, id, 0, &len);
		s->data_len = len;
		seal(s, SPOOR_SYSCALL_FIXED + size);
		emit((done >> 4) % CPUS, 0, &s->h);
	}
	flush_all();
}

static void mixed(void)
{
	own();
	calls();
	rotate(2);
	migrate();
	nested();
	rotate(3);
	reuse();
	threads(500);
	rotate(2);
	migrate();
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	uint64_t count = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	struct spoor_writer_options o = {
		.path = argv[argc > 2 ? 2 : 0], .command = "trace_gen \"quoted\" \xff", .mode = what, .n_cpus = CPUS
	};
	struct spoor_error e = {};
	int code = 0;

	if (!strcmp(what, "rotate")) {
		o.segment_size = 1 << 16;
		o.max_size = count ? count : 0;
	}
	if (spoor_writer_open(&o, &writer, &e) < 0)
		die(e.text);
	if (!strcmp(what, "calls"))
		calls();
	else if (!strcmp(what, "own"))
		own();
	else if (!strcmp(what, "migrate"))
		migrate();
	else if (!strcmp(what, "nested"))
		nested();
	else if (!strcmp(what, "reuse"))
		reuse();
	else if (!strcmp(what, "threads"))
		threads(count ? count : 10000);
	else if (!strcmp(what, "rotate"))
		rotate(20);
	else if (!strcmp(what, "snapshot"))
		code = rotate_with_snapshot(argv[argc > 3 ? 3 : 2]);
	else if (!strcmp(what, "mixed"))
		mixed();
	else if (!strcmp(what, "bulk"))
		bulk(count ? count : 10000000);
	else
		die("usage: trace_gen SCENARIO DIR [COUNT]");
	if (spoor_writer_close(writer, &e) < 0)
		die(e.text);
	return code;
}
