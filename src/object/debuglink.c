/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object/debuglink.h"

#include <errno.h>
#include <limits.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "object/identity.h"
#include "object/regular_file.h"

#define MAX_COMPARED 256 /* sections; of many thousands each would be looked for among as many */
#define MAX_DEBUG_FILE ((off_t)16 << 30) /* a sparse one of a terabyte costs its owner nothing, but us minutes */

static int has_build_id(int fd, const uint8_t *id, int len)
{
	struct spoor_image image = { .fd = fd };
	uint8_t own[SPOOR_BUILD_ID_MAX];
	struct stat st;

	if (fstat(fd, &st) < 0)
		return 0;
	image.size = (uint64_t)st.st_size;
	return spoor_object_build_id(&image, own) == len && !memcmp(own, id, (size_t)len);
}

static int open_by_build_id(const char *debug_root, const uint8_t *id, int len)
{
	char path[PATH_MAX];
	int at, fd;

	if (len < 2)
		return -ENOENT;
	at = snprintf(path, sizeof(path), "%s/.build-id/%02x/", debug_root, id[0]);
	if (at < 0 || (size_t)at + (size_t)len * 2 + sizeof(".debug") > sizeof(path))
		return -ENOENT;
	for (int i = 1; i < len; i++)
		at += sprintf(path + at, "%02x", id[i]);
	strcpy(path + at, ".debug");
	fd = spoor_open_regular(path);
	if (fd >= 0 && !has_build_id(fd, id, len)) {
		close(fd);
		return -ENOENT;
	}
	return fd;
}

static const char *name_of(const struct spoor_elf *elf, const Elf64_Shdr *section)
{
	return section->sh_name < elf->names_size ? elf->names + section->sh_name : "";
}

/*
 * Code and data of the program, which a debug file has as they are in the object, without bytes. What tools move
 * afterwards (patchelf: the interpreter's path, tables of symbols and strings) is not.
 */
static bool is_of_program(const struct spoor_elf *elf, const Elf64_Shdr *section)
{
	return section->sh_flags & SHF_ALLOC && strcmp(name_of(elf, section), ".interp") &&
	       (section->sh_type == SHT_PROGBITS || section->sh_type == SHT_NOBITS);
}

/* Does a section of this name, if there is any, lie where this one does? */
static bool has_alike(const struct spoor_elf *debug, const char *name, const Elf64_Shdr *section)
{
	bool named = false;

	for (unsigned i = 1; i < debug->n_sections; i++) {
		const Elf64_Shdr *other = &debug->sections[i];

		if (!(other->sh_flags & SHF_ALLOC) || strcmp(name_of(debug, other), name))
			continue;
		if (other->sh_addr == section->sh_addr && other->sh_size == section->sh_size)
			return true;
		named = true;
	}
	return !named;
}

/* A build-id may be given by hand, and then to two files: the debug file's names would be those of other code. */
static bool is_of_other_code(int fd, const struct spoor_elf *elf)
{
	struct spoor_image image = { .fd = fd };
	struct spoor_elf debug;
	bool other = false;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	image.size = (uint64_t)st.st_size;
	if (spoor_elf_open(&image, &debug, NULL) < 0)
		return false;
	for (unsigned i = 1; i < elf->n_sections && i < MAX_COMPARED && !other; i++)
		other = is_of_program(elf, &elf->sections[i]) &&
			!has_alike(&debug, name_of(elf, &elf->sections[i]), &elf->sections[i]);
	spoor_elf_close(&debug);
	return other;
}

/* CRC-32 of IEEE 802.3, which is what .gnu_debuglink uses and liblzma has. */
static int has_crc(int fd, uint32_t want)
{
	_cleanup_(spoor_freep) uint8_t *buf = malloc(1 << 18);
	uint32_t crc = 0;
	struct stat st;
	off_t at = 0;

	if (!buf || fstat(fd, &st) < 0 || st.st_size > MAX_DEBUG_FILE)
		return 0;
	while (at <= st.st_size) {
		ssize_t n = pread(fd, buf, 1 << 18, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return 0;
		if (n == 0)
			return crc == want;
		crc = lzma_crc32(buf, (size_t)n, crc);
		at += n;
	}
	return 0;
}

/* The folder that holds the object, from the open file itself. */
static int folder_of(int fd, char *ret_dir)
{
	char link[64];
	ssize_t n;
	char *slash;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, ret_dir, PATH_MAX - 1);
	if (n <= 0)
		return -ENOENT;
	ret_dir[n] = 0;
	slash = strrchr(ret_dir, '/');
	if (ret_dir[0] != '/' || !slash)
		return -ENOENT;
	*slash = 0;
	return 0;
}

__attribute__((format(printf, 1, 2))) static int open_formatted(const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	return n < 0 || (size_t)n >= sizeof(path) ? -ENOENT : spoor_open_regular(path);
}

static int open_by_name(const struct spoor_elf *elf, const char *debug_root, const char *name, uint32_t crc)
{
	char dir[PATH_MAX];

	if (elf->image.fd < 0 || folder_of(elf->image.fd, dir) < 0)
		return -ENOENT;
	for (int i = 0; i < 3; i++) {
		int fd = i == 0 ? open_formatted("%s/%s", dir, name) :
			 i == 1 ? open_formatted("%s/.debug/%s", dir, name) :
				  open_formatted("%s%s/%s", debug_root, dir, name);

		if (fd >= 0 && has_crc(fd, crc))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -ENOENT;
}

int spoor_debuglink_open(const struct spoor_elf *elf, const char *debug_root, bool *ret_other)
{
	const Elf64_Shdr *section = spoor_elf_section(elf, ".gnu_debuglink");
	_cleanup_(spoor_freep) char *link = NULL;
	uint8_t id[SPOOR_BUILD_ID_MAX];
	size_t size, name;
	uint32_t crc;
	int r;

	r = spoor_object_build_id(&elf->image, id);
	if (r > 0) {
		int fd = open_by_build_id(debug_root, id, r);

		if (fd >= 0 && !is_of_other_code(fd, elf))
			return fd;
		if (fd >= 0 && ret_other)
			*ret_other = true;
		spoor_closep(&fd);
	}
	if (!section || spoor_elf_read(elf, section, (void **)&link, &size) < 0)
		return -ENOENT;
	name = strlen(link);
	if (name == 0 || strchr(link, '/') || ((name + 4) & ~(size_t)3) + 4 > size)
		return -ENOENT;
	memcpy(&crc, link + ((name + 4) & ~(size_t)3), 4);
	return open_by_name(elf, debug_root, link, crc);
}

int spoor_debugaltlink_open(const struct spoor_elf *elf, const char *debug_root)
{
	const Elf64_Shdr *section = spoor_elf_section(elf, ".gnu_debugaltlink");
	_cleanup_(spoor_freep) char *link = NULL;
	char dir[PATH_MAX];
	const uint8_t *id;
	size_t size, name;
	int fd, len;

	if (!section || spoor_elf_read(elf, section, (void **)&link, &size) < 0)
		return -ENOENT;
	name = strlen(link);
	if (name == 0 || name + 1 >= size || size - name - 1 > SPOOR_BUILD_ID_MAX)
		return -ENOENT;
	id = (const uint8_t *)link + name + 1;
	len = (int)(size - name - 1);
	fd = open_by_build_id(debug_root, id, len);
	if (fd >= 0)
		return fd;
	if (link[0] == '/')
		fd = spoor_open_regular(link);
	else if (elf->image.fd >= 0 && folder_of(elf->image.fd, dir) == 0)
		fd = open_formatted("%s/%s", dir, link);
	if (fd >= 0 && !has_build_id(fd, id, len)) {
		close(fd);
		return -ENOENT;
	}
	return fd;
}
