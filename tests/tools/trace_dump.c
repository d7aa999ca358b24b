/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One line an event, every field, in an order and form that tests/e2e/t001_trace_babeltrace.py makes of babeltrace2's
 * reading too. With -q: only count; with -r: repair first, and count. Damages go to stderr, after the events.
 * --schema: the table for docs/formats/trace.md.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/reader.h"
#include "trace/schema.h"
#include "trace/syscalls.h"

static void put_text(const char *s, size_t len)
{
	putchar('"');
	for (size_t i = 0; i < len && s[i]; i++)
		printf(s[i] > ' ' && s[i] < 127 && s[i] != '"' && s[i] != '\\' ? "%c" : "\\x%02x", (unsigned char)s[i]);
	putchar('"');
}

static void put_bytes(const uint8_t *b, size_t len)
{
	for (size_t i = 0; i < len; i++)
		printf("%02x", b[i]);
	printf("/%zu", len);
}

static void put_frames(const struct spoor_stack *st)
{
	for (unsigned i = 0; i < st->n; i++)
		printf("%s%u+%" PRIx64 "%s", i ? "," : "", SPOOR_FRAME_OBJECT(st->frames[i]),
		       (uint64_t)SPOOR_FRAME_OFFSET(st->frames[i]), st->frames[i] >> 63 ? "!" : "");
}

static uint64_t number(const uint8_t *p, int width)
{
	uint64_t v = 0;

	memcpy(&v, p, width);
	return v;
}

static void put_field(const struct spoor_event_header *h, const struct spoor_schema_field *f)
{
	const uint8_t *p = (const uint8_t *)h + f->offset;
	uint64_t six[6];

	printf(" %s=", f->name);
	switch (f->type) {
	case SPOOR_FIELD_U8:
		printf("%" PRIu64, number(p, 1));
		break;
	case SPOOR_FIELD_U16:
		printf("%" PRIu64, number(p, 2));
		break;
	case SPOOR_FIELD_U32:
		printf("%" PRIu64, number(p, 4));
		break;
	case SPOOR_FIELD_U64:
	case SPOOR_FIELD_X64:
		printf("%" PRIu64, number(p, 8));
		break;
	case SPOOR_FIELD_S32:
		printf("%d", (int32_t)number(p, 4));
		break;
	case SPOOR_FIELD_S64:
		printf("%" PRId64, (int64_t)number(p, 8));
		break;
	case SPOOR_FIELD_X64_6:
		memcpy(six, p, sizeof(six));
		for (int i = 0; i < 6; i++)
			printf("%s%" PRIu64, i ? "," : "", six[i]);
		break;
	case SPOOR_FIELD_BYTES_4:
		put_bytes(p, 4);
		break;
	case SPOOR_FIELD_BYTES_16:
		put_bytes(p, 16);
		break;
	case SPOOR_FIELD_BYTES_32:
		put_bytes(p, 32);
		break;
	case SPOOR_FIELD_TEXT_16:
		put_text((const char *)p, 16);
		break;
	case SPOOR_FIELD_STRING:
		put_text((const char *)p, SIZE_MAX);
		break;
	case SPOOR_FIELD_BYTES_LEN:
		put_bytes(p, h->id == SPOOR_EV_CLASS ? ((const struct spoor_class *)h)->len :
						       ((const struct spoor_pending *)h)->len);
		break;
	case SPOOR_FIELD_FRAMES:
		put_frames((const struct spoor_stack *)h);
		break;
	}
}

static void put_lengths(const struct spoor_call *c, const char *group, unsigned from, unsigned to)
{
	for (unsigned i = 0; i < c->n_args; i++) {
		if (c->info->args[i].kind < from || c->info->args[i].kind > to)
			continue;
		printf(" %s.%s=", group, c->info->args[i].name);
		put_bytes(c->args[i].bytes, c->args[i].len);
	}
}

static void put_groups(const struct spoor_call *c)
{
	const struct spoor_syscall_info *info = c->info;

	for (unsigned i = 0; i < c->n_args; i++)
		if (info->args[i].kind == SPOOR_ARG_FD || info->args[i].kind == SPOOR_ARG_DIRFD)
			printf(" files.%s=%u", info->args[i].name, c->args[i].file);
	if (info->flags & SPOOR_SYSCALL_RET_FD)
		printf(" ret_file=%u", c->ret_file);
	for (unsigned i = 0; i < c->n_args; i++) {
		if (info->args[i].kind != SPOOR_ARG_PATH)
			continue;
		printf(" paths.%s=", info->args[i].name);
		put_text(c->args[i].path, SIZE_MAX);
	}
	put_lengths(c, "addresses", SPOOR_ARG_SOCKADDR_IN, SPOOR_ARG_SOCKADDR_OUT);
	put_lengths(c, "data", SPOOR_ARG_BUF_IN, SPOOR_ARG_BUF_OUT);
}

/* Numbers of arguments are compared as the 8 or 4 bytes that they are, for one side shows some of them with a sign. */
static void put_call(const struct spoor_event *ev)
{
	const struct spoor_syscall_info *info = spoor_syscall_info(ev->h->id);
	struct spoor_call c;

	printf(" %s%s", ev->h->id >= SPOOR_SYSCALL_I386 ? "i386_" : "", info->name ? info->name : "?");
	if (spoor_call_decode(ev, &c) < 0) {
		printf(" broken");
		return;
	}
	printf(" pid=%u stack=%u dur=%" PRIu64 " ret=%" PRId64, c.pid, c.stack, c.dur, c.ret);
	for (unsigned i = 0; i < c.n_args; i++)
		printf(" args.%s=%" PRIu64, info->args[i].name,
		       info->args[i].width == 4 ? (uint64_t)(uint32_t)c.args[i].value : c.args[i].value);
	put_groups(&c);
}

static void put_element(const struct spoor_value *v, unsigned i)
{
	double d;
	uint64_t bits;

	if (v->field->type == SPOOR_VALUE_SIGNED) {
		printf("%" PRId64, (int64_t)spoor_value_integer(v, i));
	} else if (v->field->type == SPOOR_VALUE_FLOAT) {
		d = spoor_value_double(v, i);
		memcpy(&bits, &d, sizeof(bits));
		printf("#%" PRIx64, bits);
	} else {
		printf("%" PRIu64, spoor_value_integer(v, i));
	}
}

static void put_value(const struct spoor_value *v)
{
	const char *label = spoor_value_label(v);

	printf(" %s%s=", v->field->flags & SPOOR_VALUE_CONTEXT ? "context." : "", v->field->name);
	if (v->field->type == SPOOR_VALUE_STRING || (v->field->type == SPOOR_VALUE_TEXT && v->field->shape)) {
		put_text((const char *)v->bytes, v->n);
		return;
	}
	for (unsigned i = 0; i < v->n; i++) {
		fputs(i ? "," : "", stdout);
		put_element(v, i);
	}
	if (label)
		putchar(':'), put_text(label, SIZE_MAX);
}

static void put_user(const struct spoor_event *ev)
{
	struct spoor_value values[SPOOR_MAX_CLASS_FIELDS];

	putchar(' ');
	put_text(ev->class->name, SIZE_MAX);
	spoor_class_values(ev->class, ev->h, values);
	for (unsigned i = 0; i < ev->class->n_fields; i++)
		put_value(&values[i]);
}

static void put_event(const struct spoor_trace *t, const struct spoor_event *ev)
{
	const struct spoor_schema_event *own = spoor_schema_event(ev->h->id);

	printf("%" PRIu64 " cpu=%d flags=%u size4=%u tid=%u", (uint64_t)ev->h->ts + spoor_trace_info(t)->epoch_offset,
	       (int)ev->cpu, ev->h->flags, ev->h->size4, ev->h->tid);
	if (ev->h->id < SPOOR_SYSCALL_MAX) {
		put_call(ev);
	} else if (ev->class) {
		put_user(ev);
	} else if (own) {
		printf(" spoor:%s", own->name);
		for (unsigned i = 0; i < own->n_fields; i++)
			put_field(ev->h, &own->fields[i]);
	}
	putchar('\n');
}

static void put_unfinished(const struct spoor_pendings *p)
{
	enum spoor_unfinished why;
	struct spoor_event ev;
	size_t it = 0;

	while (spoor_pendings_next(p, &it, &ev, &why))
		fprintf(stderr, "unfinished: tid %u start %" PRIu64 " %s\n", ev.h->tid,
			(uint64_t)((const struct spoor_pending *)ev.h)->start,
			why == SPOOR_UNFINISHED_LOST ? "lost" : "in flight");
}

static int put_schema(void)
{
	char *text;

	if (spoor_schema_document(&text) < 0)
		return 1;
	fputs(text, stdout);
	free(text);
	return 0;
}

int main(int argc, char **argv)
{
	int repair = argc > 2 && !strcmp(argv[1], "-r");
	int quiet = repair || (argc > 2 && !strcmp(argv[1], "-q")), r = 0;
	struct spoor_pendings *pendings;
	struct spoor_error e = {};
	struct spoor_trace *t;
	struct spoor_event ev;
	uint64_t n = 0, cut = 0;

	if (argc == 2 && !strcmp(argv[1], "--schema"))
		return put_schema();
	if (argc < 2 || spoor_pendings_new(&pendings) < 0)
		return 2;
	if (repair)
		r = spoor_trace_repair(argv[argc - 1], &cut, &e);
	if (r >= 0)
		r = spoor_trace_open(argv[argc - 1], &t, &e);
	if (r < 0) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	for (; (r = spoor_trace_next(t, &ev)) > 0; n++) {
		spoor_pendings_see(pendings, &ev);
		if (!quiet)
			put_event(t, &ev);
	}
	put_unfinished(pendings);
	for (unsigned i = 0; i < spoor_trace_info(t)->n_damages; i++)
		fprintf(stderr, "damage: %s\n", spoor_trace_damage(t, i));
	fprintf(stderr, "events %" PRIu64 " discarded %" PRIu64 " ended %u live %u\n", n, spoor_trace_discarded(t),
		spoor_trace_info(t)->ended, spoor_trace_info(t)->live);
	spoor_trace_close(t);
	spoor_pendings_free(pendings);
	return r < 0;
}
