/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the events of lanes were taken from, as their packets say. */
#include <errno.h>
#include <string.h>

#include "trace/reader_internal.h"

typedef int each_source(const struct spoor_packet_source *source, void *p);

static int packet_sources(const struct spoor_packet *packet, each_source *each, void *p)
{
	const struct spoor_packet_source *source = (const void *)((const uint8_t *)packet + packet->content_size / 8);
	uint64_t n = (packet->packet_size - packet->content_size) / 8 / sizeof(*source);
	int r = 0;

	for (uint64_t i = 0; i < n && r == 0; i++)
		r = each(&source[i], p);
	return r;
}

static int file_sources(struct spoor_trace *t, const struct spoor_stream_file *f, each_source *each, void *p)
{
	struct spoor_cursor c;
	int r = 0;

	if (spoor_cursor_open(t, &c, f->path, f->segment, f->instance) < 0 || !c.map)
		return 0; /* noted */
	for (size_t at = 0, left; at < c.len && r == 0;) {
		const struct spoor_packet *packet = (const void *)(c.map + at);

		left = c.len - at;
		if (spoor_packet_check(packet, left) || packet->packet_size / 8 > left)
			break;
		if (packet->stream_id == SPOOR_STREAM_UST)
			r = packet_sources(packet, each, p);
		at += packet->packet_size / 8;
	}
	spoor_cursor_close(&c);
	return r;
}

int spoor_trace_sources(struct spoor_trace *t, each_source *each, void *p)
{
	int r = 0;

	for (size_t i = 0; i < t->n_files && r == 0; i++)
		r = file_sources(t, &t->files[i], each, p);
	return r;
}
