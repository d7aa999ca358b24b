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

/* Whether an object has notes of that name (size: with its NUL); fn, if there is one, is called for each. */
static bool notes_in(const struct dl_phdr_info *info, const char *name, uint32_t size, void (*fn)(const void *note))
{
	bool any = false;
	int i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		const char *at = (const char *)info->dlpi_addr + ph->p_vaddr, *end = at + ph->p_memsz;
		size_t align = ph->p_align == 8 ? 8 : 4;

		while (ph->p_type == PT_NOTE && at + sizeof(ElfW(Nhdr)) <= end) {
			const ElfW(Nhdr) *n = (const void *)at;
			size_t to_desc = sizeof(*n) + ((n->n_namesz + align - 1) & ~(align - 1));

			if (to_desc + n->n_descsz > (size_t)(end - at))
				break;
			if (n->n_namesz == size && !memcmp(n + 1, name, size)) {
				any = true;
				if (fn)
					fn(at);
			}
			at += to_desc + ((n->n_descsz + align - 1) & ~(align - 1));
		}
	}
	return any;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	notes_in(info, "Spoor", 6, *(void (**)(const void *))data);
	return 0;
}

void notes_each(void (*fn)(const void *note))
{
	dl_iterate_phdr(look_at, (void *)&fn);
}

/* The program itself comes first. */
static int look_for_go(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(bool *)data = notes_in(info, "Go\0", 4, NULL);
	return 1;
}

bool note_program_is_go(void)
{
	bool is = false;

	dl_iterate_phdr(look_for_go, &is);
	return is;
}
