/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The CTF 1.8 text metadata: a header, Spoor's own events from schema.def, system calls from syscalls.tbl.
 * Field names begin with an underscore, which readers of CTF strip: an argument may be called `event` or `stream`,
 * which are keywords there. Each event ends in an empty structure aligned to 32 bits: it stands for the padding, so
 * that a packet may end with its last event's.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings.h"
#include "trace/schema.h"
#include "trace/syscalls.h"

static void put_uuid(FILE *f, const uint8_t *u)
{
	for (int i = 0; i < 16; i++)
		fprintf(f, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
}

void spoor_put_literal(FILE *f, const char *s)
{
	const char *end = s + strlen(s);
	uint32_t code;
	int n;

	fputc('"', f);
	for (; s < end; s += n ? n : 1) {
		n = spoor_utf8_decode(s, end - s, &code);
		if (!n || code < ' ' || (code >= 0x7f && code < 0xa0)) {
			fputc('?', f);
			continue;
		}
		if (code == '"' || code == '\\')
			fputc('\\', f);
		fwrite(s, n, 1, f);
	}
	fputc('"', f);
}

static void put_preamble(FILE *f, const struct spoor_metadata *m)
{
	fputs("/* CTF 1.8 */\n\n", f);
	for (int bits = 8; bits <= 64; bits *= 2)
		fprintf(f,
			"typealias integer { size = %d; align = 8; signed = false; } := u%d;\n"
			"typealias integer { size = %d; align = 8; signed = true; } := s%d;\n"
			"typealias integer { size = %d; align = 8; signed = false; base = 16; } := x%d;\n"
			"typealias integer { size = %d; align = 8; signed = false; base = 8; } := o%d;\n",
			bits, bits, bits, bits, bits, bits, bits, bits);
	fputs("typealias integer { size = 8; align = 8; signed = false; encoding = UTF8; } := text;\n"
	      "typealias integer { size = 3; align = 1; signed = false; base = 16; } := x3;\n"
	      "typealias integer { size = 29; align = 1; signed = false; } := u29;\n"
	      "typealias integer { size = 10; align = 1; signed = false; } := u10;\n"
	      "typealias integer { size = 22; align = 1; signed = false; } := u22;\n"
	      "typealias integer { size = 1; align = 1; signed = false; } := u1;\n"
	      "typealias integer { size = 16; align = 1; signed = false; } := bits16;\n"
	      "typealias integer { size = 47; align = 1; signed = false; base = 16; } := x47;\n\n"
	      "trace {\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"",
	      f);
	put_uuid(f, m->uuid);
	fputs("\";\n\tbyte_order = le;\n\tpacket.header := struct {\n"
	      "\t\tu32 magic;\n\t\tu8 uuid[16];\n\t\tu32 stream_id;\n\t\tu64 stream_instance_id;\n\t};\n};\n\n"
	      "env {\n\thostname = ",
	      f);
	spoor_put_literal(f, m->hostname);
	fputs(";\n\tdomain = ", f);
	spoor_put_literal(f, m->domain);
	fputs(";\n\tsysname = \"Linux\";\n\tkernel_release = ", f);
	spoor_put_literal(f, m->release);
	fprintf(f, ";\n\ttracer_name = \"spoor\";\n\ttracer_major = %d;\n};\n\n", SPOOR_TRACE_VERSION);
	fputs("clock {\n\tname = \"monotonic\";\n\tuuid = \"", f);
	put_uuid(f, m->boot_id);
	fprintf(f,
		"\";\n\tdescription = \"CLOCK_MONOTONIC\";\n\tfreq = 1000000000;\n\toffset_s = %" PRIu64
		";\n\toffset = %" PRIu64 ";\n\tabsolute = TRUE;\n};\n\n",
		m->epoch_offset / 1000000000, m->epoch_offset % 1000000000);
	fprintf(f,
		"typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := ts_t;\n\n"
		"stream {\n\tid = %u;\n\tpacket.context := struct {\n\t\tts_t timestamp_begin;\n"
		"\t\tts_t timestamp_end;\n\t\tu64 content_size;\n\t\tu64 packet_size;\n\t\tu64 packet_seq_num;\n"
		"\t\tu64 events_discarded;\n\t\tu32 %s;\n\t\tu32 segment;\n\t};\n",
		m->stream_id, m->stream_id == SPOOR_STREAM_UST ? "vtid" : "cpu_id");
	fputs("\tevent.header := struct {\n\t\tts_t timestamp;\n\t\tu16 id;\n\t} align(32);\n"
	      "\tevent.context := struct {\n\t\tu16 _size4;\n\t\tu29 _tid;\n\t\tx3 _flags;\n\t};\n};\n\n",
	      f);
}

static void open_event(FILE *f, const char *prefix, const char *name, unsigned id, unsigned stream_id)
{
	fprintf(f, "event {\n\tname = \"%s%s\";\n\tid = %u;\n\tstream_id = %u;\n\tfields := struct {\n", prefix, name,
		id, stream_id);
}

static void close_event(FILE *f)
{
	fputs("\t\tstruct { } align(32) _padding;\n\t};\n};\n\n", f);
}

static void put_own_event(FILE *f, const struct spoor_schema_event *ev, unsigned stream_id)
{
	static const char *const decl[] = {
		[SPOOR_FIELD_U8] = "u8 _%s",
		[SPOOR_FIELD_U16] = "u16 _%s",
		[SPOOR_FIELD_U32] = "u32 _%s",
		[SPOOR_FIELD_U64] = "u64 _%s",
		[SPOOR_FIELD_S32] = "s32 _%s",
		[SPOOR_FIELD_S64] = "s64 _%s",
		[SPOOR_FIELD_X64] = "x64 _%s",
		[SPOOR_FIELD_X64_6] = "x64 _%s[6]",
		[SPOOR_FIELD_BYTES_4] = "x8 _%s[4]",
		[SPOOR_FIELD_BYTES_16] = "x8 _%s[16]",
		[SPOOR_FIELD_BYTES_32] = "x8 _%s[32]",
		[SPOOR_FIELD_TEXT_16] = "text _%s[16]",
		[SPOOR_FIELD_STRING] = "string _%s",
		[SPOOR_FIELD_BYTES_LEN] = "x8 _%s[_len]",
		[SPOOR_FIELD_FRAMES] = "struct { x47 _offset; bits16 _object; u1 _interrupted; } _%s[_n]",
	};

	open_event(f, "spoor:", ev->name, ev->id, stream_id);
	for (unsigned i = 0; i < ev->n_fields; i++) {
		fputs("\t\t", f);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		fprintf(f, decl[ev->fields[i].type], ev->fields[i].name);
#pragma GCC diagnostic pop
		fputs(";\n", f);
	}
	close_event(f);
}

static char arg_base(const struct spoor_syscall_arg *a)
{
	switch (a->kind) {
	case SPOOR_ARG_INT:
	case SPOOR_ARG_FD:
	case SPOOR_ARG_DIRFD:
	case SPOOR_ARG_PID:
		return 's';
	case SPOOR_ARG_UINT:
	case SPOOR_ARG_SIGNAL:
		return 'u';
	case SPOOR_ARG_OCT:
		return 'o';
	default:
		return 'x';
	}
}

static unsigned count_kind(const struct spoor_syscall_info *info, unsigned from, unsigned to)
{
	unsigned n = 0;

	for (unsigned i = 0; i < info->n_args; i++)
		n += info->args[i].kind >= from && info->args[i].kind <= to;
	return n;
}

/* One structure for the arguments of these kinds: descriptors' files, paths, or bytes. */
static void put_group(FILE *f, const struct spoor_syscall_info *info, const char *group, unsigned from, unsigned to)
{
	if (!count_kind(info, from, to))
		return;
	fputs("\t\tstruct {", f);
	for (unsigned i = 0; i < info->n_args; i++) {
		const struct spoor_syscall_arg *a = &info->args[i];

		if (a->kind < from || a->kind > to)
			continue;
		if (a->kind == SPOOR_ARG_FD || a->kind == SPOOR_ARG_DIRFD)
			fprintf(f, " u32 _%s;", a->name);
		else if (a->kind == SPOOR_ARG_PATH)
			fprintf(f, " string _%s;", a->name);
		else if (a->kind == SPOOR_ARG_BUF_IN || a->kind == SPOOR_ARG_BUF_OUT)
			fprintf(f, " x8 _%s[_data_length];", a->name);
		else
			fprintf(f, " u16 _%s_length; x8 _%s[_%s_length];", a->name, a->name, a->name);
	}
	fprintf(f, " } %s;\n", group);
}

static void put_syscall(FILE *f, unsigned id)
{
	const struct spoor_syscall_info *info = spoor_syscall_info(id);

	if (!info->name)
		return;
	open_event(f, id >= SPOOR_SYSCALL_I386 ? "i386_" : "", info->name, id, SPOOR_STREAM_KERNEL);
	fputs(count_kind(info, SPOOR_ARG_BUF_IN, SPOOR_ARG_BUF_OUT) ? "\t\tu22 _pid;\n\t\tu10 _data_length;\n" :
								     "\t\tu32 _pid;\n",
	      f);
	fprintf(f, "\t\tu32 _stack;\n\t\tu64 _dur;\n\t\ts%d _ret;\n",
		info->flags & SPOOR_SYSCALL_RET_LONG ? 64 : 32);
	if (info->n_args) {
		fputs("\t\tstruct {", f);
		for (unsigned i = 0; i < info->n_args; i++)
			fprintf(f, " %c%d _%s;", arg_base(&info->args[i]), info->args[i].width * 8, info->args[i].name);
		fputs(" } _args;\n", f);
	}
	put_group(f, info, "_files", SPOOR_ARG_FD, SPOOR_ARG_DIRFD);
	if (info->flags & SPOOR_SYSCALL_RET_FD)
		fputs("\t\tu32 _ret_file;\n", f);
	put_group(f, info, "_paths", SPOOR_ARG_PATH, SPOOR_ARG_PATH);
	put_group(f, info, "_addresses", SPOOR_ARG_SOCKADDR_IN, SPOOR_ARG_SOCKADDR_OUT);
	put_group(f, info, "_data", SPOOR_ARG_BUF_IN, SPOOR_ARG_BUF_OUT);
	close_event(f);
}

void spoor_part_uuid(const uint8_t recording[16], unsigned stream_id, uint8_t ret[16])
{
	memcpy(ret, recording, 16);
	ret[15] ^= stream_id;
}

int spoor_schema_class(unsigned id, unsigned stream_id, char **ret, size_t *ret_len)
{
	const struct spoor_schema_event *own = spoor_schema_event(id);
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return -ENOMEM;
	if (own)
		put_own_event(f, own, stream_id);
	else
		put_syscall(f, id);
	if (fclose(f)) {
		free(text);
		return -ENOMEM;
	}
	*ret = text;
	*ret_len = len;
	return 0;
}

int spoor_schema_metadata(const struct spoor_metadata *m, char **ret, size_t *ret_len)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return -ENOMEM;
	put_preamble(f, m);
	for (unsigned id = SPOOR_SYSCALL_MAX; id < SPOOR_EV_MAX; id++)
		put_own_event(f, spoor_schema_event(id), m->stream_id);
	for (unsigned id = 0; id < SPOOR_SYSCALL_MAX && m->stream_id == SPOOR_STREAM_KERNEL; id++)
		put_syscall(f, id);
	if (fclose(f)) {
		free(text);
		return -ENOMEM;
	}
	*ret = text;
	*ret_len = len;
	return 0;
}
