/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What people type behind --filter. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "collect/user/condition.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct spoor_class_value names[] = { { "red", 1, 2 } };
static const struct spoor_class_field fields[] = {
	{ .name = "n", .type = SPOOR_VALUE_UNSIGNED, .size = 8, .n_values = 1, .values = names },
	{ .name = "s", .type = SPOOR_VALUE_STRING },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct spoor_event_class asked = { .id = SPOOR_EV_USER,
							.kind = SPOOR_CLASS_TRACEPOINT,
							.name = "a:b",
							.file = "",
							.n_fields = 2,
							.fields = fields };
	struct {
		struct spoor_event_header h;
		char body[16];
	} event = { .h = { .size8 = 4 }, .body = "\1\0\0\0\0\0\0\0text" };
	_cleanup_(spoor_freep) struct spoor_event_class *class = NULL;
	_cleanup_(spoor_freep) struct spoor_class *def = NULL;
	_cleanup_(spoor_freep) char *text = malloc(size + 1);
	struct spoor_condition *c;
	struct spoor_error e = { "" };

	if (!text || spoor_class_encode(&asked, &def) || spoor_class_decode(def, &class))
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	if (spoor_condition_parse(text, &c, &e)) {
		if (!*e.text)
			abort();
		return 0;
	}
	spoor_condition_holds(c, class, &event.h);
	spoor_condition_free(c);
	return 0;
}
