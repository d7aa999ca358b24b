/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "trace/schema.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* A second struct for each event, made from the table alone; the compiler then compares it with record.h's. */
#define C_U8(m) __u8 m;
#define C_U16(m) __u16 m;
#define C_U32(m) __u32 m;
#define C_U64(m) __u64 m;
#define C_S32(m) __s32 m;
#define C_S64(m) __s64 m;
#define C_X64(m) __u64 m;
#define C_X64_6(m) __u64 m[6];
#define C_BYTES_4(m) __u8 m[4];
#define C_BYTES_16(m) __u8 m[16];
#define C_BYTES_32(m) __u8 m[32];
#define C_TEXT_16(m) char m[16];
#define C_STRING(m) char m[0];
#define C_BYTES_LEN(m) __u8 m[0];
#define C_FRAMES(m) __u64 m[0];

#define EVENT(ID, ev, doc) struct table_##ev { struct spoor_event_header h;
#define FIELD(ev, m, type, doc) C_##type(m)
#define END(ev) } __attribute__((packed));
#include "trace/schema.def"

#define SIZEOF_FIELD(s, m) sizeof(((struct s *)0)->m)
#define EVENT(ID, ev, doc) _Static_assert(sizeof(struct table_##ev) == sizeof(struct spoor_##ev), #ev);
#define FIELD(ev, m, type, doc) \
	_Static_assert(offsetof(struct table_##ev, m) == offsetof(struct spoor_##ev, m), #ev "." #m);
#define END(ev)
#include "trace/schema.def"

/* Sizes and signedness of the fixed fields; a variable part is size 0 in both. */
#define S_FIXED(ev, m) \
	_Static_assert(SIZEOF_FIELD(table_##ev, m) == SIZEOF_FIELD(spoor_##ev, m), #ev "." #m);
#define S_U8(ev, m) S_FIXED(ev, m)
#define S_U16(ev, m) S_FIXED(ev, m)
#define S_U32(ev, m) S_FIXED(ev, m)
#define S_U64(ev, m) S_FIXED(ev, m)
#define S_X64(ev, m) S_FIXED(ev, m)
#define S_S32(ev, m) S_FIXED(ev, m)
#define S_S64(ev, m) S_FIXED(ev, m)
#define S_X64_6(ev, m) S_FIXED(ev, m)
#define S_BYTES_4(ev, m) S_FIXED(ev, m)
#define S_BYTES_16(ev, m) S_FIXED(ev, m)
#define S_BYTES_32(ev, m) S_FIXED(ev, m)
#define S_TEXT_16(ev, m) S_FIXED(ev, m)
#define S_STRING(ev, m)
#define S_BYTES_LEN(ev, m)
#define S_FRAMES(ev, m)
#define EVENT(ID, ev, doc)
#define FIELD(ev, m, type, doc) S_##type(ev, m)
#define END(ev)
#include "trace/schema.def"

/* The same as data. */
#define EVENT(ID, ev, doc) static const struct spoor_schema_field fields_##ev[] = {
#define FIELD(ev, m, type, doc) { #m, doc, offsetof(struct spoor_##ev, m), SPOOR_FIELD_##type },
#define END(ev) };
#include "trace/schema.def"

#define EVENT(ID, ev, doc) \
	{ #ev, doc, SPOOR_EV_##ID, sizeof(struct spoor_##ev), sizeof(fields_##ev) / sizeof(fields_##ev[0]), \
	  fields_##ev },
#define FIELD(ev, m, type, doc)
#define END(ev)
static const struct spoor_schema_event events[] = {
#include "trace/schema.def"
};
_Static_assert(sizeof(events) / sizeof(events[0]) == SPOOR_EV_MAX - SPOOR_SYSCALL_MAX, "an event is missing");

const struct spoor_schema_event *spoor_schema_event(unsigned id)
{
	if (id < SPOOR_SYSCALL_MAX || id >= SPOOR_EV_MAX)
		return NULL;
	return &events[id - SPOOR_SYSCALL_MAX];
}

/* "U32" for SPOOR_FIELD_U32. */
static const char *type_name(unsigned type)
{
#define TYPE_NAME(t) [SPOOR_FIELD_##t] = #t,
	static const char *const names[] = { SPOOR_FIELD_TYPES(TYPE_NAME) };

	return type < SPOOR_FIELD_TYPE_MAX ? names[type] : "?";
}

int spoor_schema_document(char **ret)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return -ENOMEM;
	fprintf(f, "| event | id | offset | field | type | meaning |\n|---|---|---|---|---|---|\n");
	for (unsigned i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		const struct spoor_schema_event *ev = &events[i];

		fprintf(f, "| **%s** | %u | | | | %s |\n", ev->name, ev->id, ev->doc);
		for (unsigned j = 0; j < ev->n_fields; j++) {
			const struct spoor_schema_field *fl = &ev->fields[j];

			fprintf(f, "| | | %u | `%s` | %s | %s |\n", fl->offset, fl->name,
				type_name(fl->type), fl->doc);
		}
	}
	if (fclose(f)) {
		free(text);
		return -ENOMEM;
	}
	*ret = text;
	return 0;
}
