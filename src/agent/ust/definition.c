/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <string.h>

#include "agent/core/process.h"
#include "agent/ust/definition.h"
#include "agent/ust/rcu.h"

#define BUCKETS 256

struct definition {
	struct definition *next;
	const struct spoor_site *entry; /* in whose object it is */
	const char *text;               /* provider\0 name\0 arguments\0, the object's */
	uint32_t text_size;
	struct class *class;
	void (*record)(void);
};

static struct definition *buckets[BUCKETS], *unused;

static const void *at(const int32_t *offset)
{
	return *offset ? (const char *)offset + *offset : NULL;
}

static const struct spoor_definition *definition_of(const struct spoor_site *s)
{
	return at(&s->desc);
}

static const char *text_of(const struct spoor_desc *d)
{
	return (const char *)(d + 1);
}

/* Without what pads it: two NULs after the third string, or more. */
static uint32_t text_size(const struct spoor_desc *d)
{
	const char *text = text_of(d), *s = text, *end = text + d->text_size;
	unsigned i;

	for (i = 0; i < 3 && s < end; i++)
		s += strnlen(s, (size_t)(end - s)) + 1;
	return (uint32_t)(s - text);
}

/* What is said of an event in C, where bool is a macro for _Bool, is read as in C++. Returns -1 at the end. */
static int next_byte(const char **text, const char *end)
{
	if (end - *text >= 5 && !memcmp(*text, "_Bool", 5)) {
		*text += 2;
		return 'b';
	}
	return *text < end ? (uint8_t)*(*text)++ : -1;
}

static struct definition **bucket_of(const char *text, uint32_t size)
{
	const char *end = text + size;
	uint32_t h = 2166136261U;
	int byte;

	while ((byte = next_byte(&text, end)) >= 0)
		h = (h ^ (uint32_t)byte) * 16777619U;
	return &buckets[h % BUCKETS];
}

static bool is_of(const struct definition *d, const char *text, uint32_t size)
{
	const char *a = d->text, *a_end = a + d->text_size, *end = text + size;
	int byte;

	while ((byte = next_byte(&a, a_end)) == next_byte(&text, end))
		if (byte < 0)
			return true;
	return false;
}

/* ---- a description in one piece ---- */

struct writer {
	char *begin, *at, *end;
};

static void *put(struct writer *w, const void *from, size_t size)
{
	char *to = w->at;

	if (!to || size > (size_t)(w->end - to))
		return w->at = NULL;
	w->at += size;
	return memcpy(to, from, size);
}

static uint16_t put_labels(struct writer *w, const int32_t *table)
{
	int64_t next = 0;
	uint16_t n = 0;

	for (; *table; table++, n++) {
		const int64_t *label = at(table); /* low, high; then u16 size */
		int64_t *to = put(w, label, *(const uint16_t *)(label + 2));

		if (!to)
			return 0;
		if (to[0] > to[1])
			to[0] = to[1] = next;
		next = to[1] + 1;
	}
	return n;
}

static uint16_t put_fields(struct writer *w, const int32_t *table)
{
	uint16_t n = 0;

	for (; *table; table += 2, n++) {
		const struct spoor_desc_field *f = at(table);
		struct spoor_desc_field *to = put(w, f, f->size);

		if (!to)
			return 0;
		if (table[1])
			to->n_labels = put_labels(w, at(table + 1));
		if (!w->at)
			return 0;
		to->size = (uint32_t)(w->at - (char *)to);
	}
	return n;
}

static struct class *class_of_definition(const struct spoor_definition *d, const char *file, uint32_t line)
{
	static char *buffer;
	const struct spoor_desc *named = at(&d->desc);
	struct spoor_desc *whole;
	struct writer w;

	if (!buffer)
		buffer = agent_memory(CLASS_MAX_DEFINITION, false);
	w = (struct writer){ buffer, buffer, buffer + CLASS_MAX_DEFINITION };
	whole = buffer ? put(&w, named, sizeof(*named) + named->text_size) : NULL;
	if (!whole)
		return NULL;
	whole->kind = SPOOR_DESC_TRACEPOINT;
	whole->n_fields = put_fields(&w, at(&d->fields));
	whole->size = w.at ? (uint32_t)(w.at - w.begin) : UINT32_MAX; /* too large: it is there, and told of as lost */
	return class_of(whole, file, line);
}

/* ---- all of them ---- */

static bool is_definition(const struct spoor_site *s)
{
	return s->flags & SPOOR_SITE_DEFINITION;
}

static struct definition *make(void)
{
	struct definition *d = unused;

	if (!d)
		return keep(sizeof(*d));
	unused = d->next;
	return d;
}

static void add(const struct spoor_site *s, definition_fn *fn)
{
	const struct spoor_definition *says = definition_of(s);
	const struct spoor_desc *named = at(&says->desc);
	uint32_t size = text_size(named);
	struct definition **bucket = bucket_of(text_of(named), size), *d;
	struct spoor_tracepoint *tp = (struct spoor_tracepoint *)SPOOR_SITE_TARGET(s, tracepoint);

	for (d = *bucket; d; d = d->next)
		if (d->entry == s)
			return;
	if (!tp->agent)
		tp->agent = class_of_definition(says, (const char *)SPOOR_SITE_TARGET(s, file), s->line);
	d = tp->agent ? make() : NULL;
	if (!d)
		return;
	*d = (struct definition){ *bucket, s, text_of(named), size, tp->agent, (void (*)(void))at(&says->record) };
	*bucket = d;
	fn(tp, d->class);
	if (!d->class->record)
		__atomic_store_n(&d->class->record, d->record, __ATOMIC_RELEASE);
}

bool definitions_in(const struct spoor_site *begin, const struct spoor_site *end, definition_fn *fn)
{
	bool any = false;

	for (; begin < end; begin++) {
		if (!is_definition(begin))
			continue;
		rcu_use();
		add(begin, fn);
		any = true;
	}
	return any;
}

/* What another object, if any, has of the class. */
static void replace(struct class *c)
{
	void (*record)(void) = NULL;
	unsigned i;

	for (i = 0; i < BUCKETS; i++) {
		struct definition *d;

		for (d = buckets[i]; d; d = d->next)
			if (d->class == c)
				record = d->record;
	}
	__atomic_store_n(&c->record, record, __ATOMIC_RELEASE);
}

bool definitions_out(const struct spoor_site *begin, const struct spoor_site *end)
{
	bool any = false;
	unsigned i;

	for (i = 0; i < BUCKETS; i++) {
		struct definition **link = &buckets[i];

		while (*link) {
			struct definition *d = *link;

			if (d->entry < begin || d->entry >= end) {
				link = &d->next;
				continue;
			}
			*link = d->next;
			if (d->class->record == d->record)
				replace(d->class);
			d->next = unused;
			unused = d;
			any = true;
		}
	}
	return any;
}

struct class *definition_find(const struct spoor_desc *desc)
{
	uint32_t size = text_size(desc);
	struct definition *d;

	for (d = *bucket_of(text_of(desc), size); d; d = d->next)
		if (is_of(d, text_of(desc), size))
			return d->class;
	return NULL;
}

void definitions_each(definition_fn *fn)
{
	struct definition *d;
	unsigned i;

	for (i = 0; i < BUCKETS; i++)
		for (d = buckets[i]; d; d = d->next)
			fn((struct spoor_tracepoint *)SPOOR_SITE_TARGET(d->entry, tracepoint), d->class);
}

void (*definition_elsewhere(struct spoor_tracepoint *tp))(void)
{
	const struct class *c;

	rcu_read_begin();
	c = __atomic_load_n((struct class **)&tp->agent, __ATOMIC_ACQUIRE);
	return __atomic_load_n(&c->record, __ATOMIC_ACQUIRE);
}
