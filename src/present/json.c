/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Every call and user event as one line of JSON; docs/report.md tells the members. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/time.h"
#include "present/call.h"
#include "present/present.h"
#include "present/text.h"
#include "present/texts.h"
#include "present/user.h"
#include "trace/syscalls.h"

static void put_time(FILE *out, const char *member, uint64_t ts, uint64_t epoch_offset)
{
	char text[32];

	spoor_format_epoch(ts + epoch_offset, text, sizeof(text));
	fprintf(out, "\"%s\":\"%s\"", member, text);
}

static void put_line(FILE *out, const struct spoor_frame *f, int line)
{
	const struct spoor_source_line *l = line < f->n ? &f->lines[line] : NULL;

	fputs("{\"object\":", out);
	spoor_put_json_string(out, f->path);
	fprintf(out, ",\"offset\":\"0x%" PRIx64 "\",\"function\":", f->offset);
	spoor_put_json_string(out, l ? l->function : NULL);
	fputs(",\"file\":", out);
	spoor_put_json_string(out, l ? l->file : NULL);
	if (l && l->line)
		fprintf(out, ",\"line\":%u", l->line);
	else
		fputs(",\"line\":null", out);
	fputs(l && l->inlined ? ",\"inlined\":true" : "", out);
	fputs(f->interrupted ? ",\"interrupted\":true}" : "}", out);
}

void spoor_put_frames_json(FILE *out, struct spoor_symbolizer *symbols, const struct spoor_segment *segment,
			   uint32_t pid, uint32_t id)
{
	const struct spoor_stack *stack = id ? spoor_segment_stack(segment, id) : NULL;
	int first = 1;

	fputc('[', out);
	for (unsigned i = 0; stack && i < stack->n; i++) {
		const struct spoor_frame *f = spoor_symbolize(symbols, segment, pid, stack, i);

		for (int k = 0; f && (k == 0 || k < f->n); k++) {
			if (!first)
				fputc(',', out);
			first = 0;
			put_line(out, f, k);
		}
	}
	fputc(']', out);
}

static void put_new_stack(struct spoor_view *v, FILE *out, const struct spoor_segment *segment, uint32_t pid,
			  uint32_t id)
{
	const struct spoor_stack *stack = id ? spoor_segment_stack(segment, id) : NULL;

	fputs(",\"stack\":", out);
	spoor_put_frames_json(out, v->symbols, segment, pid, id);
	fputs(",\"walk\":", out);
	if (!id)
		fputs("null,\"way\":null", out);
	else if (!stack)
		fputs("\"lost\",\"way\":null", out);
	else
		fprintf(out, "\"%s\",\"way\":\"%s\"", spoor_walk_status_name(stack->status),
			spoor_walk_way_name(stack->way));
}

/* The same few stacks come again and again, and are most of a line's bytes: their text is made once. */
void spoor_put_stack_json(struct spoor_view *v, const struct spoor_segment *segment, uint32_t pid, uint32_t id)
{
	const char *known = spoor_texts_get(v->stack_texts, pid, id);
	char *text = NULL;
	size_t size;
	FILE *out;

	if (known) {
		fputs(known, v->out);
		return;
	}
	out = open_memstream(&text, &size);
	if (!out) {
		put_new_stack(v, v->out, segment, pid, id);
		return;
	}
	put_new_stack(v, out, segment, pid, id);
	fclose(out);
	fputs(text ?: "", v->out);
	spoor_texts_put(v->stack_texts, pid, id, text, size);
}

static void put_flags(FILE *out, const struct spoor_call *call)
{
	if (call->i386)
		fputs(",\"abi\":\"i386\"", out);
	if (call->flags & SPOOR_EVENT_READ_AT_EXIT)
		fputs(",\"read_at_exit\":true", out);
	if (call->flags & SPOOR_EVENT_TRUNCATED)
		fputs(",\"truncated\":true", out);
	if (call->flags & SPOOR_EVENT_UNREADABLE)
		fputs(",\"unreadable\":true", out);
}

/* A call that never ended has no result. */
static void put_unfinished(struct spoor_view *v, const struct spoor_event *ev, const struct spoor_call *call,
			   enum spoor_unfinished why, uint64_t epoch_offset)
{
	const struct spoor_pending *p = (const void *)ev->h;

	fprintf(v->out, ",\"ret\":null,\"errno\":null,\"unfinished\":\"%s\"",
		why == SPOOR_UNFINISHED_LOST   ? "end lost" :
		why == SPOOR_UNFINISHED_KILLED ? "killed" :
						 spoor_pending_name(call->pending));
	if (!call->start)
		return;
	fputc(',', v->out);
	put_time(v->out, "start", call->start, epoch_offset);
	fprintf(v->out, ",\"start_exact\":%s,\"so_far\":%" PRIu64, p->exact ? "true" : "false",
		spoor_view_so_far(v, ev, why));
}

int spoor_put_event_json(struct spoor_view *v, const struct spoor_event *ev, enum spoor_unfinished why)
{
	uint64_t epoch_offset = spoor_trace_info(v->trace)->epoch_offset;
	struct spoor_call call;

	if (spoor_call_decode(ev, &call) < 0) {
		v->n_undecodable++;
		return 0;
	}
	fputc('{', v->out);
	put_time(v->out, "ts", ev->h->ts, epoch_offset);
	if (why)
		fputs(",\"dur\":null", v->out);
	else
		fprintf(v->out, ",\"dur\":%" PRIu64 "%s", call.dur,
			v->start_is_bound ? ",\"start_exact\":false" : "");
	fprintf(v->out, ",\"cpu\":%u,\"pid\":%u,\"tid\":%u,\"comm\":", call.cpu, call.pid, call.tid);
	spoor_put_json_string(v->out, spoor_view_comm(ev->segment, call.tid, ev->h->ts));
	if (call.info->name)
		fprintf(v->out, ",\"event\":\"%s\",\"args\":", call.info->name);
	else
		fprintf(v->out, ",\"event\":\"syscall_%u\",\"args\":", call.nr);
	spoor_put_args_json(v->out, &call, ev->segment);
	if (why) {
		put_unfinished(v, ev, &call, why, epoch_offset);
	} else {
		fputc(',', v->out);
		spoor_put_ret_json(v->out, &call, ev->segment);
	}
	spoor_put_stack_json(v, ev->segment, call.pid, call.stack);
	put_flags(v->out, &call);
	fputs("}\n", v->out);
	return ferror(v->out) ? -EPIPE : 0;
}

static int each(struct spoor_view *v, const struct spoor_event *ev, enum spoor_unfinished why, void *p)
{
	const struct spoor_syscall *call = (const void *)ev->h;

	spoor_view_listed(v);
	spoor_tally_stack(&v->tally, ev->segment, call->stack, 1);
	return spoor_put_event_json(v, ev, why);
}

static int each_user(struct spoor_view *v, const struct spoor_event *ev, void *p)
{
	if (!ev->class)
		return 0;
	spoor_view_listed(v);
	return spoor_put_user_json(v, ev);
}

int spoor_present_json(struct spoor_view *v, struct spoor_error *e)
{
	int r;

	v->stack_texts = spoor_texts_new();
	r = spoor_view_read(v, each, each_user, NULL, e);
	spoor_view_progress_end(v);
	if (r == 0)
		spoor_put_summary_json(v);
	spoor_texts_free(v->stack_texts);
	v->stack_texts = NULL;
	return r;
}
