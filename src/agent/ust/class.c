/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <string.h>

#include "agent/core/process.h"
#include "agent/ust/class.h"
#include "agent/ust/context.h"
#include "agent/ust/marker.h"

_Static_assert(sizeof(struct spoor_desc_field) == sizeof(struct spoor_def_field), "");
_Static_assert(offsetof(struct spoor_desc_field, n_labels) == offsetof(struct spoor_def_field, n_labels), "");

#define BUCKETS 1024
#define CHUNK 65536

static struct class *first, **last = &first;
static struct class *buckets[BUCKETS];
static uint32_t n_classes;

void *keep(size_t size)
{
	static char *chunk;
	static size_t left;
	void *p;

	size = (size + 15) & ~(size_t)15;
	if (size > CHUNK / 4)
		return agent_memory(size, false);
	if (size > left) {
		const bool many = chunk;

		chunk = agent_memory(CHUNK, false);
		left = chunk ? CHUNK : 0;
		if (!chunk)
			return NULL;
		if (many)
			arena_populate(chunk, CHUNK); /* at once, which is cheaper than page by page */
	}
	p = chunk;
	chunk += size;
	left -= size;
	return p;
}

static char *keep_bytes(const void *from, size_t size)
{
	char *p = keep(size ?: 1);

	return p ? memcpy(p, from, size) : NULL;
}

/* By words; both halves of a product together, so that each bit changes any other (as in wyhash). */
static uint64_t hash(uint64_t h, const void *data, size_t size)
{
	const char *at = data;

	while (size) {
		size_t n = size < 8 ? size : 8;
		unsigned __int128 product;
		uint64_t word = 0;

		memcpy(&word, at, n);
		product = (unsigned __int128)(h ^ word) * 0x9e3779b97f4a7c15ULL;
		h = (uint64_t)product ^ (uint64_t)(product >> 64);
		at += n;
		size -= n;
	}
	return h;
}

/* What a description says, taken apart and checked as far as goes without trusting it. */
struct parts {
	const char *provider, *name, *format;
	size_t provider_size, name_size, format_size; /* with their NULs */
	const void *fields;
	uint32_t fields_size;
	uint64_t signature;
	bool large; /* fields is nothing then */
};

static const char *next_string(const char **at, const char *end, size_t *ret_size)
{
	const char *s = *at, *nul = s < end ? memchr(s, 0, (size_t)(end - s)) : NULL;

	if (!nul)
		return NULL;
	*at = nul + 1;
	*ret_size = (size_t)(*at - s);
	return s;
}

/* Of a marker it is all there is, and may be more than text_size can say. */
static uint32_t text_size(const struct spoor_desc *d)
{
	return d->kind == SPOOR_DESC_TRACEPOINT ? d->text_size : d->size - (uint32_t)sizeof(*d);
}

static int take_apart(const struct spoor_desc *d, struct parts *ret)
{
	const char *at = (const char *)(d + 1), *end;
	struct parts p = { .format = "", .format_size = 1, .large = d->size > CLASS_MAX_DEFINITION };

	if (d->size < sizeof(*d) + d->text_size)
		return -EINVAL;
	end = at + text_size(d);
	p.provider = next_string(&at, end, &p.provider_size);
	p.name = next_string(&at, end, &p.name_size);
	if (d->kind != SPOOR_DESC_TRACEPOINT)
		p.format = next_string(&at, end, &p.format_size);
	if (!p.provider || !p.name || !p.format)
		return -EINVAL;
	p.fields = end;
	p.fields_size = p.large ? 0 : d->size - (uint32_t)sizeof(*d) - text_size(d);
	p.signature = hash(0xcbf29ce484222325ULL, p.format, p.format_size - 1);
	p.signature = hash(p.signature, p.fields, p.fields_size);
	p.signature += p.large; /* not the one without fields */
	*ret = p;
	return 0;
}

static struct class *find(const struct parts *p, unsigned bucket)
{
	struct class *c;

	for (c = buckets[bucket]; c; c = c->next_in_bucket)
		if (c->signature == p->signature && !strcmp(c->name, p->name) && !strcmp(c->provider, p->provider))
			return c;
	return NULL;
}

static const char *join(const struct parts *p)
{
	char *s = keep(p->provider_size + p->name_size);

	if (!s)
		return NULL;
	memcpy(s, p->provider, p->provider_size - 1);
	s[p->provider_size - 1] = ':';
	memcpy(s + p->provider_size, p->name, p->name_size);
	return s;
}

/* As a rule it is the one before, which is `*last`. NULL: no memory. */
static const char *keep_again(const char **last, const char *s)
{
	const char *kept = *last && !strcmp(*last, s) ? *last : keep_bytes(s, strlen(s) + 1);

	if (kept)
		*last = kept;
	return kept;
}

static int fill(struct class *c, const struct spoor_desc *d, const struct parts *p)
{
	static const char *provider;

	c->full = join(p);
	c->provider = keep_again(&provider, p->provider);
	c->format = *p->format ? keep_bytes(p->format, p->format_size) : "";
	if (!c->full || !c->provider || !c->format)
		return -ENOMEM;
	c->name = c->full + p->provider_size;
	c->kind = d->kind;
	c->level = d->level;
	c->signature = p->signature;
	c->large = p->large;
	if (d->kind != SPOOR_DESC_TRACEPOINT)
		return marker_fields(c);
	c->fields = keep_bytes(p->fields, p->fields_size);
	if (!c->fields)
		return -ENOMEM;
	c->fields_size = p->fields_size;
	c->n_fields = p->large ? 0 : d->n_fields;
	return 0;
}

struct class *class_of(const struct spoor_desc *desc, const char *file, uint32_t line)
{
	static const char *last_file;
	struct parts p;
	struct class *c;
	unsigned bucket;

	if (take_apart(desc, &p))
		return NULL;
	bucket = (unsigned)hash(p.signature, p.name, p.name_size - 1) % BUCKETS;
	c = find(&p, bucket);
	if (c)
		return c;
	c = keep(sizeof(*c));
	if (!c || fill(c, desc, &p))
		return NULL;
	c->file = keep_again(&last_file, file) ?: "";
	c->line = line;
	if (n_classes + 1 < SPOOR_ARENA_MAX_CLASSES)
		c->id = (uint16_t)++n_classes;
	c->next_in_bucket = buckets[bucket];
	buckets[bucket] = c;
	*last = c;
	last = &c->next;
	return c;
}

struct class *classes(void)
{
	return first;
}

/* Few classes ever have one: the others need no room for it. */
int class_set_filter(struct class *c, unsigned slot, const struct filter *f)
{
	const struct filter **filters = c->filters;

	if (!filters && f) {
		filters = keep(SPOOR_SLOTS * sizeof(*filters));
		if (!filters)
			return -ENOMEM;
		__atomic_store_n(&c->filters, filters, __ATOMIC_RELEASE);
	}
	if (filters)
		__atomic_store_n(&filters[slot], f, __ATOMIC_RELAXED);
	return 0;
}

static char *put_text(char *at, const char *end, const char *s)
{
	size_t n = strlen(s) + 1;

	if (!at || n > (size_t)(end - at))
		return NULL;
	memcpy(at, s, n);
	return at + n;
}

/* Everything but the head; the end of it, NULL if it does not fit. */
static char *put_class(const struct class *c, uint32_t contexts, struct spoor_def_class *d, const char *end)
{
	char *text = (char *)(d + 1), *at = text, *fields;
	unsigned n;

	at = put_text(at, end, c->provider);
	at = put_text(at, end, c->name);
	at = put_text(at, end, c->file);
	at = put_text(at, end, "");
	at = put_text(at, end, c->format);
	if (!at || (at - text) + 8 > UINT16_MAX)
		return NULL;
	while ((at - text) % 8)
		*at++ = 0;
	d->text_size = (uint16_t)(at - text);
	fields = at;
	at = context_fields(contexts, at, end, &n);
	if (!at || c->fields_size > (size_t)(end - at))
		return NULL;
	memcpy(at, c->fields, c->fields_size);
	d->n_fields = (uint16_t)(c->n_fields + n);
	d->signature = hash(c->signature, fields, (size_t)(at - fields));
	return at + c->fields_size;
}

/* Does another channel of that arena call it so already? Contexts differ by channel, and with them the fields. */
static bool is_taken(const struct output *o, uint16_t id)
{
	uint32_t i;

	for (i = 0; i < o->wish.n_channels; i++)
		if (slot_knows(&slots[o->first_slot + i], id))
			return true;
	return false;
}

/* 0: there are no more numbers. */
static uint16_t choose_id(struct class *c, const struct output *o)
{
	unsigned i;

	if (!is_taken(o, c->id))
		return c->id;
	for (i = 0; i < SPOOR_ARENA_MAX_CHANNELS - 1; i++) {
		if (!c->more_ids[i] && n_classes + 1 < SPOOR_ARENA_MAX_CLASSES)
			c->more_ids[i] = (uint16_t)++n_classes;
		if (!is_taken(o, c->more_ids[i]))
			break;
	}
	return i < SPOOR_ARENA_MAX_CHANNELS - 1 ? c->more_ids[i] : 0;
}

int class_define(struct class *c, unsigned slot)
{
	static struct spoor_def_class *d;
	struct slot *s = &slots[slot];
	uint16_t id;
	char *end;
	int r;

	if (c->large)
		return -E2BIG;
	if (c->ids[slot] && slot_knows(s, c->ids[slot]))
		return 0;
	id = choose_id(c, s->output);
	if (!id)
		return -ENOSPC;
	if (!d)
		d = agent_memory(CLASS_MAX_DEFINITION, false);
	if (!d)
		return -ENOMEM;
	memset(d, 0, sizeof(*d));
	end = put_class(c, s->channel->contexts, d, (char *)d + CLASS_MAX_DEFINITION);
	if (!end)
		return -E2BIG;
	d->def.size = (uint32_t)(end - (char *)d);
	d->def.type = SPOOR_DEF_CLASS;
	d->def.id = id;
	d->kind = c->kind;
	d->level = c->level;
	d->channel = (uint8_t)(s->channel - s->arena->channels);
	d->line = c->line;
	r = arena_define(&s->output->made, &d->def);
	if (r)
		return r;
	c->ids[slot] = id;
	__atomic_fetch_or(&s->known[id / 8], (uint8_t)(1 << id % 8), __ATOMIC_RELAXED);
	return 0;
}

/* A class's own, without what a channel adds. */
static uint64_t size_of(const struct class *c)
{
	return sizeof(struct spoor_def_class) + strlen(c->full) + strlen(c->file) + strlen(c->format) + 16 +
	       c->fields_size;
}

uint64_t classes_room(const struct arena_wish *wish)
{
	uint64_t all = 0, n = 0, room = 0;
	const struct class *c;
	uint32_t i;

	for (c = first; c; c = c->next, n++)
		all += size_of(c);
	for (i = 0; i < wish->n_channels; i++)
		room += all + n * context_fields_size(wish->channels[i].contexts);
	return room;
}
