/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files packed into a trace. The input: the manifest to its first NUL, then what stands in the trace for an object,
 * its debugging file, and a map of just-in-time code, in both forms in turn. What is given out must have the hash that
 * it is said to have, and packing into the same trace must leave one that gives back what was packed.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "object/identity.h"
#include "trace/packed.h"

#define HASH "0000000000000002000000000000000a"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char root[64];
static const struct spoor_packed_name names[] = {
	{ SPOOR_PACKED_OBJECT, { 10, 2 }, 0 },
	{ SPOOR_PACKED_DEBUG, { 10, 2 }, 0 },
	{ .kind = SPOOR_PACKED_JIT, .pid = 7 },
};
static const char *const files[] = { "manifest",
				     "objects/" HASH,
				     "objects/" HASH ".zst",
				     "objects/" HASH ".debug",
				     "objects/" HASH ".debug.zst",
				     "objects/perf-7.map",
				     "objects/perf-7.map.zst" };
#define N_FILES (sizeof(files) / sizeof(*files))

static void must(int ok)
{
	if (!ok)
		abort();
}

static void path_of(const char *name, char *buf, size_t size)
{
	snprintf(buf, size, "%s/%s", root, name);
}

static void drop_all(void)
{
	char path[128];

	for (size_t i = 0; i < N_FILES; i++) {
		path_of(files[i], path, sizeof(path));
		unlink(path);
	}
}

static void remove_all(void)
{
	char path[128];

	drop_all();
	path_of("objects", path, sizeof(path));
	rmdir(path);
	rmdir(root);
}

static void make_root(void)
{
	char path[128];

	if (!root[0]) {
		snprintf(root, sizeof(root), "%s/spoor-fuzz-packed-%d",
			 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
		must(mkdir(root, 0700) == 0);
		atexit(remove_all);
	}
	drop_all();
	path_of("objects", path, sizeof(path));
	mkdir(path, 0700);
}

static void put(const char *name, const void *data, size_t size)
{
	char path[128];
	int fd;

	path_of(name, path, sizeof(path));
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
}

static void check(const struct spoor_packed_name *name)
{
	struct spoor_object_identity id;
	struct spoor_packed *p;
	uint64_t hash[2];
	int fd;

	must(spoor_packed_open(root, &p) == 0);
	if (spoor_packed_get(p, name, &fd, hash) == 0) {
		must(spoor_object_identify(fd, &id, NULL) == 0 && !memcmp(id.hash, hash, sizeof(hash)));
		close(fd);
	}
	spoor_packed_close(p);
}

static void pack(const uint8_t *data, size_t size)
{
	uint64_t was, stored, hash[2];
	struct spoor_packed *p;
	struct spoor_error e;
	int fd;

	if (spoor_packed_begin(root, &p, &e) < 0)
		return;
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	must(spoor_packed_add(p, &names[2], fd, NULL, "/x", &was, &stored, &e) == 0 && was == size);
	close(fd);
	must(spoor_packed_save(p, &e) == 0);
	spoor_packed_close(p);
	must(spoor_packed_open(root, &p) == 0);
	must(spoor_packed_get(p, &names[2], &fd, hash) == 0);
	close(fd);
	spoor_packed_close(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n = strnlen((const char *)data, size);

	make_root();
	put("manifest", data, n);
	data += n + (n < size);
	size -= n + (n < size);
	for (size_t i = 1; i < N_FILES; i++) {
		put(files[i], data, size);
		check(&names[(i - 1) / 2]);
	}
	pack(data, size);
	return 0;
}
