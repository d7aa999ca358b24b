/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "unwind/debug_frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "object/unpacked.h"

#ifndef ELFCOMPRESS_ZSTD /* since glibc 2.37 */
#define ELFCOMPRESS_ZSTD 2
#endif

struct packed {
	uint32_t type; /* ELFCOMPRESS_* */
	uint64_t size; /* unpacked */
	const uint8_t *data;
	size_t n;
};

static int unpack(const struct packed *p, struct spoor_view_range *ret, void **ret_unpacked)
{
	_cleanup_(spoor_freep) uint8_t *to = NULL;
	uLongf size = p->size;
	bool whole = false;

	if (!p->size || p->size / SPOOR_MOST_TIMES_SMALLER > p->n)
		return -EBADMSG;
	to = malloc(p->size);
	if (!to)
		return -ENOMEM;
	if (p->type == ELFCOMPRESS_ZLIB)
		whole = uncompress(to, &size, p->data, p->n) == Z_OK && size == p->size;
	else if (p->type == ELFCOMPRESS_ZSTD)
		whole = ZSTD_decompress(to, p->size, p->data, p->n) == p->size;
	if (!whole)
		return -EBADMSG;
	*ret = (struct spoor_view_range){ .data = to, .size = p->size };
	*ret_unpacked = TAKE_PTR(to);
	return 0;
}

static int by_flag(const struct spoor_view_range *section, struct packed *ret)
{
	Elf64_Chdr h;

	if (section->size < sizeof(h))
		return -EBADMSG;
	memcpy(&h, section->data, sizeof(h));
	*ret = (struct packed){ h.ch_type, h.ch_size, section->data + sizeof(h), section->size - sizeof(h) };
	return 0;
}

static int by_name(const struct spoor_view_range *section, struct packed *ret)
{
	uint64_t size;
	size_t head = spoor_zdebug_head(section->data, section->size, &size);

	if (!head)
		return -EBADMSG;
	*ret = (struct packed){ ELFCOMPRESS_ZLIB, size, section->data + head, section->size - head };
	return 0;
}

int spoor_debug_frame(const struct spoor_elf_view *elf, struct spoor_view_range *ret, void **ret_unpacked)
{
	struct spoor_view_range section;
	struct packed packed;
	int r;

	*ret_unpacked = NULL;
	if (spoor_view_section(elf, ".debug_frame", ret) == 0)
		return 0;
	if (spoor_view_compressed(elf, ".debug_frame", &section) == 0)
		r = by_flag(&section, &packed);
	else if (spoor_view_section(elf, ".zdebug_frame", &section) == 0)
		r = by_name(&section, &packed);
	else
		return -ENOENT;
	return r < 0 ? r : unpack(&packed, ret, ret_unpacked);
}
