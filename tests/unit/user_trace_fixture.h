/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* A trace of user events of our own making: one field, `n`, which is the event's time; four lanes. */
#include "trace_fixture.h"

struct user_event {
	struct spoor_event_header h;
	uint8_t body[64];
};

static const struct spoor_class_field number = { "n", SPOOR_VALUE_UNSIGNED, 8 };

static inline void open_user_writer(struct fixture *f, struct spoor_writer_options o)
{
	o.path = f->path;
	o.n_lanes = 4;
	assert_int_equal(spoor_writer_open(&o, &f->w, &f->e), 0);
}

static inline uint16_t add_class(struct fixture *f, const char *name)
{
	struct spoor_event_class c = { .id = SPOOR_EV_USER, .name = name, .n_fields = 1, .fields = &number };
	uint16_t id = 0;

	assert_int_equal(spoor_writer_class(f->w, &c, 1, &id, &f->e), 0);
	return id;
}

static inline int write_lane(struct fixture *f, unsigned lane, uint16_t id, uint64_t ts,
			     const struct spoor_packet_source *s)
{
	struct user_event e = { .h = { .ts = ts, .id = id, .size4 = 6, .tid = 5 } };
	struct iovec span = { &e, 24 };
	struct spoor_lane_packet p = { &span, 1, ts, ts, 0, 5, !!s, s };

	memcpy(e.body, &ts, 8);
	return spoor_writer_lane_packet(f->w, lane, &p, &f->e);
}

static inline int take_source(const struct spoor_packet_source *s, void *p)
{
	struct spoor_packet_source *best = p;

	if (s->serial == best->serial && s->position > best->position)
		*best = *s;
	return 0;
}

static inline void user_file(struct fixture *f, unsigned segment, const char *name, char *ret, size_t size)
{
	char host[256];

	host_name(host, sizeof(host));
	snprintf(ret, size, "%s/%s/ust/seg-%06u/%s", f->path, host, segment, name);
}
