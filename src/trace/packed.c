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

#include "base/cleanup.h"
#include "trace/content.h"
#include "trace/reader_internal.h"
#include "trace/writer_internal.h"

#define DIRECTORY "objects"
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

static int read_content(int from, uint64_t stored, int compressed, int *ret_fd, struct spoor_content *ret)
{
	_cleanup_(spoor_closep) int to = -1;
	int r;

	if (compressed) {
		to = memfd_create("spoor-packed", MFD_CLOEXEC);
		if (to < 0)
			return -errno;
		r = spoor_content_unpack(from, to, stored < MAX_CONTENT / MAX_RATIO ? stored * MAX_RATIO : MAX_CONTENT,
					 ret);
	} else {
		to = fcntl(from, F_DUPFD_CLOEXEC, 3);
		if (to < 0)
			return -errno;
		r = spoor_content_hash(from, MAX_CONTENT, ret);
	}
	if (r < 0)
		return r == -EFBIG ? -EBADMSG : r;
	*ret_fd = TAKE_FD(to);
	return 0;
}

int spoor_packed_get(struct spoor_packed *p, const struct spoor_packed_name *n, int *ret_fd, uint64_t ret_hash[2])
{
	_cleanup_(spoor_closep) int from = -1, fd = -1;
	struct spoor_content content = {};
	uint64_t listed[2];
	const json_t *entry;
	int compressed = 1, r;
	struct stat st = {};
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
	r = read_content(from, st.st_size, compressed, &fd, &content);
	if (r < 0)
		return r;
	if (entry && (parse_hash(entry, listed) < 0 || memcmp(content.hash, listed, sizeof(listed))))
		return -EBADMSG;
	memcpy(ret_hash, content.hash, sizeof(content.hash));
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* ---- adding ---- */

int spoor_packed_begin(const char *root, struct spoor_packed **ret, struct spoor_error *e)
{
	_cleanup_(closep) struct spoor_packed *p = NULL;
	int r = spoor_packed_open(root, &p);

	if (r < 0 || !p)
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

static int write_new(struct spoor_packed *p, const char *new, int fd, int compress, struct spoor_content *ret)
{
	_cleanup_(spoor_closep) int to =
		openat(p->dir_fd, new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (to < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	return compress ? spoor_content_pack(fd, to, MAX_CONTENT, ret) : spoor_content_copy(fd, to, MAX_CONTENT, ret);
}

static int helps(const struct spoor_content *c)
{
	return c->stored < c->size - c->size / 16 && c->size / MAX_RATIO < c->stored;
}

static int store(struct spoor_packed *p, const char *name, int fd, const uint64_t expected[2],
		 struct spoor_content *ret)
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
	struct spoor_content done = {};
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
