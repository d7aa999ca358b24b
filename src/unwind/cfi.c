/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The records of .eh_frame and .debug_frame: CIEs and FDEs. */
#include "unwind/cfi.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "unwind/cfi_run.h"

#define RA_COLUMN 16

struct reader {
	const struct spoor_elf_view *elf;
	const struct cfi_section *section;
	struct rowset *rows;
	struct cfi_cie *cies;
	uint32_t n_cies, room_cies;
	uint32_t *hash; /* index + 1 into cies by offset, open addressing */
	uint32_t hash_size;
	uint32_t last;
};

/* A record without its length: what follows its id, and the offsets it may refer to others by. */
struct record {
	struct cursor body;
	uint64_t id_at, id;
	bool wide; /* 64-bit DWARF */
};

static struct cfi_bases bases_of(const struct reader *r, uint64_t function)
{
	const struct cfi_section *s = r->section;

	return (struct cfi_bases){ r->elf, s->bytes.data, s->bytes.vaddr, s->data_base, function };
}

static int read_value(struct cursor *c, uint8_t format, uint64_t *ret)
{
	switch (format) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		*ret = cursor_u64(c);
		return 0;
	case DW_EH_PE_uleb128:
		*ret = cursor_uleb(c);
		return 0;
	case DW_EH_PE_sleb128:
		*ret = cursor_sleb(c);
		return 0;
	case DW_EH_PE_udata2:
		*ret = cursor_u16(c);
		return 0;
	case DW_EH_PE_sdata2:
		*ret = (int64_t)(int16_t)cursor_u16(c);
		return 0;
	case DW_EH_PE_udata4:
		*ret = cursor_u32(c);
		return 0;
	case DW_EH_PE_sdata4:
		*ret = (int64_t)(int32_t)cursor_u32(c);
		return 0;
	default:
		return -EBADMSG;
	}
}

static int follow(const struct cfi_bases *bases, uint64_t *value)
{
	struct spoor_view_range at;

	if (spoor_view_mapped(bases->elf, *value, &at) < 0 || at.size < sizeof(*value))
		return -EBADMSG;
	memcpy(value, at.data, sizeof(*value));
	return 0;
}

int spoor_cfi_pointer(struct cursor *c, uint8_t encoding, const struct cfi_bases *bases, uint64_t *ret)
{
	uint64_t here = bases->vaddr + (c->at - bases->bytes), value, base = 0;

	switch (encoding & 0x70) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_textrel: /* x86-64 has no text base: zero */
		break;
	case DW_EH_PE_pcrel:
		base = here;
		break;
	case DW_EH_PE_datarel:
		base = bases->data;
		break;
	case DW_EH_PE_funcrel:
		base = bases->function;
		break;
	case DW_EH_PE_aligned:
		cursor_skip(c, -here & 7);
		break;
	default:
		return -EBADMSG;
	}
	if (read_value(c, encoding & 0x0f, &value) < 0 || c->bad)
		return -EBADMSG;
	value += base;
	if ((encoding & DW_EH_PE_indirect) && follow(bases, &value) < 0)
		return -EBADMSG;
	*ret = value;
	return 0;
}

/* Returns 1, 0 at the end, or -EBADMSG: nothing after this can be found. */
static int next_record(const struct reader *r, struct cursor *c, struct record *ret)
{
	const struct cfi_section *s = r->section;
	uint64_t length;

	do {
		if (cursor_left(c) < 4)
			return 0;
		length = cursor_u32(c);
		if (!length && s->ends_with_zero)
			return 0;
	} while (!length);
	ret->wide = length == UINT32_MAX;
	if (ret->wide)
		length = cursor_u64(c);
	ret->id_at = c->at - s->bytes.data;
	ret->body = cursor_sub(c, length);
	/* .eh_frame has a 32-bit id in either format. */
	ret->id = ret->wide && !s->eh_frame ? cursor_u64(&ret->body) : cursor_u32(&ret->body);
	return c->bad || ret->body.bad ? -EBADMSG : 1;
}

static bool is_cie(const struct reader *r, const struct record *record)
{
	if (r->section->eh_frame)
		return !record->id;
	return record->id == (record->wide ? UINT64_MAX : UINT32_MAX);
}

static int read_augmentation(struct cfi_cie *cie, const char *letters, struct cursor *c, const struct cfi_bases *bases)
{
	struct cursor data;
	uint64_t unused;

	if (*letters == 'z') {
		cie->has_augmentation = true;
		data = cursor_sub(c, cursor_uleb(c));
		letters++;
	} else {
		data = *c;
	}
	for (; *letters; letters++) {
		switch (*letters) {
		case 'R':
			cie->fde_encoding = cursor_u8(&data);
			break;
		case 'L':
			cie->lsda_encoding = cursor_u8(&data);
			break;
		case 'P':
			/* The personality routine is of no use to a walk, nor need it be mapped. */
			if (spoor_cfi_pointer(&data, cursor_u8(&data) & ~DW_EH_PE_indirect, bases, &unused) < 0)
				return -EBADMSG;
			break;
		case 'S':
			cie->signal_frame = true;
			break;
		case 'B': /* AArch64's pointer authentication key: without meaning here */
			break;
		default:
			/* What an unknown letter stands for is skipped by the size, if there is one. */
			if (!cie->has_augmentation)
				return -EBADMSG;
			return data.bad ? -EBADMSG : 0;
		}
	}
	if (!cie->has_augmentation)
		*c = data;
	return data.bad ? -EBADMSG : 0;
}

static int read_cie(const struct reader *r, struct record *record, struct cfi_cie *cie)
{
	struct cfi_bases bases = bases_of(r, 0);
	struct cursor *c = &record->body;
	const char *letters;
	uint8_t version;
	uint64_t column;

	version = cursor_u8(c);
	if (version != 1 && version != 3 && version != 4)
		return -EBADMSG;
	letters = (const char *)c->at;
	if (!memchr(letters, 0, cursor_left(c)))
		return -EBADMSG;
	cursor_skip(c, strlen(letters) + 1);
	if (version == 4 && cursor_u16(c) != 8)
		return -EBADMSG; /* address size 8, segment selector size 0 */
	if (letters[0] == 'e' && letters[1] == 'h') {
		cursor_u64(c); /* gcc 2's exception table */
		letters += 2;
	}
	cie->code_align = cursor_uleb(c);
	cie->data_align = cursor_sleb(c);
	column = version == 1 ? cursor_u8(c) : cursor_uleb(c);
	if (c->bad || column != RA_COLUMN || read_augmentation(cie, letters, c, &bases) < 0)
		return -EBADMSG;
	cie->initial = (struct cfi_state){ .cfa_reg = UINT64_MAX };
	return spoor_cfi_run_cie(cie, c, &bases, &r->rows->work);
}

static uint32_t slot(const struct reader *r, uint64_t offset)
{
	return (offset * 0x9e3779b97f4a7c15 >> 32) % r->hash_size;
}

static int grow_cies(struct reader *r)
{
	uint32_t i, at, room = r->room_cies ? 2 * r->room_cies : 16, size = 2 * room;
	uint32_t *hash = calloc(size, sizeof(*hash));
	struct cfi_cie *cies;

	cies = hash ? realloc(r->cies, room * sizeof(*cies)) : NULL;
	if (!cies) {
		free(hash);
		return -ENOMEM;
	}
	free(r->hash);
	r->hash = hash;
	r->hash_size = size;
	for (i = 0; i < r->n_cies; i++) {
		for (at = slot(r, cies[i].offset); hash[at]; at = (at + 1) % size)
			;
		hash[at] = i + 1;
	}
	r->cies = cies;
	r->room_cies = room;
	return 0;
}

/* Reads the CIE at this offset, each once; a damaged one is there, but not usable. 0 or as read_fde(). */
static int get_cie(struct reader *r, uint64_t offset, const struct cfi_cie **ret)
{
	const struct spoor_view_range *bytes = &r->section->bytes;
	struct cfi_cie cie = { .offset = offset, .fde_encoding = DW_EH_PE_absptr };
	struct cursor c;
	struct record record;
	uint32_t at;
	int err;

	if (r->last < r->n_cies && r->cies[r->last].offset == offset) {
		*ret = &r->cies[r->last];
		return 0;
	}
	for (at = r->n_cies ? slot(r, offset) : 0; r->n_cies && r->hash[at]; at = (at + 1) % r->hash_size) {
		r->last = r->hash[at] - 1;
		*ret = &r->cies[r->last];
		if ((*ret)->offset == offset)
			return 0;
		if (!r->rows->work)
			return -EBADMSG;
		r->rows->work--;
	}
	if (r->n_cies == r->room_cies) {
		err = grow_cies(r);
		if (err < 0)
			return err;
	}
	if (offset < bytes->size) {
		c = (struct cursor){ bytes->data + offset, bytes->data + bytes->size, false };
		cie.usable = next_record(r, &c, &record) > 0 && is_cie(r, &record) &&
			     read_cie(r, &record, &cie) == 0;
	}
	for (at = slot(r, offset); r->hash[at]; at = (at + 1) % r->hash_size)
		;
	r->last = r->n_cies++;
	r->cies[r->last] = cie;
	r->hash[at] = r->n_cies;
	*ret = &r->cies[r->last];
	return 0;
}

/* An FDE that cannot be read is left out. 0, -ENOMEM, or -EBADMSG: too much work. */
static int read_fde(struct reader *r, struct record *record)
{
	struct cfi_bases bases = bases_of(r, 0);
	struct cursor *c = &record->body;
	const struct cfi_cie *cie;
	uint64_t start, size;
	int err;

	err = get_cie(r, r->section->eh_frame ? record->id_at - record->id : record->id, &cie);
	if (err < 0)
		return err;
	r->rows->n_fdes++;
	if (!cie->usable || spoor_cfi_pointer(c, cie->fde_encoding, &bases, &start) < 0 ||
	    read_value(c, cie->fde_encoding & 0x0f, &size) < 0 || c->bad) {
		r->rows->n_unsupported++;
		return 0;
	}
	if (cie->has_augmentation)
		cursor_skip(c, cursor_uleb(c));
	if (c->bad || size > UINT64_MAX - start)
		return 0;
	err = spoor_rowset_open(r->rows, start, start + size);
	if (err < 0)
		return err == -ERANGE ? 0 : err;
	bases.function = start;
	return spoor_cfi_run_fde(cie, start, c, &bases, r->rows);
}

static void free_reader(struct reader *r)
{
	free(r->cies);
	free(r->hash);
}

int spoor_cfi_read(const struct spoor_elf_view *elf, const struct cfi_section *section, struct rowset *rows)
{
	_cleanup_(free_reader) struct reader r = { .elf = elf, .section = section, .rows = rows };
	struct cursor c = { section->bytes.data, section->bytes.data + section->bytes.size, false };
	struct record record;
	int err, more;

	while ((more = next_record(&r, &c, &record)) > 0) {
		if (!rows->work)
			return -EBADMSG;
		rows->work--;
		if (is_cie(&r, &record))
			continue;
		err = read_fde(&r, &record);
		if (err < 0)
			return err;
	}
	return more < 0 && !rows->n_fdes ? -EBADMSG : 0;
}
