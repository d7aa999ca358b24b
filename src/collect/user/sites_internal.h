/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* An ELF file, read piece by piece. */
#include <elf.h>
#include <stddef.h>

#include "collect/user/sites.h"

struct site_file {
	const char *path;
	int fd;
	uint64_t size;
	Elf64_Phdr *segments;
	unsigned n_segments;
	uint64_t sections_at;
	unsigned n_sections, names;
};
int spoor_site_file_open(const char *path, struct site_file *f, struct spoor_error *e);
void spoor_site_file_done(struct site_file *f);
/* The address of the struct spoor_agent_state in it, 0: it is not the library, nor has it within. */
uint64_t spoor_site_file_agent(struct site_file *f);
int spoor_site_file_each(struct site_file *f, bool sdt, spoor_site_fn each, void *ctx, struct spoor_error *e);
