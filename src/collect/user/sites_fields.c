/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the sites of an ELF file say of their fields. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/arena.h"
#include "base/cleanup.h"
#include "collect/user/sites_internal.h"

#define MOST_DESC (1 << 20)
#define MOST_DESCRIBED (4ULL << 30) /* in all: many sites may have one, which is read for each */
#define MOST_FIELD 1024
#define MOST_FIELDS 1024
#define MOST_DEFINITIONS 100000
#define MOST_KEPT (256u << 20) /* of them, in memory */

struct text {
	char *to;
	size_t room, len;
};

int spoor_site_desc_read(struct site_file *f, uint64_t address, struct desc *ret_head, uint8_t **ret)
{
	_cleanup_(spoor_freep) uint8_t *desc = NULL;
	struct desc d;

	if (spoor_site_file_read(f, address, &d, sizeof(d)) != sizeof(d) || d.size < sizeof(d) ||
	    d.size > MOST_DESC || d.text_size > d.size - sizeof(d))
		return -EBADMSG;
	f->described += d.size;
	if (f->described > MOST_DESCRIBED)
		return -EBADMSG;
	desc = malloc(d.size);
	if (!desc)
		return -ENOMEM;
	if (spoor_site_file_read(f, address, desc, d.size) != d.size)
		return -EBADMSG;
	*ret_head = d;
	*ret = desc;
	desc = NULL;
	return 0;
}

/* One that begins with what it says, within `left` bytes. */
static bool is_field(const struct spoor_def_field *f, size_t left)
{
	return f->size > sizeof(*f) && f->size % 8 == 0 && f->size <= left && memchr(f + 1, 0, f->size - sizeof(*f));
}

static const char *base_type(const struct spoor_def_field *d, char *buf, size_t size)
{
	static const char *const letters[] = { [SPOOR_DEF_INT] = "u", [SPOOR_DEF_ENUM] = "enum" };

	switch (d->type) {
	case SPOOR_DEF_STRING:
		return "string";
	case SPOOR_DEF_POINTER:
		return "pointer";
	case SPOOR_DEF_FLOAT:
		return d->bytes == 8 ? "double" : "float";
	case SPOOR_DEF_INT:
	case SPOOR_DEF_ENUM:
		if (d->flags & SPOOR_DEF_TEXT)
			return "char";
		snprintf(buf, size, "%s%u%s",
			 d->type == SPOOR_DEF_INT && d->flags & SPOOR_DEF_SIGNED ? "s" : letters[d->type], d->bytes * 8,
			 d->base == 16 ? " hex" :
			 d->base == 8  ? " octal" :
					 "");
		return buf;
	}
	return "?";
}

static void put_field(struct text *t, const struct spoor_def_field *f)
{
	char type[32], shape[16] = "";

	if (f->shape == SPOOR_DEF_ARRAY)
		snprintf(shape, sizeof(shape), "[%u]", f->count);
	else if (f->shape == SPOOR_DEF_SEQUENCE)
		strcpy(shape, "[]");
	if (t->len < t->room)
		t->len += snprintf(t->to + t->len, t->room - t->len, "%s%s%s %s", t->len ? ", " : "",
				   base_type(f, type, sizeof(type)), shape, (const char *)(f + 1));
}

void spoor_site_desc_fields(const uint8_t *desc, const struct desc *d, char *to, size_t room)
{
	struct text t = { to, room, 0 };
	size_t at = sizeof(*d) + d->text_size, size = d->size;

	to[0] = '\0';
	for (unsigned i = 0; i < d->n_fields && size - at >= sizeof(struct spoor_def_field); i++) {
		const struct spoor_def_field *f = (const void *)(desc + at);

		if (!is_field(f, size - at))
			break;
		put_field(&t, f);
		at += f->size;
	}
}

/* ---- definitions: fields in a table of pairs of offsets ---- */

static int table_fields(const struct site_file *f, uint64_t table, struct text *t)
{
	uint64_t space[MOST_FIELD / 8];

	for (unsigned i = 0; i < MOST_FIELDS; i++, table += 8) {
		struct spoor_def_field *field = (void *)space;
		int32_t pair[2];

		if (spoor_site_file_read(f, table, pair, sizeof(pair)) != sizeof(pair))
			return -EBADMSG;
		if (!pair[0])
			return 0;
		if (!is_field(field, spoor_site_file_read(f, table + pair[0], space, sizeof(space))))
			return -EBADMSG;
		put_field(t, field);
	}
	return -EBADMSG;
}

int spoor_site_definition_add(struct site_file *f, uint64_t address, struct site_definitions *to)
{
	_cleanup_(spoor_freep) uint8_t *desc = NULL;
	char fields[4096] = "";
	struct text t = { fields, sizeof(fields), 0 };
	struct site_definition *list;
	int32_t offsets[2];
	struct desc d;
	int r;

	if (to->n == MOST_DEFINITIONS || spoor_site_file_read(f, address, offsets, sizeof(offsets)) != sizeof(offsets))
		return -EBADMSG;
	r = spoor_site_desc_read(f, address + offsets[0], &d, &desc);
	r = r ? r : table_fields(f, address + 4 + offsets[1], &t);
	if (r)
		return r;
	to->bytes += d.text_size + t.len;
	if (to->bytes > MOST_KEPT)
		return -EBADMSG;
	list = reallocarray(to->list, to->n + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	to->list = list;
	to->sorted = false;
	list[to->n] = (struct site_definition){
		.size = d.text_size, .level = d.level, .fields = strdup(fields), .order = to->n
	};
	list[to->n].names = malloc(d.text_size + 1u);
	if (list[to->n].names)
		memcpy(list[to->n].names, desc + sizeof(d), d.text_size);
	to->n++;
	return list[to->n - 1].names && list[to->n - 1].fields ? 0 : -ENOMEM;
}

static int compare(const struct site_definition *d, const char *names, uint16_t size)
{
	return d->size != size ? (d->size < size ? -1 : 1) : memcmp(d->names, names, size);
}

static int by_names(const void *a, const void *b)
{
	const struct site_definition *x = a, *y = b;
	int r = compare(x, y->names, y->size);

	return r ? r : x->order < y->order ? -1 : x->order > y->order;
}

/* A file may have as many of them as sites: to look at each for each site would take hours. NULL: there is none. */
static const struct site_definition *find(struct site_definitions *all, const char *names, uint16_t size)
{
	size_t lo = 0, hi = all->n;

	if (!all->sorted && all->n)
		qsort(all->list, all->n, sizeof(*all->list), by_names);
	all->sorted = true;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (compare(&all->list[mid], names, size) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < all->n && !compare(&all->list[lo], names, size) ? &all->list[lo] : NULL;
}

void spoor_site_definition_find(struct site_definitions *all, const char *names, uint16_t size, uint8_t *ret_level,
				char *to, size_t room)
{
	const struct site_definition *d = find(all, names, size);
	const char *args = names;

	if (d) {
		*ret_level = d->level;
		snprintf(to, room, "%s", d->fields);
		return;
	}
	*ret_level = UINT8_MAX; /* its provider's */
	for (unsigned i = 0; i < 2 && args < names + size; i++)
		args += strnlen(args, names + size - args) + 1;
	snprintf(to, room, "%.*s", args < names + size ? (int)(names + size - args) : 0, args);
}

void spoor_site_definitions_done(struct site_definitions *all)
{
	for (size_t i = 0; i < all->n; i++) {
		free(all->list[i].names);
		free(all->list[i].fields);
	}
	free(all->list);
}
