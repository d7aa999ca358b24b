/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Lanes and the user events in them, with everything about them drawn by lot: for user_gen.c. */
#include "generator.h"

#include "trace/class.h"

#define LANES SPOOR_MAX_LANES
#define ROOM (1 << 18)

struct lane {
	uint8_t bytes[ROOM + 65536];
	size_t len;
	uint64_t first, last, position, serial, discarded;
	uint32_t tid; /* UINT32_MAX: of several threads */
};

static struct lane lanes[LANES];

/* ---- writing ---- */

static void flush_lane(unsigned i)
{
	struct lane *l = &lanes[i];
	struct spoor_packet_source sources[3] = {};
	struct iovec span = { l->bytes, l->len };
	struct spoor_lane_packet p = { &span, 1, l->first, l->last, l->discarded, 0, i % 4, sources };
	struct spoor_error e = {};

	if (!l->len)
		return;
	l->position += l->len;
	for (unsigned k = 0; k < p.n_sources; k++) {
		memset(sources[k].arena, (int)(i + k), 16);
		sources[k].serial = l->serial + k;
		sources[k].position = l->position;
	}
	p.vtid = l->tid == UINT32_MAX ? 0 : l->tid;
	if (spoor_writer_lane_packet(writer, i, &p, &e) < 0)
		die(e.text);
	l->len = 0;
	l->tid = 0;
	l->serial++;
}

static void flush_all(void)
{
	struct spoor_error e = {};

	if (spoor_writer_flush(writer, &e) < 0)
		die(e.text);
	for (unsigned i = 0; i < LANES; i++)
		flush_lane(i);
}

static void emit(unsigned lane, const void *event)
{
	const struct spoor_event_header *h = event;
	struct lane *l = &lanes[lane];

	if (l->len + spoor_event_size(h) > ROOM)
		flush_all();
	if (!l->len)
		l->first = h->ts;
	memcpy(l->bytes + l->len, h, spoor_event_size(h));
	l->len += spoor_event_size(h);
	l->last = h->ts;
	l->tid = !l->tid || l->tid == h->tid ? h->tid : UINT32_MAX;
}

static void define_thread(uint32_t tid, uint32_t pid, const char *comm)
{
	struct {
		struct spoor_thread t;
		uint8_t room[8];
	} b = { .t = { .h = { .ts = now, .id = SPOOR_EV_THREAD, .tid = tid },
		       .pid = pid,
		       .ppid = 1,
		       .start = now - 1000,
		       .vtid = tid,
		       .why = SPOOR_THREAD_ATTACH } };

	strncpy(b.t.comm, comm, 15);
	seal(&b, sizeof(b.t));
	if (spoor_writer_define_user(writer, (const void *)&b) < 0)
		die("define");
}

static void define_program(uint32_t pid, unsigned state, uint64_t lost, uint64_t malformed)
{
	struct {
		struct spoor_program p;
		uint8_t room[8];
	} b = { .p = { .h = { .ts = now, .id = SPOOR_EV_PROGRAM, .tid = pid },
		       .pid = pid,
		       .state = state,
		       .arena = { pid & 255 },
		       .lost = lost,
		       .malformed = malformed,
		       .comm = "program" } };

	seal(&b, sizeof(b.p));
	if (spoor_writer_define_user(writer, (const void *)&b) < 0)
		die("define");
}

static uint16_t class_id(const struct spoor_event_class *c)
{
	struct spoor_error e = {};
	uint16_t id;

	if (spoor_writer_class(writer, c, now, &id, &e) < 0)
		die(e.text);
	return id;
}

/* ---- events of any class ---- */

static size_t put_element(uint8_t *to, const struct spoor_class_field *f)
{
	uint64_t v = draw(3) ? draw(100) : draw(2) ? ~draw(200) : (seed & 1 ? 1ULL << (f->size * 8 - 1) : seed);
	double d = (double)(int64_t)seed / 1e9;
	float s = (float)draw(100000) / 7;

	if (f->n_values && draw(4))
		v = f->values[draw(f->n_values)].last;
	if (f->type == SPOOR_VALUE_TEXT)
		v = draw(8) ? 'a' + draw(26) : draw(3) * 100; /* NUL, too */
	memcpy(to, &v, f->size);
	if (f->type == SPOOR_VALUE_FLOAT && f->size == 8)
		memcpy(to, draw(9) ? &d : &(double){ draw(2) ? -0.0 : __builtin_inf() }, 8);
	if (f->type == SPOOR_VALUE_FLOAT && f->size == 4)
		memcpy(to, draw(9) ? &s : &(float){ draw(2) ? 1e-45f : -3.4028234e38f }, 4);
	return f->size;
}

static size_t put_string(uint8_t *to, size_t len)
{
	static const char letters[] = "abc/def\xc3\xa9 \"\\\t\x1b.%";

	for (size_t i = 0; i < len; i++)
		to[i] = letters[draw(sizeof(letters) - 1)];
	to[len] = 0;
	return len + 1;
}

static size_t put_field(uint8_t *to, const struct spoor_class_field *f, size_t most)
{
	uint64_t n = f->shape == SPOOR_SHAPE_ARRAY ? f->count : 1;
	size_t at = 0;

	if (f->type == SPOOR_VALUE_STRING)
		return put_string(to, most ? most : draw(4) ? draw(30) : 0);
	if (f->shape == SPOOR_SHAPE_SEQUENCE) {
		n = most ? most / f->size : draw(4) ? draw(20) : 0;
		memcpy(to, &n, f->length_size);
		at = f->length_size;
	}
	for (uint64_t i = 0; i < n; i++)
		at += put_element(to + at, f);
	return at;
}

/* most: of strings and sequences; 0: short ones. */
static void event(unsigned lane, const struct spoor_event_class *c, uint16_t id, uint32_t tid, size_t most)
{
	static _Alignas(8) uint8_t buf[1 << 18];
	struct spoor_event_header *h = (void *)buf;
	size_t at = sizeof(*h);

	*h = (struct spoor_event_header){ .ts = now, .id = id, .flags = draw(8), .tid = tid };
	for (unsigned i = 0; i < c->n_fields; i++)
		at += put_field(buf + at, &c->fields[i], most);
	seal(buf, at);
	emit(lane, buf);
}

#define FIELDS(f) .n_fields = sizeof(f) / sizeof(*(f)), .fields = (f)
