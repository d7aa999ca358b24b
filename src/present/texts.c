/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "present/texts.h"

#include <stdlib.h>

#define MAX_BYTES (64u << 20)
#define SLOTS (1u << 16) /* at most half are used */

struct spoor_texts {
	size_t n, bytes;
	struct slot {
		uint32_t a, b;
		char *text;
	} slots[SLOTS];
};

struct spoor_texts *spoor_texts_new(void)
{
	return calloc(1, sizeof(struct spoor_texts));
}

void spoor_texts_free(struct spoor_texts *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < SLOTS; i++)
		free(t->slots[i].text);
	free(t);
}

static size_t find(const struct spoor_texts *t, uint32_t a, uint32_t b)
{
	size_t i = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15ULL >> 48;

	while (t->slots[i].text && (t->slots[i].a != a || t->slots[i].b != b))
		i = (i + 1) % SLOTS;
	return i;
}

const char *spoor_texts_get(const struct spoor_texts *t, uint32_t a, uint32_t b)
{
	return t ? t->slots[find(t, a, b)].text : NULL;
}

void spoor_texts_put(struct spoor_texts *t, uint32_t a, uint32_t b, char *text, size_t size)
{
	struct slot *slot = t && text ? &t->slots[find(t, a, b)] : NULL;

	if (!slot || slot->text || t->n >= SLOTS / 2 || size > MAX_BYTES - t->bytes) {
		free(text);
		return;
	}
	*slot = (struct slot){ a, b, text };
	t->n++;
	t->bytes += size;
}
