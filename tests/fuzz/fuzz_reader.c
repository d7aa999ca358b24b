/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The trace reader on hostile files. The input: u16 bytes of the manifest, u16 bytes of the definitions, u16 bytes of
 * cpu0, these three (if the first size is odd, it is the metadata), and the rest is cpu0.1; put down as a trace in a
 * directory in memory. Everything that a user may trust is touched, so that the sanitizers see a check that is missing;
 * and what must hold of any input is asserted.
 */
#include "trace_dir.h"

#include "trace/reader.h"
#include "trace/syscalls.h"

static volatile uint64_t sum;

static void touch_bytes(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum += ((const volatile uint8_t *)p)[i];
}

static void touch_definitions(const struct spoor_segment *s, uint32_t id, uint32_t tid, uint64_t ts)
{
	const struct spoor_stack *st = spoor_segment_stack(s, id);
	const struct spoor_object *o = spoor_segment_object(s, id);
	const struct spoor_event_header *f = spoor_segment_file(s, id);
	const struct spoor_thread *t = spoor_segment_thread(s, tid, ts);

	if (st) {
		must(spoor_segment_stack(s, st->id) == st);
		touch_bytes(st->frames, st->n * 8);
	}
	if (o)
		sum += strlen(o->path) + o->build_id_len;
	if (f && f->id == SPOOR_EV_SOCKET4)
		touch_bytes(f, sizeof(struct spoor_socket4));
	else if (f)
		sum += f->id == SPOOR_EV_FILE ? strlen(((const struct spoor_file *)f)->path) :
						strlen(((const struct spoor_socket *)f)->path);
	if (t) {
		must(t->h.tid == tid);
		sum += strlen(t->comm);
	}
}

static void touch_call(const struct spoor_event *ev)
{
	struct spoor_call c;

	if (spoor_call_decode(ev, &c) < 0)
		return;
	must(c.info && c.n_args <= 6);
	for (unsigned i = 0; i < c.n_args; i++) {
		sum += c.args[i].value + (c.args[i].path ? strlen(c.args[i].path) : 0);
		touch_bytes(c.args[i].bytes, c.args[i].len);
	}
	touch_definitions(ev->segment, c.stack, c.tid, c.start);
}

static uint64_t read_all(struct spoor_trace *t)
{
	struct spoor_pendings *p;
	enum spoor_unfinished why;
	struct spoor_event ev;
	uint64_t n = 0, last = 0;
	size_t it = 0;

	must(spoor_pendings_new(&p) == 0);
	spoor_pendings_keep_killed(p);
	for (; spoor_trace_next(t, &ev) > 0; n++) {
		must(ev.h->ts >= last && spoor_event_size(ev.h) >= sizeof(*ev.h));
		last = ev.h->ts;
		touch_bytes(ev.h, spoor_event_size(ev.h));
		touch_call(&ev);
		touch_definitions(ev.segment,
				  spoor_event_size(ev.h) > sizeof(*ev.h) ? ((const struct spoor_stack *)ev.h)->id : 0,
				  ev.h->tid, ev.h->ts);
		must(spoor_pendings_see(p, &ev) >= 0);
	}
	while (spoor_pendings_next(p, &it, &ev, &why))
		touch_call(&ev);
	it = 0;
	while (spoor_pendings_next_killed(p, &it, 0, &ev))
		touch_call(&ev);
	spoor_pendings_free(p);
	return n;
}

/* ret_foreign: whether packets of another trace are in it. */
static uint64_t read_trace(int *ret_foreign)
{
	struct spoor_error e;
	struct spoor_trace *t;
	uint64_t n;

	if (spoor_trace_open(root, &t, &e) < 0)
		return 0;
	n = read_all(t);
	must(spoor_trace_rewind(t) == 0 && read_all(t) == n);
	for (unsigned i = 0; i < spoor_trace_info(t)->n_damages; i++)
		*ret_foreign |= strstr(spoor_trace_damage(t, i), "of another trace") != NULL;
	sum += spoor_trace_discarded(t) + strlen(spoor_trace_info(t)->command);
	spoor_trace_close(t);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint16_t sizes[3];
	struct spoor_error e;
	int foreign = 0, ignored = 0;
	uint64_t n, cut;

	if (size < sizeof(sizes))
		return 0;
	make_root((const char *const[]){ "seg-000001", NULL });
	memcpy(sizes, data, sizeof(sizes));
	data += sizeof(sizes);
	size -= sizeof(sizes);
	drop(sizes[0] & 1 ? "manifest" : "seg-000001/metadata");
	put(sizes[0] & 1 ? "seg-000001/metadata" : "manifest", &data, &size, sizes[0]);
	put("seg-000001/defs", &data, &size, sizes[1]);
	put("seg-000001/cpu0", &data, &size, sizes[2]);
	put("seg-000001/cpu0.1", &data, &size, size);
	n = read_trace(&foreign);
	/* If a torn packet told which trace it is, those of the others are read once it is cut. */
	if (spoor_trace_repair(root, &cut, &e) == 0)
		must(read_trace(&ignored) <= n || foreign);
	return 0;
}
