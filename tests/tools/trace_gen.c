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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/syscalls.h"
#include "trace/writer.h"

#define CPUS 4
#define LEVELS 2
#define ROOM (1 << 20)

struct stream {
	uint8_t bytes[ROOM + 65536];
	size_t len, cuts[64];
	int n_cuts;
	uint64_t first, last, discarded;
};

static struct stream streams[CPUS][LEVELS];
static struct spoor_writer *writer;
static uint64_t now = 1000000000, seed = 88172645463325252;
static uint32_t next_id = 1;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "trace_gen: %s\n", what);
	exit(1);
}

/* xorshift64: Marsaglia 2003. */
static uint64_t draw(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static void flush_stream(unsigned cpu, unsigned level)
{
	struct stream *s = &streams[cpu][level];
	struct iovec spans[65];
	struct spoor_error e = {};
	size_t at = 0;

	if (!s->len)
		return;
	s->cuts[s->n_cuts] = s->len;
	for (int i = 0; i <= s->n_cuts; i++) {
		spans[i] = (struct iovec){ s->bytes + at, s->cuts[i] - at };
		at = s->cuts[i];
	}
	if (spoor_writer_packet(writer, cpu, level, spans, s->n_cuts + 1, s->first, s->last, s->discarded, &e) < 0)
		die(e.text);
	s->len = s->n_cuts = 0;
}

static void flush_all(void)
{
	struct spoor_error e = {};

	if (spoor_writer_flush(writer, &e) < 0)
		die(e.text);
	for (unsigned cpu = 0; cpu < CPUS; cpu++)
		for (unsigned level = 0; level < LEVELS; level++)
			flush_stream(cpu, level);
}

/* Ends an event of len bytes: pads, sets its size. */
static void seal(void *event, size_t len)
{
	struct spoor_event_header *h = event;
	size_t padded = SPOOR_EVENT_ROUND(len);

	memset((char *)event + len, 0, padded - len);
	h->size4 = padded / 4;
}

static void emit(unsigned cpu, unsigned level, const void *event)
{
	const struct spoor_event_header *h = event;
	struct stream *s = &streams[cpu][level];
	size_t len = spoor_event_size(h);

	if (s->len + len > ROOM)
		flush_all();
	if (!s->len)
		s->first = h->ts;
	if (s->len && s->n_cuts < 60 && !draw(7))
		s->cuts[s->n_cuts++] = s->len;
	memcpy(s->bytes + s->len, h, len);
	s->len += len;
	s->last = h->ts;
}

static void define(const void *event)
{
	if (spoor_writer_define(writer, event) < 0)
		die("define");
}

static size_t put(uint8_t *to, size_t at, const void *from, size_t len)
{
	memcpy(to + at, from, len);
	return at + len;
}

static size_t put_bytes(uint8_t *to, size_t at, uint16_t len)
{
	at = put(to, at, &len, 2);
	for (int i = 0; i < len; i++)
		to[at++] = draw(256);
	return at;
}

static size_t put_path(uint8_t *to, size_t at, size_t len)
{
	static const char letters[] = "abc/def\xc3\xa9 \"\\\t.";

	for (size_t i = 0; i < len; i++)
		to[at++] = letters[draw(sizeof(letters) - 1)];
	to[at++] = 0;
	return at;
}

/* The variable part of a call, after record.h; the bytes of its payload in ret_len. */
static size_t put_data(uint8_t *to, unsigned id, int longest, unsigned *ret_len)
{
	const struct spoor_syscall_info *info = spoor_syscall_info(id);
	size_t at = 0;
	unsigned n = 0;

	*ret_len = 0;
	for (unsigned i = 0; i < info->n_args; i++) {
		uint64_t v = draw(3) ? draw(1 << 20) : (uint64_t)-draw(200);

		at = put(to, at, &v, info->args[i].width);
	}
	for (unsigned i = 0; i < info->n_args; i++)
		if (info->args[i].kind == SPOOR_ARG_FD)
			at = put(to, at, &(uint32_t){ draw(100) }, 4);
	if (info->flags & SPOOR_SYSCALL_RET_FD)
		at = put(to, at, &(uint32_t){ draw(100) }, 4);
	for (unsigned i = 0; i < info->n_args; i++)
		if (info->args[i].kind == SPOOR_ARG_PATH)
			at = put_path(to, at, longest ? 4095 : draw(30));
	for (unsigned i = 0; i < info->n_args; i++)
		if (info->args[i].kind == SPOOR_ARG_SOCKADDR)
			at = put_bytes(to, at, longest ? 128 : draw(30));
	for (unsigned i = 0; i < info->n_args; i++)
		if (info->args[i].kind == SPOOR_ARG_BUF_IN || info->args[i].kind == SPOOR_ARG_BUF_OUT)
			for (*ret_len = longest ? 1023 : draw(30); n < *ret_len; n++)
				to[at++] = draw(256);
	return at;
}

static void call(unsigned cpu, unsigned id, uint32_t tid, uint64_t ts, uint64_t dur, int longest)
{
	static _Alignas(8) uint8_t buf[65536 + 4096];
	struct spoor_syscall *s = (void *)buf;
	unsigned len;
	size_t size;

	*s = (struct spoor_syscall){ .h = { .ts = ts, .id = id, .flags = draw(8), .tid = tid },
				     .pid = tid / 10 * 10,
				     .stack = draw(next_id),
				     .dur = dur,
				     .ret_long = draw(2) ? draw(1000) : -(int64_t)draw(530) };
	if (spoor_syscall_fixed(id) > SPOOR_SYSCALL_FIXED && draw(2))
		s->ret_long = s->ret_long * 0x123456789;
	size = put_data((uint8_t *)s + spoor_syscall_fixed(id), id, longest, &len);
	s->data_len = len;
	seal(s, spoor_syscall_fixed(id) + size);
	emit(cpu, 0, &s->h);
}

static void pending(unsigned cpu, unsigned id, uint32_t tid, uint64_t ts, uint64_t start, unsigned why)
{
	static _Alignas(8) uint8_t buf[65536];
	struct spoor_pending *p = (void *)buf;
	unsigned len;

	*p = (struct spoor_pending){ .h = { .ts = ts, .id = SPOOR_EV_PENDING, .tid = tid },
				     .pid = tid,
				     .start = start,
				     .nr = id,
				     .why = why,
				     .exact = why != SPOOR_PENDING_BEFORE };
	p->len = put_data(p->data, id, 0, &len);
	seal(p, sizeof(*p) + p->len);
	emit(cpu, why == SPOOR_PENDING_BEFORE, buf);
}

static void define_stack(unsigned n)
{
	static _Alignas(8) uint8_t buf[sizeof(struct spoor_stack) + 8 * SPOOR_MAX_FRAMES + 8];
	struct spoor_stack *s = (void *)buf;

	*s = (struct spoor_stack){ .h = { .ts = now, .id = SPOOR_EV_STACK },
				   .id = next_id++,
				   .status = draw(SPOOR_WALK_STATUS_MAX),
				   .way = draw(2),
				   .n = n };
	for (unsigned i = 0; i < n; i++)
		s->frames[i] = SPOOR_FRAME(draw(SPOOR_MAX_OBJECTS), seed) | (draw(2) ? SPOOR_FRAME_INTERRUPTED : 0);
	seal(s, sizeof(*s) + 8 * n);
	define(s);
	for (unsigned i = draw(3); i; i--) { /* equal ones under other ids */
		s->id = next_id++;
		s->h.ts -= draw(2);
		define(s);
	}
}

static void define_object(size_t path)
{
	static _Alignas(8) uint8_t buf[8192];
	struct spoor_object *o = (void *)buf;

	*o = (struct spoor_object){ .h = { .ts = now, .id = SPOOR_EV_OBJECT },
				    .id = next_id++,
				    .flags = draw(32),
				    .dev = draw(1 << 20),
				    .ino = seed,
				    .size = draw(1 << 30),
				    .mtime = now,
				    .hash_lo = seed,
				    .hash_hi = ~seed,
				    .build_id_len = draw(33) };
	for (int i = 0; i < o->build_id_len; i++)
		o->build_id[i] = draw(256);
	seal(o, put_path(buf, sizeof(*o), path));
	define(o);
}

static void define_file(size_t path)
{
	static _Alignas(8) uint8_t buf[8192];
	struct spoor_file *f = (void *)buf;
	struct spoor_socket *s = (void *)buf;

	*f = (struct spoor_file){ .h = { .ts = now, .id = SPOOR_EV_FILE },
				  .id = next_id++,
				  .kind = 1 + draw(8),
				  .dev = draw(1 << 20),
				  .ino = seed };
	seal(f, put_path(buf, sizeof(*f), path));
	define(f);
	*s = (struct spoor_socket){ .h = { .ts = now, .id = SPOOR_EV_SOCKET },
				    .id = next_id++,
				    .family = draw(40),
				    .type = draw(6),
				    .protocol = draw(256),
				    .state = draw(12),
				    .lport = draw(65536),
				    .rport = draw(65536),
				    .ino = seed };
	for (int i = 0; i < 16; i++)
		s->laddr[i] = draw(256), s->raddr[i] = draw(256);
	seal(s, put_path(buf, sizeof(*s), path));
	define(s);
}

static void define_thread(uint32_t tid, uint64_t start, unsigned why, const char *comm)
{
	struct {
		struct spoor_thread t;
		uint8_t room[8];
	} b = { .t = { .h = { .ts = now, .id = SPOOR_EV_THREAD, .tid = tid },
		       .pid = tid / 10 * 10,
		       .ppid = 1,
		       .start = start,
		       .gen = draw(5),
		       .vtid = tid % 1000,
		       .why = why } };

	strncpy(b.t.comm, comm, 15);
	seal(&b, sizeof(b.t));
	define(&b);
}

static void exit_thread(unsigned cpu, uint32_t tid)
{
	struct {
		struct spoor_thread_exit t;
		uint8_t room[8];
	} b = { .t = { .h = { .ts = now, .id = SPOOR_EV_THREAD_EXIT, .tid = tid },
		       .pid = tid / 10 * 10,
		       .code = draw(2) ? 9 : 256,
		       .kind = draw(3) } };

	seal(&b, sizeof(b.t));
	emit(cpu, 0, &b);
}

/* clock, config, counter, mapping, syscall_other */
static void define_rest(size_t text)
{
	static _Alignas(8) uint8_t buf[8192];
	struct spoor_clock clock = { .h = { .ts = now, .id = SPOOR_EV_CLOCK }, .realtime = now + 5, .boottime = now };
	struct spoor_mapping m = { .h = { .ts = now, .id = SPOOR_EV_MAPPING, .tid = 7 },
				   .pid = 7,
				   .object = 1,
				   .start = 0x7f0000000000,
				   .end = 0x7f0000100000,
				   .offset = 0x1000 };
	struct spoor_syscall_other o = { .h = { .ts = now, .id = SPOOR_EV_SYSCALL_OTHER, .tid = 7 },
					 .pid = 7,
					 .ret = -38,
					 .nr = 100000,
					 .i386 = 1,
					 .args = { 1, 2, 3, ~0ULL, 5, seed } };
	struct spoor_config *c = (void *)buf;
	struct spoor_counter *n = (void *)buf;

	seal(&clock, sizeof(clock));
	define(&clock);
	seal(&m, sizeof(m));
	define(&m);
	*c = (struct spoor_config){ .h = { .ts = now, .id = SPOOR_EV_CONFIG } };
	seal(c, put_path(buf, sizeof(*c), text));
	define(c);
	*n = (struct spoor_counter){ .h = { .ts = now, .id = SPOOR_EV_COUNTER }, .value = seed };
	memcpy(n->name, "walks", 6);
	seal(n, sizeof(*n) + 6);
	define(n);
	seal(&o, sizeof(o));
	emit(0, 0, &o.h);
}

/* ---- scenarios ---- */

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
		now += draw(100);
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
