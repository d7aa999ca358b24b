/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

#include "agent/ust/note.h"

static const char *pointed(const int32_t *at)
{
	return (const char *)at + *at;
}

static bool is_note(const uint32_t *w, uint32_t type)
{
	return w[0] == 6 && w[1] == 16 && w[2] == type && !memcmp(w + 3, "Spoor", 6);
}

int note_read(const void *note, struct spoor_site **ret_begin, struct spoor_site **ret_end)
{
	const int32_t *desc = (const int32_t *)note + 5;
	struct spoor_site *begin, *end;

	if (!is_note(note, SPOOR_NOTE_SITES) || desc[0] != SPOOR_SITE_VERSION)
		return -EINVAL;
	begin = (struct spoor_site *)pointed(desc + 1);
	end = (struct spoor_site *)pointed(desc + 2);
	if (begin > end)
		return -EINVAL;
	*ret_begin = begin;
	*ret_end = end;
	return 0;
}

struct spoor_agent_state *note_agent(const void *note)
{
	const int32_t *desc = (const int32_t *)note + 5;
	struct spoor_agent_state *s;

	if (!is_note(note, SPOOR_NOTE_AGENT) || desc[0] != SPOOR_AGENT_NOTE_VERSION)
		return NULL;
	s = (struct spoor_agent_state *)pointed(desc + 1);
	return s->version == SPOOR_AGENT_STATE_VERSION ? s : NULL;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *data)
{
	void (*fn)(const void *note) = *(void (**)(const void *))data;
	int i;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		const char *at = (const char *)info->dlpi_addr + ph->p_vaddr, *end = at + ph->p_memsz;

		if (ph->p_type != PT_NOTE)
			continue;
		while (at + sizeof(ElfW(Nhdr)) <= end) {
			const ElfW(Nhdr) *n = (const void *)at;
			size_t align = ph->p_align == 8 ? 8 : 4;
			size_t name = (n->n_namesz + align - 1) & ~(align - 1),
			       desc = (n->n_descsz + align - 1) & ~(align - 1);

			if (n->n_namesz == 6 && (size_t)(end - at) >= sizeof(*n) + 24 && !memcmp(n + 1, "Spoor", 6))
				fn(at);
			if (name + desc > (size_t)(end - at))
				break;
			at += sizeof(*n) + name + desc;
		}
	}
	return 0;
}

void notes_each(void (*fn)(const void *note))
{
	dl_iterate_phdr(look_at, (void *)&fn);
}
