/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the events of lanes were taken from, as their packets say: from the last file of each stream back. */
#include <stdbool.h>
#include <string.h>

#include "trace/reader_internal.h"

typedef int each_source(const struct spoor_packet_source *source, void *p);

static int packet_sources(const struct spoor_packet *packet, bool counts_only, each_source *each, void *p)
{
	const void *behind = (const uint8_t *)packet + spoor_packet_behind(packet);
	const struct spoor_packet_source *source = behind;
	uint64_t n = (packet->packet_size / 8 - spoor_packet_behind(packet)) / sizeof(*source);
	int r = 0;

	for (uint64_t i = 0; i < n && r == 0; i++)
		if (!counts_only || spoor_source_is_count(&source[i]))
			r = each(&source[i], p);
	return r;
}

/* *after: bytes of the stream in later files; then in this one, too. */
static int file_sources(struct spoor_trace *t, const struct spoor_stream_file *f, uint64_t window, uint64_t *after,
			each_source *each, void *p)
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
			r = packet_sources(packet, left + *after > window, each, p);
		at += packet->packet_size / 8;
	}
	*after += c.len;
	spoor_cursor_close(&c);
	return r;
}

int spoor_trace_late_sources(struct spoor_trace *t, uint64_t window, each_source *each, void *p)
{
	uint64_t after = 0;
	int r = 0;

	for (size_t i = t->n_files; i-- > 0 && r == 0;) {
		const struct spoor_stream_file *f = &t->files[i];

		if (i + 1 < t->n_files && (f[1].part != f->part || f[1].instance != f->instance))
			after = 0;
		r = file_sources(t, f, window, &after, each, p);
	}
	return r;
}

int spoor_trace_sources(struct spoor_trace *t, each_source *each, void *p)
{
	return spoor_trace_late_sources(t, UINT64_MAX, each, p);
}
