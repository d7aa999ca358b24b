/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Rings of CPUs and the events in them, with everything about them drawn by lot: for trace_gen.c. */
#include "generator.h"

#include "trace/syscalls.h"

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
static uint32_t next_id = 1;

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
		if (info->args[i].kind == SPOOR_ARG_FD || info->args[i].kind == SPOOR_ARG_DIRFD)
			at = put(to, at, &(uint32_t){ draw(100) }, 4);
	if (info->flags & SPOOR_SYSCALL_RET_FD)
		at = put(to, at, &(uint32_t){ draw(100) }, 4);
	for (unsigned i = 0; i < info->n_args; i++)
		if (info->args[i].kind == SPOOR_ARG_PATH)
			at = put_path(to, at, longest ? 4095 : draw(30));
	for (unsigned i = 0; i < info->n_args; i++)
		if (info->args[i].kind == SPOOR_ARG_SOCKADDR_IN || info->args[i].kind == SPOOR_ARG_SOCKADDR_OUT)
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
	struct spoor_socket4 *s4 = (void *)buf;

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
	*s4 = (struct spoor_socket4){ .h = { .ts = now, .id = SPOOR_EV_SOCKET4 },
				      .id = next_id++,
				      .type = draw(6),
				      .protocol = draw(256),
				      .state = draw(12),
				      .lport = draw(65536),
				      .rport = draw(65536),
				      .ino = seed };
	for (int i = 0; i < 4; i++)
		s4->laddr[i] = draw(256), s4->raddr[i] = draw(256);
	seal(s4, sizeof(*s4));
	define(s4);
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
