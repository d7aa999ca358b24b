/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object/minidebug.h"

#include <errno.h>
#include <lzma.h>
#include <stdlib.h>

#include "base/cleanup.h"

#define MAX_UNPACKED (128u << 20)
#define MAX_MEMORY (256u << 20)
#define FIRST_SIZE (256u << 10)

static int grow(lzma_stream *s, uint8_t **out, size_t *size)
{
	size_t done = *size - s->avail_out, bigger = *size ? *size * 2 : FIRST_SIZE;
	uint8_t *p;

	if (bigger > MAX_UNPACKED)
		return -EFBIG;
	p = realloc(*out, bigger);
	if (!p)
		return -ENOMEM;
	*out = p;
	*size = bigger;
	s->next_out = p + done;
	s->avail_out = bigger - done;
	return 0;
}

static int unpack(lzma_stream *s, uint8_t **out, size_t *size)
{
	for (;;) {
		lzma_ret r = lzma_code(s, LZMA_FINISH);

		if (r == LZMA_STREAM_END)
			return 0;
		if (r != LZMA_OK && r != LZMA_BUF_ERROR)
			return r == LZMA_MEM_ERROR ? -ENOMEM : r == LZMA_MEMLIMIT_ERROR ? -EFBIG : -EBADMSG;
		if (s->avail_out)
			return -EBADMSG; /* the input ended early */
		int grown = grow(s, out, size);
		if (grown < 0)
			return grown;
	}
}

int spoor_minidebug_unpack(const struct spoor_elf *elf, void **ret, size_t *ret_size)
{
	const Elf64_Shdr *section = spoor_elf_section(elf, ".gnu_debugdata");
	_cleanup_(spoor_freep) void *packed = NULL;
	_cleanup_(spoor_freep) uint8_t *out = NULL;
	lzma_stream s = LZMA_STREAM_INIT;
	size_t packed_size, size = 0;
	int r;

	if (!section)
		return -ENOENT;
	r = spoor_elf_read(elf, section, &packed, &packed_size);
	if (r < 0)
		return r == -ENODATA ? -ENOENT : r;
	if (lzma_stream_decoder(&s, MAX_MEMORY, 0) != LZMA_OK)
		return -ENOMEM;
	s.next_in = packed;
	s.avail_in = packed_size;
	r = unpack(&s, &out, &size);
	size -= s.avail_out;
	lzma_end(&s);
	if (r < 0)
		return r;
	*ret_size = size;
	*ret = TAKE_PTR(out);
	return 0;
}
