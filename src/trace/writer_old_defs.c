/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Definitions that older segments have, for who goes on with a trace. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "trace/reader_internal.h"
#include "trace/writer_internal.h"

typedef int each_definition(void *ctx, const struct spoor_event_header *def);

static int definitions_in(const uint8_t *map, size_t len, each_definition *each, void *ctx)
{
	int r = 0;

	for (size_t at = 0, end; at < len; at = end) {
		const struct spoor_packet *packet = (const void *)(map + at);
		const struct spoor_event_header *h;

		if (spoor_packet_check(packet, len - at) || packet->packet_size / 8 > len - at)
			break;
		end = at + packet->packet_size / 8;
		for (at += sizeof(*packet); end - at >= sizeof(*h); at += spoor_event_size(h)) {
			h = (const void *)(map + at);
			if (spoor_event_size(h) < sizeof(*h) || spoor_event_size(h) > end - at)
				break;
			r |= each(ctx, h);
		}
	}
	return r;
}

static int definitions_of(const struct writer_part *p, unsigned number, each_definition *each, void *ctx)
{
	_cleanup_(spoor_closep) int fd = -1;
	char path[64];
	struct stat st;
	uint8_t *map;
	int r;

	snprintf(path, sizeof(path), "seg-%06u/defs", number);
	fd = openat(p->fd, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0 || !st.st_size)
		return 0;
	map = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return 0;
	r = definitions_in(map, st.st_size, each, ctx);
	munmap(map, st.st_size);
	return r;
}

int spoor_writer_old_definitions(struct spoor_writer *w, each_definition *each, void *ctx)
{
	const struct writer_part *p = w->kernel;
	int r = p->previous ? definitions_of(p, p->previous->number, each, ctx) : 0;

	for (unsigned i = w->n_closed; !r && i-- > 0;)
		r = definitions_of(p, p->closed[i].number, each, ctx);
	return r;
}
