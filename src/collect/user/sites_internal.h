/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* An ELF file, read piece by piece, and what its sites say. Nothing in it is trusted. */
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
	uint64_t described; /* bytes of descriptions that have been read */
};
int spoor_site_file_open(const char *path, struct site_file *f, struct spoor_error *e);
void spoor_site_file_done(struct site_file *f);
/* The address of the struct spoor_agent_state in it, 0: it is not the library, nor has it within. */
uint64_t spoor_site_file_agent(struct site_file *f);
int spoor_site_file_each(struct site_file *f, bool sdt, spoor_site_fn each, void *ctx, struct spoor_error *e);
/* Bytes of what is loaded at a virtual address; at most `size`, fewer at a segment's end. 0: nothing is there. */
size_t spoor_site_file_read(const struct site_file *f, uint64_t address, void *to, size_t size);

/* As in include/spoor/site.h, whose structures are the programs'. */
struct entry {
	int32_t code, tracepoint, desc, file;
	uint32_t line, flags;
};
struct desc {
	uint32_t size;
	uint16_t text_size, n_fields;
	uint8_t kind, level;
	uint16_t reserved;
	uint32_t reserved2;
};
#define SPOOR_ENTRY_DEFINITION 2
#define SPOOR_SITE_ELSEWHERE 3 /* a kind of desc, beside enum spoor_site_kind */

/* All of a description. free() *ret. -EBADMSG (of all that were read, too, if it is too much), -ENOMEM. */
int spoor_site_desc_read(struct site_file *f, uint64_t address, struct desc *ret_head, uint8_t **ret);
/* Its fields, as a text. */
void spoor_site_desc_fields(const uint8_t *desc, const struct desc *head, char *to, size_t room);

/* The definitions of an object (struct spoor_definition), by their three names. */
struct site_definition {
	char *names;
	uint16_t size; /* of the names, padding included */
	uint8_t level;
	char *fields;
	size_t order; /* in which they came */
};
struct site_definitions {
	struct site_definition *list;
	size_t n, bytes; /* bytes: of their names and fields */
	bool sorted;
};
/* -EBADMSG: it makes no sense, or there are too many. */
int spoor_site_definition_add(struct site_file *f, uint64_t address, struct site_definitions *to);
/* Level and fields as a text, of the first one; if there is none, the third name, which is the arguments. */
void spoor_site_definition_find(struct site_definitions *all, const char *names, uint16_t size, uint8_t *ret_level,
				char *to, size_t room);
void spoor_site_definitions_done(struct site_definitions *all);
