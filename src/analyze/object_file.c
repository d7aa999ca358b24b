/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "analyze/object_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/time.h"
#include "object/identity.h"
#include "object/image.h"
#include "object/regular_file.h"
#include "trace/packed.h"

/* Reading so many bytes takes less than a millisecond: then the content decides, not the time stamp. */
#define CHEAP_TO_HASH (1u << 20)
/* The kernel stamps files by a coarse clock, and an object is defined once it was read. */
#define SLACK_NS SPOOR_NS_PER_SEC

static int is_vdso(const struct spoor_object *object)
{
	return object->flags & SPOOR_OBJECT_IS_VDSO || object->id == SPOOR_OBJECT_VDSO;
}

static int same_build_id(const struct spoor_object *object, const struct spoor_object_identity *id)
{
	return id->build_id_len == object->build_id_len && !memcmp(id->build_id, object->build_id, id->build_id_len);
}

static int same_content(const struct spoor_object *object, int fd)
{
	struct spoor_object_identity id;

	if (spoor_object_identify(fd, &id, NULL) < 0)
		return 0;
	if (object->hash_lo || object->hash_hi)
		return id.hash[0] == object->hash_lo && id.hash[1] == object->hash_hi;
	return object->build_id_len && same_build_id(object, &id);
}

/*
 * Where the recorded numbers are known and are not this file's. A file system without a device of its own (an overlay,
 * a subvolume) has other device numbers for stat(2) than for the kernel's walks: there only the inode tells.
 */
static int lies_elsewhere(const struct spoor_object *object, const struct stat *st)
{
	if (!object->ino)
		return 0;
	return st->st_ino != object->ino || (major(st->st_dev) && object->dev >> 20 &&
					      spoor_kernel_dev(st->st_dev) != object->dev);
}

/*
 * Nobody can put back when a file was changed last, in what it holds or in what is known of it (a link, its mode), but
 * by the clock.
 */
static int touched_since(const struct spoor_object *object, const struct stat *st, uint64_t epoch_offset)
{
	return epoch_offset && spoor_ns(st->st_ctim) + SLACK_NS > object->h.ts + epoch_offset;
}

static int is_same(const struct spoor_object *object, int fd, const struct stat *st, uint64_t epoch_offset)
{
	int hashed = object->hash_lo || object->hash_hi;

	if ((uint64_t)st->st_size != object->size)
		return 0;
	if (spoor_ns(st->st_mtim) != object->mtime || (hashed && object->size <= CHEAP_TO_HASH))
		return same_content(object, fd);
	if ((hashed || object->build_id_len) &&
	    (lies_elsewhere(object, st) || touched_since(object, st, epoch_offset))) /* a time stamp can be put back */
		return same_content(object, fd);
	return 1;
}

/* The vDSO's image as this process has it. */
static int vdso_fd(void)
{
	const char *base = (const char *)getauxval(AT_SYSINFO_EHDR);
	_cleanup_(spoor_fclosep) FILE *maps = fopen("/proc/self/maps", "re");
	_cleanup_(spoor_closep) int fd = memfd_create("vdso", MFD_CLOEXEC);
	unsigned long start, end;
	char line[512];

	if (!base || !maps || fd < 0)
		return -1;
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx", &start, &end) != 2 || start != (unsigned long)base)
			continue;
		return write(fd, base, end - start) == (ssize_t)(end - start) ? TAKE_FD(fd) : -1;
	}
	return -1;
}

static enum spoor_object_state open_vdso(const struct spoor_object *object, int *ret_fd)
{
	_cleanup_(spoor_closep) int fd = vdso_fd();
	struct spoor_object_identity id;

	if (fd < 0)
		return SPOOR_OBJECT_UNREADABLE;
	if (object->build_id_len && (spoor_object_identify(fd, &id, NULL) < 0 || !same_build_id(object, &id)))
		return SPOOR_OBJECT_CHANGED;
	*ret_fd = TAKE_FD(fd);
	return SPOOR_OBJECT_SAME;
}

/* fd: taken over. */
static enum spoor_object_state look(const struct spoor_object *object, int fd, uint64_t epoch_offset, int *ret_fd)
{
	_cleanup_(spoor_closep) int own = fd;
	struct stat st;

	if (fd == -EINVAL)
		return SPOOR_OBJECT_CHANGED;
	if (fd < 0 || fstat(fd, &st) < 0)
		return SPOOR_OBJECT_UNREADABLE;
	if (!is_same(object, fd, &st, epoch_offset))
		return SPOOR_OBJECT_CHANGED;
	*ret_fd = TAKE_FD(own);
	return SPOOR_OBJECT_SAME;
}

static int open_regular_in(int root, const char *path)
{
	_cleanup_(spoor_closep) int handle = spoor_open_in_root(root, path, O_PATH);
	char self[64];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", handle);
	return handle < 0 ? handle : spoor_open_regular(self);
}

enum spoor_object_state spoor_object_file_open(const struct spoor_object *object, const char *place,
					       const struct spoor_roots *roots, uint64_t epoch_offset, int *ret_fd)
{
	enum spoor_object_state state;

	if (is_vdso(object))
		return open_vdso(object, ret_fd);
	if (object->path[0] != '/')
		return SPOOR_OBJECT_UNREADABLE;
	state = look(object, spoor_open_regular(object->path), epoch_offset, ret_fd);
	if (state != SPOOR_OBJECT_SAME && place &&
	    look(object, spoor_open_regular(place), epoch_offset, ret_fd) == SPOOR_OBJECT_SAME)
		state = SPOOR_OBJECT_SAME;
	for (size_t i = 0; roots && i < roots->n && state != SPOOR_OBJECT_SAME; i++)
		if (look(object, open_regular_in(roots->all[i].fd, object->path), epoch_offset, ret_fd) ==
		    SPOOR_OBJECT_SAME)
			state = SPOOR_OBJECT_SAME;
	return state;
}

int spoor_object_packed_open(const struct spoor_object *object, struct spoor_packed *packed, int *ret_fd)
{
	struct spoor_packed_name name = { SPOOR_PACKED_OBJECT, { object->hash_lo, object->hash_hi }, 0 };
	_cleanup_(spoor_closep) int fd = -1;
	uint64_t hash[2];
	int r;

	if (!object->hash_lo && !object->hash_hi)
		return -ENOENT;
	r = spoor_packed_get(packed, &name, &fd, hash);
	if (r < 0)
		return r;
	if (memcmp(hash, name.hash, sizeof(hash)))
		return -EBADMSG;
	*ret_fd = TAKE_FD(fd);
	return 0;
}
