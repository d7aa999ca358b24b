/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object/identity.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "object/image.h"

#define CHUNK_SIZE (256u << 10)
#define MAX_OBJECT ((uint64_t)4 << 30) /* a sparse file of a terabyte costs its owner nothing, but us minutes */
#define MAX_SEGMENTS 128  /* real programs have about 12 */
#define MAX_SECTIONS 1024 /* looked at only when no segment holds the build-id */
#define MAX_NOTES 8192    /* bytes of one note segment that are looked into */

static bool read_at(const struct spoor_image *image, uint64_t offset, void *buf, size_t size)
{
	return spoor_image_read(image, offset, buf, size) == 0;
}

static size_t align_up(size_t n, size_t align)
{
	return (n + align - 1) & ~(align - 1);
}

/* Source of the layout: gABI chapter 5, "Note Section"; NT_GNU_BUILD_ID with owner "GNU". */
static bool find_build_id(const uint8_t *notes, size_t size, size_t align, struct spoor_object_identity *id)
{
	Elf64_Nhdr n;
	size_t at = 0, name, desc;

	while (size - at >= sizeof(n)) {
		memcpy(&n, notes + at, sizeof(n));
		name = at + sizeof(n);
		if (n.n_namesz > size || n.n_descsz > size)
			return false;
		desc = align_up(name + n.n_namesz, align);
		if (desc > size || n.n_descsz > size - desc)
			return false;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && !memcmp(notes + name, "GNU", 4) && n.n_descsz &&
		    n.n_descsz <= SPOOR_BUILD_ID_MAX) {
			memcpy(id->build_id, notes + desc, n.n_descsz);
			id->build_id_len = n.n_descsz;
			return true;
		}
		at = align_up(desc + n.n_descsz, align);
		if (at > size)
			return false;
	}
	return false;
}

static bool read_notes(const struct spoor_image *image, uint64_t offset, uint64_t size, uint64_t align,
		       struct spoor_object_identity *id)
{
	uint8_t notes[MAX_NOTES];

	if (size > sizeof(notes))
		size = sizeof(notes);
	return read_at(image, offset, notes, size) && find_build_id(notes, size, align == 8 ? 8 : 4, id);
}

static void add_load(const Elf64_Phdr *p, struct spoor_object_identity *id)
{
	if (!(p->p_flags & PF_X) || !p->p_filesz || id->n_loads == SPOOR_MAX_LOADS)
		return;
	id->loads[id->n_loads++] = (struct spoor_load){ p->p_offset, p->p_filesz, p->p_vaddr };
}

static void look_at_segments(const struct spoor_image *image, const Elf64_Ehdr *h, struct spoor_object_identity *id)
{
	Elf64_Phdr p;
	int i;

	if (h->e_phentsize != sizeof(p))
		return;
	for (i = 0; i < h->e_phnum && i < MAX_SEGMENTS; i++) {
		if (h->e_phoff > image->size || !read_at(image, h->e_phoff + i * sizeof(p), &p, sizeof(p)))
			return;
		if (p.p_type == PT_LOAD)
			add_load(&p, id);
		else if (p.p_type == PT_NOTE && !id->build_id_len)
			read_notes(image, p.p_offset, p.p_filesz, p.p_align, id);
	}
}

static void look_at_sections(const struct spoor_image *image, const Elf64_Ehdr *h, struct spoor_object_identity *id)
{
	Elf64_Shdr n;
	int i;

	if (h->e_shentsize != sizeof(n))
		return;
	for (i = 0; i < h->e_shnum && i < MAX_SECTIONS; i++) {
		if (h->e_shoff > image->size || !read_at(image, h->e_shoff + i * sizeof(n), &n, sizeof(n)))
			return;
		if (n.sh_type == SHT_NOTE && read_notes(image, n.sh_offset, n.sh_size, n.sh_addralign, id))
			return;
	}
}

static void look_into(const struct spoor_image *image, struct spoor_object_identity *id)
{
	Elf64_Ehdr h;

	if (!read_at(image, 0, &h, sizeof(h)) || memcmp(h.e_ident, ELFMAG, SELFMAG))
		return;
	if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_machine != EM_X86_64)
		return;
	id->is_elf = 1;
	look_at_segments(image, &h, id);
	if (!id->build_id_len)
		look_at_sections(image, &h, id);
}

static void set_hash(struct spoor_object_identity *id, XXH128_hash_t hash)
{
	id->hash[0] = hash.low64;
	id->hash[1] = hash.high64;
}

static void free_state(XXH3_state_t **state)
{
	XXH3_freeState(*state);
}

static int too_big(struct spoor_error *e)
{
	return spoor_fail(e, EFBIG, "an object is larger than 4 GiB");
}

/* Hashes to the end of the file as it is now, whatever fstat said. */
static int hash_file(int fd, struct spoor_object_identity *id, struct spoor_error *e)
{
	_cleanup_(free_state) XXH3_state_t *state = XXH3_createState();
	_cleanup_(spoor_freep) void *chunk = malloc(CHUNK_SIZE);
	uint64_t offset = 0;
	ssize_t n;

	if (!state || !chunk)
		return spoor_fail(e, ENOMEM, "cannot hash an object: out of memory");
	XXH3_128bits_reset(state);
	for (;;) {
		n = pread(fd, chunk, CHUNK_SIZE, offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return spoor_fail(e, errno, "cannot read an object: %s", strerror(errno));
		if (!n)
			break;
		XXH3_128bits_update(state, chunk, n);
		offset += n;
		if (offset > MAX_OBJECT)
			return too_big(e);
	}
	set_hash(id, XXH3_128bits_digest(state));
	id->size = offset;
	return 0;
}

int spoor_object_identify(int fd, struct spoor_object_identity *ret, struct spoor_error *e)
{
	struct spoor_object_identity id = { 0 };
	struct spoor_image image = { .fd = fd };
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return spoor_fail(e, errno, "cannot stat an object: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return spoor_fail(e, EINVAL, "an object is not a regular file");
	if (st.st_size > (off_t)MAX_OBJECT)
		return too_big(e);
	r = hash_file(fd, &id, e);
	if (r < 0)
		return r;
	image.size = id.size;
	look_into(&image, &id);
	*ret = id;
	return 0;
}

int spoor_object_identify_mem(const void *image, size_t size, struct spoor_object_identity *ret)
{
	struct spoor_object_identity id = { .size = size };
	struct spoor_image all = { .fd = -1, .mem = image, .size = size };

	set_hash(&id, XXH3_128bits(image, size));
	if (image)
		look_into(&all, &id);
	*ret = id;
	return 0;
}

int spoor_object_build_id(const struct spoor_image *image, uint8_t ret_id[static SPOOR_BUILD_ID_MAX])
{
	struct spoor_object_identity id = { 0 };

	look_into(image, &id);
	memcpy(ret_id, id.build_id, sizeof(id.build_id));
	return id.build_id_len ? id.build_id_len : -ENOENT;
}

int spoor_object_vaddr(const struct spoor_object_identity *id, uint64_t file_offset, uint64_t *ret_vaddr)
{
	const struct spoor_load *l;

	for (l = id->loads; l < id->loads + id->n_loads; l++) {
		if (file_offset < l->offset || file_offset - l->offset >= l->filesz)
			continue;
		*ret_vaddr = l->vaddr + (file_offset - l->offset);
		return 0;
	}
	return -ENOENT;
}
