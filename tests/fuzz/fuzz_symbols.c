/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Hostile objects: symbol tables, PLT, .gnu_debugdata, .gopclntab, notes and links, DWARF through libdw. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "object/demangle.h"
#include "object/image.h"
#include "object/symbols.h"

#define MAX_INPUT (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void resolve_all(struct spoor_symbols *s, const struct spoor_elf *elf)
{
	struct spoor_source_line lines[8];
	volatile char sink;

	for (unsigned i = 0; i < elf->n_sections && i < 64; i++)
		for (uint64_t at = 0; at < elf->sections[i].sh_size && at < 4096; at += 61) {
			int n = spoor_symbols_resolve(s, elf->sections[i].sh_addr + at, lines, 8);

			for (int k = 0; k < n; k++) {
				for (const char *c = lines[k].function ?: ""; *c; c++)
					sink = *c;
				for (const char *c = lines[k].file ?: ""; *c; c++)
					sink = *c;
			}
		}
	(void)sink;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spoor_image image = { .fd = -1, .mem = data, .size = size };
	struct spoor_symbols *s;
	struct spoor_elf elf;
	int fd;

	if (size > MAX_INPUT || spoor_elf_open(&image, &elf, NULL) < 0)
		return 0;
	fd = memfd_create("object", MFD_CLOEXEC);
	if (fd >= 0 && write(fd, data, size) == (ssize_t)size &&
	    spoor_symbols_open(fd, "/nonexistent", &s, NULL) == 0) {
		resolve_all(s, &elf);
		spoor_symbols_free(s);
	}
	if (fd >= 0)
		close(fd);
	spoor_elf_close(&elf);
	return 0;
}
