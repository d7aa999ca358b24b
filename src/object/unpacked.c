/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object/unpacked.h"

/* What it becomes where it is compressed, else 0. */
static uint64_t unpacked_size(Elf_Scn *section, const GElf_Shdr *header, const char *name)
{
	uint64_t size = 0;
	GElf_Chdr packed;
	Elf_Data *data;

	if (header->sh_flags & SHF_COMPRESSED)
		return gelf_getchdr(section, &packed) ? packed.ch_size : 0;
	data = strncmp(name, ".zdebug", 7) ? NULL : elf_rawdata(section, NULL);
	return data && data->d_buf && spoor_zdebug_head(data->d_buf, data->d_size, &size) ? size : 0;
}

static bool take(uint64_t size, uint64_t *room)
{
	if (size > *room)
		return false;
	*room -= size;
	return true;
}

/* What is read is counted before its head is, which would read all of it. */
static bool fits(Elf_Scn *section, const char *name, bool mapped, uint64_t *room)
{
	GElf_Shdr header;

	if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS)
		return true;
	return (mapped || take(header.sh_size, room)) && take(unpacked_size(section, &header, name), room);
}

static const char *name_of(Elf *elf, size_t names, Elf_Scn *section)
{
	GElf_Shdr header;
	const char *name = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;

	return name ?: "";
}

/* That its bytes are a hole, or named by many sections, or pack well, is all one: together they cost by its disk. */
bool spoor_debug_is_bounded(Elf *elf, const struct stat *st, bool mapped)
{
	uint64_t room = spoor_most_memory(st);
	Elf_Scn *section;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) < 0)
		return true;
	section = elf_getscn(elf, names);
	if (section && !fits(section, "", mapped, &room))
		return false;
	for (section = NULL; (section = elf_nextscn(elf, section));) {
		const char *name = name_of(elf, names, section);

		if (strstr(name, "debug") && !fits(section, name, mapped, &room))
			return false;
	}
	return true;
}
