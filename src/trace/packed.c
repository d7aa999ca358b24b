/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "trace/packed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <xxhash.h>
#include <zstd.h>

#include "base/cleanup.h"
#include "trace/reader_internal.h"
#include "trace/writer_internal.h"

#define DIRECTORY "objects"
#define LEVEL 6 /* of zstd: half the size at 100 MB/s */
#define CHUNK (1u << 18)
#define MAX_CONTENT (4ull << 30)
#define MAX_MANIFEST (64u << 20)
/* What is compressed further than that is stored as it is, so that no small file unpacks to a huge one. */
#define MAX_RATIO 256

struct spoor_packed {
	char *root;
	int root_fd, dir_fd; /* dir_fd -1: nothing is packed */
	json_t *manifest;    /* NULL: missing or damaged */
	json_t *index;       /* name -> its entry in the manifest */
};

void spoor_packed_close(struct spoor_packed *p)
{
	if (!p)
		return;
	if (p->root_fd >= 0)
		close(p->root_fd);
	if (p->dir_fd >= 0)
		close(p->dir_fd);
	json_decref(p->index);
	json_decref(p->manifest);
	free(p->root);
	free(p);
}

static void closep(struct spoor_packed **p)
{
	spoor_packed_close(*p);
}

static void json_closep(json_t **j)
{
	json_decref(*j);
}

static void name_of(const struct spoor_packed_name *n, char *buf, size_t size)
{
	static const char *const ends[] = {
		[SPOOR_PACKED_OBJECT] = "", [SPOOR_PACKED_DEBUG] = ".debug", [SPOOR_PACKED_SUPPLEMENT] = ".supplement"
	};

	if (n->kind == SPOOR_PACKED_JIT)
		snprintf(buf, size, "perf-%u.map", n->pid);
	else
		snprintf(buf, size, "%016" PRIx64 "%016" PRIx64 "%s", n->hash[1], n->hash[0], ends[n->kind]);
}

/* ---- the manifest ---- */

static json_t *part_of(json_t *manifest)
{
	json_t *part;
	size_t i;

	json_array_foreach(json_object_get(manifest, "parts"), i, part)
	{
		const char *type = json_string_value(json_object_get(part, "type"));

		if (type && !strcmp(type, "objects"))
			return part;
	}
	return NULL;
}

static int read_manifest(struct spoor_packed *p)
{
	_cleanup_(spoor_freep) char *path = NULL, *text = NULL;
	json_t *entry;
	size_t i;
	int r;

	p->index = json_object();
	if (!p->index || asprintf(&path, "%s/manifest", p->root) < 0)
		return path = NULL, -ENOMEM;
	r = spoor_read_text(path, MAX_MANIFEST, &text);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	p->manifest = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	json_array_foreach(json_object_get(part_of(p->manifest), "files"), i, entry)
	{
		const char *name = json_string_value(json_object_get(entry, "name"));

		if (name && json_object_set(p->index, name, entry) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int parse_hash(const json_t *entry, uint64_t ret[2])
{
	const char *text = json_string_value(json_object_get(entry, "hash"));
	int end = 0;

	if (!text || strlen(text) != 32 || sscanf(text, "%16" SCNx64 "%16" SCNx64 "%n", &ret[1], &ret[0], &end) != 2)
		return -EBADMSG;
	return end == 32 ? 0 : -EBADMSG;
}

/* ---- reading ---- */

int spoor_packed_open(const char *root, struct spoor_packed **ret)
{
	_cleanup_(closep) struct spoor_packed *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->dir_fd = -1;
	p->root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->root_fd < 0)
		return -errno;
	p->root = strdup(root);
	if (!p->root)
		return -ENOMEM;
	p->dir_fd = openat(p->root_fd, DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	r = read_manifest(p);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(p);
	return 0;
}

static ssize_t read_some(int fd, void *buf, size_t size)
{
	ssize_t n;

	do
		n = read(fd, buf, size);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static int write_whole(int fd, const char *buf, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, buf, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		buf += n;
		len -= n;
	}
	return 0;
}

/* Bytes on their way from one file to another, in either direction. */
struct pump {
	int from, to; /* to -1: only hash */
	ZSTD_DCtx *unpack;
	ZSTD_CCtx *pack;
	XXH3_state_t *state;
	char *in, *out;
	uint64_t hash[2], size, stored; /* of the content; of the file */
	uint64_t max;                   /* of size */
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

static int pump_content(struct pump *p, const char *buf, size_t len)
{
	p->size += len;
	if (p->size > p->max)
		return -EFBIG;
	XXH3_128bits_update(p->state, buf, len);
	return 0;
}

static void pump_finish(struct pump *p)
{
	XXH128_hash_t h = XXH3_128bits_digest(p->state);

	p->hash[0] = h.low64;
	p->hash[1] = h.high64;
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
		r = pump_content(p, p->out, out.pos);
		if (r == 0)
			r = write_whole(p->to, p->out, out.pos);
		if (r < 0)
			return r;
	} while (in.pos < in.size || out.pos == out.size);
	return 0;
}

static int unpack(struct pump *p)
{
	size_t left = 0;
	ssize_t n;
	int r;

	p->unpack = ZSTD_createDCtx();
	if (!p->unpack)
		return -ENOMEM;
	ZSTD_DCtx_setParameter(p->unpack, ZSTD_d_windowLogMax, 27);
	while ((n = read_some(p->from, p->in, CHUNK)) > 0) {
		r = unpack_chunk(p, n, &left);
		if (r < 0)
			return r == -EFBIG ? -EBADMSG : r;
	}
	if (n == 0 && left)
		return -EBADMSG; /* it ends in the midst of a frame */
	return n;
}

static int hash_file(struct pump *p)
{
	ssize_t n;

	while ((n = read_some(p->from, p->in, CHUNK)) > 0) {
		int r = pump_content(p, p->in, n);

		if (r < 0)
			return r == -EFBIG ? -EBADMSG : r;
	}
	return n;
}

static int open_file(int dir, const char *name, const char *end, struct stat *st)
{
	char whole[96];
	int fd;

	snprintf(whole, sizeof(whole), "%s%s", name, end);
	fd = openat(dir, whole, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && (fstat(fd, st) < 0 || !S_ISREG(st->st_mode))) {
		close(fd);
		return -EBADMSG;
	}
	return fd < 0 ? -errno : fd;
}

static int read_content(int from, uint64_t stored, int compressed, int *ret_fd, uint64_t ret_hash[2])
{
	_cleanup_(spoor_closep) int to = -1;
	_cleanup_(pump_done) struct pump p = { .from = from, .max = MAX_CONTENT };
	int r = pump_init(&p);

	if (r < 0)
		return r;
	if (compressed) {
		to = memfd_create("spoor-packed", MFD_CLOEXEC);
		if (to < 0)
			return -errno;
		p.to = to;
		if (stored < MAX_CONTENT / MAX_RATIO)
			p.max = stored * MAX_RATIO;
		r = unpack(&p);
	} else {
		r = hash_file(&p);
	}
	if (r < 0)
		return r;
	pump_finish(&p);
	memcpy(ret_hash, p.hash, sizeof(p.hash));
	*ret_fd = compressed ? TAKE_FD(to) : fcntl(from, F_DUPFD_CLOEXEC, 3);
	return *ret_fd < 0 ? -errno : 0;
}

int spoor_packed_get(struct spoor_packed *p, const struct spoor_packed_name *n, int *ret_fd, uint64_t ret_hash[2])
{
	_cleanup_(spoor_closep) int from = -1, fd = -1;
	uint64_t hash[2], listed[2];
	const json_t *entry;
	int compressed = 1, r;
	struct stat st;
	char name[64];

	name_of(n, name, sizeof(name));
	entry = json_object_get(p->index, name);
	if (!entry && (p->dir_fd < 0 || n->kind != SPOOR_PACKED_OBJECT))
		return -ENOENT;
	from = open_file(p->dir_fd, name, ".zst", &st);
	if (from == -ENOENT) {
		compressed = 0;
		from = open_file(p->dir_fd, name, "", &st);
	}
	if (from < 0)
		return entry ? -EBADMSG : from;
	r = read_content(from, st.st_size, compressed, &fd, hash);
	if (r < 0)
		return r;
	if (entry && (parse_hash(entry, listed) < 0 || memcmp(hash, listed, sizeof(hash))))
		return -EBADMSG;
	memcpy(ret_hash, hash, sizeof(hash));
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* ---- adding ---- */

int spoor_packed_begin(const char *root, struct spoor_packed **ret, struct spoor_error *e)
{
	_cleanup_(closep) struct spoor_packed *p = NULL;
	int r = spoor_packed_open(root, &p);

	if (r < 0)
		return spoor_fail(e, -r, "%s: cannot open: %s", root, strerror(-r));
	if (p->dir_fd < 0) {
		if (mkdirat(p->root_fd, DIRECTORY, 0700) < 0 && errno != EEXIST)
			return spoor_fail(e, errno, "%s: cannot create " DIRECTORY ": %m", root);
		p->dir_fd = openat(p->root_fd, DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (p->dir_fd < 0)
			return spoor_fail(e, errno, "%s: cannot open " DIRECTORY ": %m", root);
	}
	if (flock(p->dir_fd, LOCK_EX | LOCK_NB) < 0)
		return spoor_fail(e, errno == EWOULDBLOCK ? EBUSY : errno, "%s: somebody else packs into it", root);
	/* Again, now that nobody else changes it. */
	json_decref(p->index);
	json_decref(p->manifest);
	p->manifest = NULL;
	r = read_manifest(p);
	if (r < 0)
		return spoor_fail(e, -r, "%s: cannot read its manifest: %s", root, strerror(-r));
	if (!json_is_object(p->manifest))
		return spoor_fail(e, EBADMSG, "%s: its manifest is missing or damaged, so nothing can be listed in it",
				  root);
	*ret = TAKE_PTR(p);
	return 0;
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
		r = write_whole(p->to, p->out, out.pos);
		if (r < 0)
			return r;
		p->stored += out.pos;
	} while (end == ZSTD_e_end ? left != 0 : in.pos < in.size);
	return 0;
}

static int copy_content(struct pump *p, int compress)
{
	ssize_t n;
	int r;

	if (compress) {
		p->pack = ZSTD_createCCtx();
		if (!p->pack)
			return -ENOMEM;
		ZSTD_CCtx_setParameter(p->pack, ZSTD_c_compressionLevel, LEVEL);
	}
	while ((n = read_some(p->from, p->in, CHUNK)) > 0) {
		r = pump_content(p, p->in, n);
		if (r == 0)
			r = compress ? pack_chunk(p, n, ZSTD_e_continue) : write_whole(p->to, p->in, n);
		if (r < 0)
			return r;
	}
	if (n < 0)
		return n;
	pump_finish(p);
	if (compress)
		return pack_chunk(p, 0, ZSTD_e_end);
	p->stored = p->size;
	return 0;
}

/* Writes the content to `name`.new. */
static int write_new(struct spoor_packed *p, const char *new, int fd, int compress, struct pump *ret)
{
	_cleanup_(spoor_closep) int to =
		openat(p->dir_fd, new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	_cleanup_(pump_done) struct pump pump = { .from = fd, .to = to, .max = MAX_CONTENT };
	int r;

	if (to < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	r = pump_init(&pump);
	if (r == 0)
		r = copy_content(&pump, compress);
	if (r < 0)
		return r;
	*ret = (struct pump){ .size = pump.size, .stored = pump.stored };
	memcpy(ret->hash, pump.hash, sizeof(pump.hash));
	return 0;
}

static int helps(const struct pump *p)
{
	return p->stored < p->size - p->size / 16 && p->size / MAX_RATIO < p->stored;
}

static int store(struct spoor_packed *p, const char *name, int fd, const uint64_t expected[2], struct pump *ret)
{
	char new[96], whole[96], other[96];
	int compressed = 1, r;

	snprintf(new, sizeof(new), "%s.new", name);
	r = write_new(p, new, fd, 1, ret);
	if (r == 0 && !helps(ret)) {
		compressed = 0;
		r = write_new(p, new, fd, 0, ret);
	}
	if (r == 0 && expected && memcmp(ret->hash, expected, sizeof(ret->hash)))
		r = -ESTALE;
	snprintf(whole, sizeof(whole), "%s%s", name, compressed ? ".zst" : "");
	snprintf(other, sizeof(other), "%s%s", name, compressed ? "" : ".zst");
	if (r == 0 && renameat(p->dir_fd, new, p->dir_fd, whole) < 0)
		r = -errno;
	unlinkat(p->dir_fd, r == 0 ? other : new, 0);
	return r;
}

int spoor_packed_add(struct spoor_packed *p, const struct spoor_packed_name *n, int fd, const uint64_t expected[2],
		     const char *path, uint64_t *ret_size, uint64_t *ret_stored, struct spoor_error *e)
{
	static const char *const kinds[] = { [SPOOR_PACKED_OBJECT] = "object",
					     [SPOOR_PACKED_DEBUG] = "debug",
					     [SPOOR_PACKED_SUPPLEMENT] = "supplement",
					     [SPOOR_PACKED_JIT] = "jit" };
	char name[64], hash[33];
	struct pump done;
	json_t *entry;
	int r;

	name_of(n, name, sizeof(name));
	r = store(p, name, fd, expected, &done);
	if (r < 0)
		return spoor_fail(e, -r, "%s: cannot pack %s: %s", p->root, path, strerror(-r));
	snprintf(hash, sizeof(hash), "%016" PRIx64 "%016" PRIx64, done.hash[1], done.hash[0]);
	entry = json_pack("{s:s, s:s, s:s, s:I, s:I, s:o}", "name", name, "kind", kinds[n->kind], "hash", hash, "size",
			  (json_int_t)done.size, "stored", (json_int_t)done.stored, "path", spoor_text_json(path));
	if (!entry || json_object_set_new(p->index, name, entry) < 0)
		return spoor_fail(e, ENOMEM, "%s: out of memory", p->root);
	*ret_size = done.size;
	*ret_stored = done.stored;
	return 0;
}

static json_t *new_part(const struct spoor_packed *p)
{
	json_t *files = json_array(), *entry;
	const char *name;

	json_object_foreach(p->index, name, entry) if (json_array_append(files, entry) < 0) return json_decref(files),
		NULL;
	return json_pack("{s:s, s:s, s:o}", "type", "objects", "directory", DIRECTORY, "files", files);
}

/* The manifest's part is replaced, or comes in. */
static int set_part(struct spoor_packed *p)
{
	_cleanup_(json_closep) json_t *part = new_part(p);
	json_t *parts = json_object_get(p->manifest, "parts"), *old = part_of(p->manifest);

	if (!part)
		return -ENOMEM;
	if (old)
		return json_object_clear(old) < 0 || json_object_update(old, part) < 0 ? -ENOMEM : 0;
	if (!json_is_array(parts)) {
		parts = json_array();
		if (json_object_set_new(p->manifest, "parts", parts) < 0)
			return -ENOMEM;
	}
	return json_array_append(parts, part) < 0 ? -ENOMEM : 0;
}

int spoor_packed_save(struct spoor_packed *p, struct spoor_error *e)
{
	int r;

	if (!json_object_size(p->index)) {
		unlinkat(p->root_fd, DIRECTORY, AT_REMOVEDIR); /* if it is empty */
		return 0;
	}
	r = set_part(p);
	if (r == 0)
		r = spoor_manifest_replace(p->root_fd, p->manifest);
	return r < 0 ? spoor_fail(e, -r, "%s: cannot write the manifest: %s", p->root, strerror(-r)) : 0;
}
