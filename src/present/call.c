/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "present/call.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "analyze/callsites.h"
#include "analyze/select.h"
#include "present/address.h"
#include "present/text.h"
#include "trace/syscalls.h"

/* ERESTARTSYS and its kin: a signal came, the call is done again or fails with EINTR. */
#define FIRST_INTERNAL_ERRNO 512

static unsigned arg_kind(const struct spoor_call *call, unsigned i)
{
	return call->info->name ? call->info->args[i].kind : SPOOR_ARG_HEX;
}

static int is_unknown(const struct spoor_call *call, unsigned i)
{
	return call->entry_unseen && arg_kind(call, i) != SPOOR_ARG_PATH;
}

static void put_name(FILE *out, const struct spoor_call *call)
{
	if (call->i386)
		fputs("i386_", out);
	if (call->info->name)
		fputs(call->info->name, out);
	else
		fprintf(out, "syscall_%u", call->nr);
}

static void put_signal(FILE *out, uint64_t value)
{
	const char *name = value < 65 ? sigabbrev_np((int)value) : NULL;

	if (name)
		fprintf(out, "SIG%s", name);
	else
		fprintf(out, "%" PRIu64, value);
}

static void put_address(FILE *out, uint64_t value)
{
	if (value)
		fprintf(out, "%#" PRIx64, value);
	else
		fputs("NULL", out);
}

/* A string that the kernel read is as long as it was kept; an event that could not keep all says so. */
static void put_quoted(FILE *out, const char *s, size_t len, int cut)
{
	fputc('"', out);
	spoor_put_text(out, s, len);
	fputs(cut ? "\"..." : "\"", out);
}

/* The flag is the call's: what was cut is a path of as much as is kept, and a payload of less than there was. */
static int is_cut(const struct spoor_call *call, unsigned i)
{
	const struct spoor_call_arg *arg = &call->args[i];
	uint64_t size;

	if (!(call->flags & SPOOR_EVENT_TRUNCATED))
		return 0;
	if (arg_kind(call, i) == SPOOR_ARG_PATH)
		return strlen(arg->path) == SPOOR_MAX_STRING - 1;
	size = arg[1].value;
	if (arg_kind(call, i) == SPOOR_ARG_BUF_OUT && (uint64_t)call->ret < size)
		size = (uint64_t)call->ret;
	return arg->len < size;
}

static void put_path(FILE *out, const struct spoor_call *call, unsigned i)
{
	const struct spoor_call_arg *arg = &call->args[i];

	if (arg->path && (arg->path[0] || (arg->value && !(call->flags & SPOOR_EVENT_UNREADABLE))))
		put_quoted(out, arg->path, strlen(arg->path), is_cut(call, i));
	else
		put_address(out, arg->value);
}

static void put_arg(FILE *out, const struct spoor_call *call, unsigned i, const struct spoor_segment *segment)
{
	const struct spoor_call_arg *arg = &call->args[i];

	switch (arg_kind(call, i)) {
	case SPOOR_ARG_INT:
	case SPOOR_ARG_PID:
		fprintf(out, "%" PRId64, (int64_t)arg->value);
		return;
	case SPOOR_ARG_UINT:
		fprintf(out, "%" PRIu64, arg->value);
		return;
	case SPOOR_ARG_OCT:
		fprintf(out, "%#" PRIo64, arg->value);
		return;
	case SPOOR_ARG_FD:
		fprintf(out, "%" PRId64, (int64_t)arg->value);
		spoor_put_file(out, segment, arg->file);
		return;
	case SPOOR_ARG_DIRFD:
		if ((int64_t)arg->value == AT_FDCWD)
			fputs("AT_FDCWD", out);
		else
			fprintf(out, "%" PRId64, (int64_t)arg->value);
		spoor_put_file(out, segment, arg->file);
		return;
	case SPOOR_ARG_PATH:
		put_path(out, call, i);
		return;
	case SPOOR_ARG_SIGNAL:
		put_signal(out, arg->value);
		return;
	case SPOOR_ARG_SOCKADDR_IN:
	case SPOOR_ARG_SOCKADDR_OUT:
		if (arg->bytes)
			spoor_put_sockaddr(out, arg->bytes, arg->len);
		else
			put_address(out, arg->value);
		return;
	case SPOOR_ARG_BUF_IN:
	case SPOOR_ARG_BUF_OUT:
		if (arg->bytes)
			put_quoted(out, (const char *)arg->bytes, arg->len, is_cut(call, i));
		else
			put_address(out, arg->value);
		return;
	case SPOOR_ARG_PTR:
		put_address(out, arg->value);
		return;
	default:
		fprintf(out, arg->value ? "%#" PRIx64 : "%" PRIx64, arg->value);
	}
}

void spoor_put_call(FILE *out, const struct spoor_call *call, const struct spoor_segment *segment)
{
	put_name(out, call);
	fputc('(', out);
	for (unsigned i = 0; i < call->n_args; i++) {
		if (i)
			fputs(", ", out);
		if (is_unknown(call, i))
			fputc('?', out);
		else
			put_arg(out, call, i, segment);
	}
	fputc(')', out);
}

void spoor_put_ret(FILE *out, const struct spoor_call *call, const struct spoor_segment *segment)
{
	int err = spoor_ret_failed(call->ret) ? (int)-call->ret : 0;
	const char *name = err ? spoor_errno_name(err) : NULL;

	if (err >= FIRST_INTERNAL_ERRNO)
		fprintf(out, "? %s", name ?: "ERESTART?");
	else if (err)
		fprintf(out, "-1 %s (%s)", name ?: "E?", strerror(err));
	else if (call->info->flags & SPOOR_SYSCALL_RET_PTR)
		put_address(out, (uint64_t)call->ret);
	else
		fprintf(out, "%" PRId64, call->ret);
	if (!err && call->ret_is_fd)
		spoor_put_file(out, segment, call->ret_file);
}

static void put_fd_json(FILE *out, int64_t fd, uint32_t file, const struct spoor_segment *segment)
{
	fprintf(out, "{\"fd\":%" PRId64, fd);
	spoor_put_file_json(out, segment, file);
	fputc('}', out);
}

static void put_bytes_json(FILE *out, const struct spoor_call_arg *arg)
{
	if (!arg->bytes) {
		fprintf(out, "\"0x%" PRIx64 "\"", arg->value);
		return;
	}
	fprintf(out, "{\"address\":\"0x%" PRIx64 "\",\"bytes\":", arg->value);
	spoor_put_json_bytes(out, (const char *)arg->bytes, arg->len);
	fputc('}', out);
}

static void put_arg_json(FILE *out, const struct spoor_call *call, unsigned i, const struct spoor_segment *segment)
{
	const struct spoor_call_arg *arg = &call->args[i];

	switch (arg_kind(call, i)) {
	case SPOOR_ARG_INT:
	case SPOOR_ARG_PID:
		fprintf(out, "%" PRId64, (int64_t)arg->value);
		return;
	case SPOOR_ARG_UINT:
	case SPOOR_ARG_SIGNAL:
		fprintf(out, "%" PRIu64, arg->value);
		return;
	case SPOOR_ARG_OCT:
		fprintf(out, "\"%#" PRIo64 "\"", arg->value);
		return;
	case SPOOR_ARG_FD:
	case SPOOR_ARG_DIRFD:
		put_fd_json(out, (int64_t)arg->value, arg->file, segment);
		return;
	case SPOOR_ARG_PATH:
		if (arg->path && (arg->path[0] || (arg->value && !(call->flags & SPOOR_EVENT_UNREADABLE))))
			spoor_put_json_string(out, arg->path);
		else
			fputs("null", out);
		return;
	case SPOOR_ARG_SOCKADDR_IN:
	case SPOOR_ARG_SOCKADDR_OUT:
		if (arg->bytes)
			spoor_put_sockaddr_json(out, arg->bytes, arg->len);
		else
			fputs("null", out);
		return;
	case SPOOR_ARG_BUF_IN:
	case SPOOR_ARG_BUF_OUT:
		put_bytes_json(out, arg);
		return;
	default:
		fprintf(out, "\"0x%" PRIx64 "\"", arg->value);
	}
}

void spoor_put_args_json(FILE *out, const struct spoor_call *call, const struct spoor_segment *segment)
{
	fputc('{', out);
	for (unsigned i = 0; i < call->n_args; i++) {
		if (call->info->name)
			fprintf(out, "%s\"%s\":", i ? "," : "", call->info->args[i].name);
		else
			fprintf(out, "%s\"arg%u\":", i ? "," : "", i);
		if (is_unknown(call, i))
			fputs("null", out);
		else
			put_arg_json(out, call, i, segment);
	}
	fputc('}', out);
}

void spoor_put_ret_json(FILE *out, const struct spoor_call *call, const struct spoor_segment *segment)
{
	int err = spoor_ret_failed(call->ret) ? (int)-call->ret : 0;
	const char *name = err ? spoor_errno_name(err) : NULL;

	if (!err && call->info->flags & SPOOR_SYSCALL_RET_PTR)
		fprintf(out, "\"ret\":\"0x%" PRIx64 "\"", (uint64_t)call->ret);
	else
		fprintf(out, "\"ret\":%" PRId64, call->ret);
	if (!err && call->ret_is_fd) {
		fputs(",\"ret_fd\":", out);
		put_fd_json(out, call->ret, call->ret_file, segment);
	}
	if (name)
		fprintf(out, ",\"errno\":\"%s\"", name);
	else if (err)
		fprintf(out, ",\"errno\":\"%d\"", err);
	else
		fputs(",\"errno\":null", out);
}
