/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "trace/content.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "base/file.h"

#define LEVEL 6 /* of zstd: half the size at 100 MB/s */
#define MAX_WINDOW 27
#define CHUNK (1u << 18)

struct pump {
	int from, to; /* to -1: only hash */
	ZSTD_DCtx *unpack;
	ZSTD_CCtx *pack;
	XXH3_state_t *state;
	char *in, *out;
	uint64_t size, stored, max;
};

static void pump_done(struct pump *p)
{
	ZSTD_freeDCtx(p->unpack);
	ZSTD_freeCCtx(p->pack);
	XXH3_freeState(p->state);
	free(p->in);
	free(p->out);
}

static int pump_init(struct pump *p)
{
	p->state = XXH3_createState();
	p->in = malloc(CHUNK);
	p->out = malloc(CHUNK);
	if (!p->state || !p->in || !p->out)
		return -ENOMEM;
	XXH3_128bits_reset(p->state);
	return 0;
}

static void give(const struct pump *p, struct spoor_content *ret)
{
	XXH128_hash_t h = XXH3_128bits_digest(p->state);

	*ret = (struct spoor_content){ { h.low64, h.high64 }, p->size, p->stored };
}

static int see(struct pump *p, const char *buf, size_t len)
{
	p->size += len;
	if (p->size > p->max)
		return -EFBIG;
	XXH3_128bits_update(p->state, buf, len);
	return 0;
}

static ssize_t read_some(struct pump *p)
{
	ssize_t n;

	do
		n = read(p->from, p->in, CHUNK);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static int put(struct pump *p, const void *buf, size_t len)
{
	p->stored += len;
	return spoor_write_whole(p->to, buf, len);
}

static int copy(struct pump *p)
{
	ssize_t n;
	int r;

	while ((n = read_some(p)) > 0) {
		r = see(p, p->in, n);
		if (r == 0 && p->to >= 0)
			r = put(p, p->in, n);
		if (r < 0)
			return r;
	}
	return (int)n;
}

static int pack_chunk(struct pump *p, size_t len, ZSTD_EndDirective end)
{
	ZSTD_inBuffer in = { p->in, len, 0 };
	size_t left;

	do {
		ZSTD_outBuffer out = { p->out, CHUNK, 0 };
		int r;

		left = ZSTD_compressStream2(p->pack, &out, &in, end);
		if (ZSTD_isError(left))
			return -EIO;
		r = put(p, p->out, out.pos);
		if (r < 0)
			return r;
	} while (end == ZSTD_e_end ? left != 0 : in.pos < in.size);
	return 0;
}

static int pack(struct pump *p)
{
	ssize_t n;
	int r;

	p->pack = ZSTD_createCCtx();
	if (!p->pack)
		return -ENOMEM;
	ZSTD_CCtx_setParameter(p->pack, ZSTD_c_compressionLevel, LEVEL);
	while ((n = read_some(p)) > 0) {
		r = see(p, p->in, n);
		if (r == 0)
			r = pack_chunk(p, n, ZSTD_e_continue);
		if (r < 0)
			return r;
	}
	return n < 0 ? (int)n : pack_chunk(p, 0, ZSTD_e_end);
}

static int unpack_chunk(struct pump *p, size_t len, size_t *ret_left)
{
	ZSTD_inBuffer in = { p->in, len, 0 };
	ZSTD_outBuffer out;
	int r;

	do {
		out = (ZSTD_outBuffer){ p->out, CHUNK, 0 };
		*ret_left = ZSTD_decompressStream(p->unpack, &out, &in);
		if (ZSTD_isError(*ret_left))
			return -EBADMSG;
		r = see(p, p->out, out.pos);
		if (r == 0)
			r = put(p, p->out, out.pos);
		if (r < 0)
			return r;
	} while (in.pos < in.size || out.pos == out.size);
	return 0;
}

static int unpack(struct pump *p)
{
	size_t left = 1; /* an empty file is no frame */
	ssize_t n;

	p->unpack = ZSTD_createDCtx();
	if (!p->unpack)
		return -ENOMEM;
	ZSTD_DCtx_setParameter(p->unpack, ZSTD_d_windowLogMax, MAX_WINDOW);
	while ((n = read_some(p)) > 0) {
		int r = unpack_chunk(p, n, &left);

		if (r < 0)
			return r;
	}
	if (n < 0)
		return (int)n;
	return left ? -EBADMSG : 0; /* it ends in the midst of a frame */
}

static int run(int (*how)(struct pump *p), int from, int to, uint64_t max, struct spoor_content *ret)
{
	_cleanup_(pump_done) struct pump p = { .from = from, .to = to, .max = max };
	int r = pump_init(&p);

	if (r == 0)
		r = how(&p);
	if (r == 0)
		give(&p, ret);
	return r;
}

int spoor_content_hash(int from, uint64_t max, struct spoor_content *ret)
{
	return run(copy, from, -1, max, ret);
}

int spoor_content_copy(int from, int to, uint64_t max, struct spoor_content *ret)
{
	return run(copy, from, to, max, ret);
}

int spoor_content_pack(int from, int to, uint64_t max, struct spoor_content *ret)
{
	return run(pack, from, to, max, ret);
}

int spoor_content_unpack(int from, int to, uint64_t max, struct spoor_content *ret)
{
	return run(unpack, from, to, max, ret);
}
