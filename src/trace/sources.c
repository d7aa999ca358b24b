/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the events of lanes were taken from, as their packets say. */
#include <errno.h>
#include <string.h>

#include "trace/reader_internal.h"

typedef int each_source(const struct spoor_packet_source *source, void *p);

static int packet_sources(const struct spoor_packet *packet, size_t header, each_source *each, void *p)
{
	const struct spoor_packet_source *source =
		(const void *)((const uint8_t *)packet + sizeof(*packet) + sizeof(struct spoor_packet_sources));
	const void *end = (const uint8_t *)packet + header;
	int r = 0;

	for (; (const void *)source < end && r == 0; source++)
		r = each(source, p);
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
		size_t header;

		left = c.len - at;
		if (spoor_packet_check(packet, left) || packet->packet_size / 8 > left)
			break;
		header = spoor_packet_header_size(packet, left);
		if (packet->stream_id == SPOOR_STREAM_UST && header)
			r = packet_sources(packet, header, each, p);
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
