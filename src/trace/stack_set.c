/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "trace/stack_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

struct spoor_stack_key spoor_stack_key(const struct spoor_stack *s, uint64_t seed)
{
	size_t from = offsetof(struct spoor_stack, status); /* way, n and the frames follow on it */
	XXH128_hash_t h =
		XXH3_128bits_withSeed((const uint8_t *)s + from, sizeof(*s) + s->n * sizeof(s->frames[0]) - from, seed);

	return (struct spoor_stack_key){ { h.low64, h.high64 } };
}

int spoor_stack_seed(uint64_t *ret)
{
	return getrandom(ret, sizeof(*ret), 0) == sizeof(*ret) ? 0 : -EIO;
}

/* Where the key is, or would be. */
static struct spoor_stack_set_slot *slot_of(const struct spoor_stack_set *s, const struct spoor_stack_key *key)
{
	size_t i = key->hash[0] & (s->size - 1);

	while (s->slots[i].id && memcmp(&s->slots[i].key, key, sizeof(*key)))
		i = (i + 1) & (s->size - 1);
	return &s->slots[i];
}

static int grow(struct spoor_stack_set *s)
{
	struct spoor_stack_set bigger = { .size = s->size ? s->size * 2 : 256, .n = s->n };

	bigger.slots = calloc(bigger.size, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < s->size; i++)
		if (s->slots[i].id)
			*slot_of(&bigger, &s->slots[i].key) = s->slots[i];
	free(s->slots);
	*s = bigger;
	return 0;
}

uint32_t spoor_stack_set_get(const struct spoor_stack_set *s, const struct spoor_stack_key *key)
{
	return s->size ? slot_of(s, key)->id : 0;
}

int spoor_stack_set_put(struct spoor_stack_set *s, const struct spoor_stack_key *key, uint32_t id)
{
	if (s->n * 2 >= s->size && grow(s) < 0)
		return -ENOMEM;
	*slot_of(s, key) = (struct spoor_stack_set_slot){ *key, id };
	s->n++;
	return 0;
}

void spoor_stack_set_done(struct spoor_stack_set *s)
{
	free(s->slots);
	*s = (struct spoor_stack_set){};
}
