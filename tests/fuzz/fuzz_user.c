/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The reader and the reports on hostile user events. The input: u16 bytes of the definitions, u16 bytes of lane0, these
 * two, and the rest is lane1; put down as a trace in a directory in memory. Every event is shown as text and as JSON.
 */
#include "trace_dir.h"

#include "present/user.h"
#include "trace/reader.h"

static FILE *out;
static volatile uint64_t sum;

static int each_source(const struct spoor_packet_source *source, void *p)
{
	sum += source->arena[15] + source->serial + source->position;
	return 0;
}

static uint64_t read_all(struct spoor_trace *t)
{
	struct spoor_view v = { .trace = t, .out = out };
	struct spoor_event ev;
	uint64_t n = 0, last = 0;

	for (; spoor_trace_next(t, &ev) > 0; n++) {
		must(ev.h->ts >= last && spoor_event_size(ev.h) >= sizeof(*ev.h));
		last = ev.h->ts;
		must(spoor_programs_see(&v.programs, &ev) == 0);
		if (!ev.class)
			continue;
		must(ev.h->id == ev.class->id && ev.h->id >= SPOOR_EV_USER);
		spoor_put_user(out, &ev);
		sum += spoor_user_stack(&ev);
		must(spoor_put_user_json(&v, &ev) == 0);
	}
	spoor_programs_done(&v.programs);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spoor_trace *t;
	struct spoor_error e;
	uint16_t sizes[2];
	uint64_t n;

	if (size < sizeof(sizes))
		return 0;
	make_root((const char *const[]){ "ust", "ust/seg-000001", NULL });
	if (!out)
		out = fopen("/dev/null", "w");
	must(out != NULL);
	memcpy(sizes, data, sizeof(sizes));
	data += sizeof(sizes);
	size -= sizeof(sizes);
	put("ust/seg-000001/defs", &data, &size, sizes[0]);
	put("ust/seg-000001/lane0", &data, &size, sizes[1]);
	put("ust/seg-000001/lane1", &data, &size, size);
	if (spoor_trace_open(root, &t, &e) < 0)
		return 0;
	n = read_all(t);
	must(spoor_trace_rewind(t) == 0 && read_all(t) == n);
	must(spoor_trace_sources(t, each_source, NULL) == 0);
	spoor_trace_close(t);
	return 0;
}
