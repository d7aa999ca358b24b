/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What people type behind --filter, and the events that it is applied to: an expression, NUL, an event's body. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/arena.h"
#include "agent/ust/filter.h"
#include "agent/ust/filter_core.h"

#define MOST_TEXT 4096
#define MOST_BODY 8192

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* s64 n, an enumeration e, string s, characters t, float f, sequence q, array a */
static char fields[1024];
static size_t n_fields;

static char *put(char *at, struct spoor_def_field f, const char *name, const char *label)
{
	size_t n = (strlen(name) + 8) & ~(size_t)7, l = 0;

	if (label)
		l = (sizeof(struct spoor_def_label) + strlen(label) + 8) & ~(size_t)7;
	f.size = sizeof(f) + n + l;
	f.n_labels = label != NULL;
	memcpy(at, &f, sizeof(f));
	strcpy(at + sizeof(f), name);
	if (label) {
		struct spoor_def_label *to = (void *)(at + sizeof(f) + n);

		*to = (struct spoor_def_label){ .low = -1, .high = 3, .size = (uint16_t)l };
		strcpy(to->name, label);
	}
	return at + f.size;
}

static void describe(void)
{
	char *at = fields;

	at = put(at, (struct spoor_def_field){ .type = SPOOR_DEF_INT, .bytes = 8, .flags = SPOOR_DEF_SIGNED }, "n",
		 NULL);
	at = put(at, (struct spoor_def_field){ .type = SPOOR_DEF_ENUM, .bytes = 1 }, "e", "red");
	at = put(at, (struct spoor_def_field){ .type = SPOOR_DEF_STRING, .bytes = 1 }, "s", NULL);
	at = put(at,
		 (struct spoor_def_field){
			 .type = SPOOR_DEF_INT, .shape = SPOOR_DEF_SEQUENCE, .bytes = 1, .flags = SPOOR_DEF_TEXT },
		 "t", NULL);
	at = put(at, (struct spoor_def_field){ .type = SPOOR_DEF_FLOAT, .bytes = 4 }, "f", NULL);
	at = put(at, (struct spoor_def_field){ .type = SPOOR_DEF_INT, .shape = SPOOR_DEF_SEQUENCE, .bytes = 4 }, "q",
		 NULL);
	at = put(at,
		 (struct spoor_def_field){ .type = SPOOR_DEF_INT, .shape = SPOOR_DEF_ARRAY, .bytes = 2, .count = 3 },
		 "a", NULL);
	n_fields = at - fields;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = memchr(data, 0, size);
	size_t n = nul ? (size_t)(nul - data) : size, rest = nul ? size - n - 1 : 0;
	struct class c = { .fields = fields };
	static struct filter f;
	char text[MOST_TEXT], *body;
	const char *at, *wrong;
	unsigned begin = 0;

	if (!n_fields)
		describe();
	if (n >= sizeof(text) || rest > MOST_BODY)
		return 0;
	memcpy(text, data, n);
	text[n] = '\0';
	wrong = filter_parse(text, &f, &at);
	if (at < text || at > text + n)
		abort();
	if (wrong)
		return 0;
	body = malloc(rest ? rest : 1); /* so that not a byte beyond it is read */
	if (!body)
		abort();
	if (rest)
		memcpy(body, nul + 1, rest);
	c.fields_size = (uint32_t)n_fields;
	filter_keeps(&f, &c, body, body + rest, 0);
	filter_field_missing(&f, &c, &begin);
	free(body);
	return 0;
}
