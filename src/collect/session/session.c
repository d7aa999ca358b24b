/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/session.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "base/file.h"
#include "base/strings.h"
#include "base/time.h"
#include "collect/session/ledger.h"
#include "collect/session/remote.h"
#include "collect/session/rescue.h"
#include "collect/session/settings.h"

#define SETTLE_NS SPOOR_NS_PER_SEC
#define SNAPSHOT_NS (5 * SPOOR_NS_PER_SEC) /* it waits for the stacks of a segment, too */
#define MOST_MEETINGS 16 /* at the end */
#define END_NS (10 * SPOOR_NS_PER_SEC) /* for what is still to be unwound at the end, on however busy a machine */
#define ROTATING_MS 20                 /* the rings are looked at so often while a segment is being ended */

struct session {
	const struct spoor_session_options *o;
	struct spoor_session_result *result;
	struct spoor_writer *writer;
	struct spoor_consumer *consumer;
	struct spoor_host host;
	struct spoor_settings settings;
	struct spoor_user_part user;
	struct spoor_ledger *ledger;
	struct spoor_rescue rescue;
	int remote_fd;
	uint64_t said;
	bool full;
	bool snapshot; /* asked for, and of what comes until a segment ends that has not begun to */
	bool ending;   /* the segment that a snapshot waits for is being ended */
	long untold;   /* of so many calls in flight the segment has still to be told; -errno: that is tried again */
	bool said_crowded;
	unsigned n_snapshots;
	struct spoor_error no_snapshot; /* why the last one failed; "": it did not */
};

/* What happens on the way. */
static void __attribute__((format(printf, 2, 3))) say(const struct session *s, const char *format, ...)
{
	char text[PATH_MAX + 64];
	va_list args;

	if (!s->o->say)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	s->o->say(s->o, text);
}

static void describe_mode(const struct spoor_session_options *o, char *buf, size_t size)
{
	snprintf(buf, size, "%s, S=%u, %s", spoor_mode_name(o->mode), o->mode == SPOOR_MODE_APP ? 1 : o->budget,
		 spoor_unwind_words[o->unwind]);
}

/* ---- beginning ---- */

/* What is needed to the end. */
static uint64_t capabilities(const struct spoor_session_options *o)
{
	return (o->overhead ? 1ULL << CAP_SYS_ADMIN : 0) | (o->snapshot_signal ? 1ULL << CAP_DAC_OVERRIDE : 0);
}

static int open_kernel(struct session *s, struct spoor_error *e)
{
	const struct spoor_session_options *o = s->o;
	struct spoor_kernel_options ko = {
		.ring_size = o->ring_size,
		.unwind = o->unwind,
		.payload = o->payload,
		.copy_memory = o->copy_memory,
	};

	return spoor_host_open(&s->host, &ko, e);
}

static int open_objects(struct session *s, struct spoor_error *e)
{
	struct spoor_objects_options oo = {
		.kernel = s->host.kernel,
		.app = &s->o->app,
		.custom = &s->o->custom,
		.cache_dir = s->o->cache_dir,
		.max_row_bytes = s->o->row_memory,
		.ledger = s->ledger,
	};

	return spoor_objects_new(&oo, &s->host.objects, e);
}

/* Their stacks are taken as those of system calls. */
static int open_user_part(struct session *s, struct spoor_error *e)
{
	const struct spoor_user_part_options o = {
		.contexts = s->o->ust_contexts,
		.stack_mode = s->o->mode,
		.stack_budget = s->o->budget,
		.app = &s->o->app,
		.custom = &s->o->custom,
		.cache_dir = s->o->cache_dir,
		.command = s->host.cmd_path,
	};

	return spoor_user_part_open(&s->user, &o, s->writer, e);
}

static int open_trace(struct session *s, struct spoor_error *e)
{
	const struct spoor_session_options *o = s->o;
	char mode[64];
	struct spoor_writer_options wo = {
		.path = o->output,
		.command = o->command,
		.mode = mode,
		.n_cpus = s->host.kernel->n_cpus,
		.n_lanes = o->ust ? SPOOR_LANES : 0,
		.max_size = o->max_size,
		.segment_size = o->segment_size,
		.segment_ns = o->segment_ns,
	};
	int r;

	describe_mode(o, mode, sizeof(mode));
	r = spoor_writer_open(&wo, &s->writer, e);
	if (!r)
		r = spoor_ledger_new(&s->ledger);
	return r ? r : spoor_rescue_start(&s->rescue, s->host.kernel, s->writer, s->ledger, e);
}

static int open_consumer(struct session *s, struct spoor_error *e)
{
	const struct spoor_session_options *o = s->o;
	struct spoor_error why = { "" };
	int r = o->ust ? open_user_part(s, e) : 0;

	if (r)
		return r;
	s->remote_fd = spoor_remote_listen(o->output, &why);
	if (s->remote_fd < 0)
		say(s, "%s; 'record --set' will not reach this recording", why.text);
	spoor_settings_init(&s->settings, s->host.kernel, s->writer, &o->filter, o->mode, o->budget, o->overhead,
			    o->custom.n > 0);
	return spoor_consumer_new(s->host.kernel, s->host.objects, s->writer,
				  o->segment_size || o->segment_ns || o->max_size || o->snapshot_signal, &s->consumer);
}

/*
 * A full disk or a vanished directory: the target goes on, what was written stays, and it is said once. Returns whether
 * rings have still to say where their segment ends.
 */
static bool drain(void *ctx)
{
	struct session *s = ctx;
	struct spoor_error e = {};
	int64_t r = spoor_consumer_drain(s->consumer, &e);

	if (r < 0 && !s->full) {
		snprintf(s->result->warning, sizeof(s->result->warning), "%s", e.text);
		spoor_writer_fails(s->writer);
		s->full = true;
		s->host.stop = true;
		s->host.end = SPOOR_END_FAILED;
	}
	return spoor_consumer_rotating(s->consumer) && !s->full;
}

static void make_room(void *ctx)
{
	drain(ctx);
}

static int begin(struct session *s, struct spoor_error *e)
{
	const struct spoor_targets *t = &s->o->targets;
	int r = spoor_host_check(&s->host, t, e);
	size_t hidden;

	if (!r && s->o->overhead)
		r = spoor_settings_can_hold(e);
	if (!r) /* before there is anything that they could tear */
		r = spoor_host_block_signals(&s->host, s->o->snapshot_signal, e);
	if (!r)
		r = open_kernel(s, e);
	if (!r)
		r = open_trace(s, e); /* before there is a second thread */
	if (!r)
		r = open_objects(s, e);
	if (!r)
		r = open_consumer(s, e);
	if (r)
		return r;
	hidden = spoor_targets_hidden(t);
	if (hidden && s->o->hidden)
		s->o->hidden(s->o, hidden);
	s->host.hurry = true;
	s->host.make_room = make_room;
	s->host.ctx = s;
	s->host.duration_ns = s->o->duration_ns;
	r = spoor_host_attach(&s->host, e);
	if (r)
		return r;
	spoor_consumer_clock(s->consumer);
	r = spoor_host_go(&s->host, capabilities(s->o), e);
	if (r || t->argv)
		return r;
	/* Who is told that it is under way may end a target at once, and must not take a hang's stack with it. */
	spoor_host_settle(&s->host, SETTLE_NS, drain, s);
	spoor_writer_repeated(s->writer); /* what was there when it began makes no segment full, either */
	if (s->o->ready)
		s->o->ready(s->o, s->host.attached);
	return 0;
}

/* ---- running ---- */

static void say_progress(struct session *s)
{
	struct spoor_consumer_counts c;
	uint64_t now = spoor_now_monotonic();

	if (!s->o->progress || now - s->said < SPOOR_NS_PER_SEC / 2)
		return;
	s->said = now;
	spoor_consumer_counts(s->consumer, &c);
	s->o->progress(s->o, now - s->host.began, c.events, c.discarded, spoor_writer_bytes(s->writer));
}

/*
 * A snapshot is whole segments: the one being written is ended, then all that are kept are linked into a trace of their
 * own beside this one.
 */
static void take_snapshot(struct session *s)
{
	char path[PATH_MAX];
	size_t len = strlen(s->o->output), dot = len > 6 && !strcmp(s->o->output + len - 6, ".spoor") ? len - 6 : len;
	int r;

	s->no_snapshot = (struct spoor_error){ "" };
	do
		snprintf(path, sizeof(path), "%.*s.snapshot-%u.spoor", (int)dot, s->o->output, ++s->n_snapshots);
	while (!access(path, F_OK));
	r = spoor_writer_snapshot(s->writer, path, &s->no_snapshot);
	say(s, "%s%s", r ? "no snapshot: " : "snapshot in ", r ? s->no_snapshot.text : path);
}

/* Two segments, and what both are told while one ends, must fit below --max-size: else some hangs are missing. */
static void say_crowded(struct session *s, uint64_t lost)
{
	if (!lost || !s->o->max_size || s->said_crowded)
		return;
	s->said_crowded = true;
	say(s, "%lu %s found no room below --max-size as a segment was told of the calls under way: give it more", lost,
	    spoor_plural(lost, "event", "events"));
}

/* The new segment has all that it needs, whatever older ones are dropped; that alone makes it no fuller. */
static void repeat(struct session *s)
{
	uint64_t lost = spoor_writer_lost_told(s->writer);

	s->untold = spoor_kernel_repeat(s->host.kernel, spoor_writer_lasting(s->writer));
	if (!s->untold)
		spoor_consumer_repeated(s->consumer);
	drain(s);
	if (s->untold >= 0)
		spoor_writer_repeated(s->writer);
	say_crowded(s, spoor_writer_lost_told(s->writer) - lost);
}

static void begin_segment(struct session *s)
{
	bool snapshot = s->snapshot;
	struct spoor_error e = { "" };

	s->snapshot = false;
	if (!spoor_consumer_rotate(s->consumer, &e)) {
		s->ending = snapshot;
		spoor_user_part_segment(&s->user);
		repeat(s);
	} else if (snapshot) {
		s->no_snapshot = e;
		say(s, "no snapshot: %s", s->no_snapshot.text);
	}
}

/*
 * Never to a further segment before this one has been told of all (but where nothing can be told): older ones, which
 * were, may be dropped.
 */
static void rotate(struct session *s)
{
	if (s->untold)
		repeat(s);
	if (spoor_consumer_rotating(s->consumer))
		return;
	if (s->ending) {
		s->ending = false;
		take_snapshot(s);
	}
	if (s->untold > 0)
		return;
	if (s->snapshot || spoor_writer_should_rotate(s->writer, spoor_now_monotonic()))
		begin_segment(s);
}

/*
 * What the targets do already when a setting lets it in. As at attach: who is told that this is done may end them at
 * once, and must not take a hang's stack with it.
 */
static int meet(struct session *s, struct spoor_error *e)
{
	long n = spoor_kernel_meet(s->host.kernel);

	if (n > 0)
		spoor_host_settle(&s->host, SETTLE_NS, drain, s);
	return n < 0 ? spoor_fail(e, -n, "done, but which calls are under way cannot be told: %s", strerror(-n)) : 0;
}

/* Who is told that it is done wants to have it. */
static int snapshot_now(struct session *s, struct spoor_error *e)
{
	uint64_t until = spoor_now_monotonic() + SNAPSHOT_NS;

	s->no_snapshot = (struct spoor_error){ "" };
	s->snapshot = true;
	while ((s->snapshot || s->ending) && !s->host.stop && spoor_now_monotonic() < until) {
		usleep(1000);
		spoor_user_part_serve(&s->user);
		drain(s);
		rotate(s);
	}
	if (s->host.stop && (s->snapshot || s->ending))
		return spoor_fail(e, EIO, "no snapshot: the recording ends");
	if (s->snapshot || s->ending)
		return spoor_fail(e, ETIMEDOUT, "the snapshot takes long: the recording says when it is there");
	return s->no_snapshot.text[0] ? spoor_fail(e, EIO, "no snapshot: %s", s->no_snapshot.text) : 0;
}

static int on_command(void *ctx, const char *text, bool check, struct spoor_error *e)
{
	struct session *s = ctx;
	int r;

	if (!strcmp(text, "snapshot")) {
		if (!s->o->snapshot_signal)
			return spoor_fail(e, EINVAL,
					  "snapshots are of flight recorders: start with --snapshot-on SIGNAL");
		return check ? 0 : snapshot_now(s, e);
	}
	if (check)
		return spoor_settings_check(&s->settings, text, e);
	r = spoor_settings_apply(&s->settings, text, e);
	return r ? r : meet(s, e);
}

static void run(struct session *s)
{
	while (!s->host.stop) {
		unsigned look = spoor_consumer_rotating(s->consumer) ? ROTATING_MS : SPOOR_LOOK_MS;
		struct spoor_host_news news;
		int soon = spoor_user_part_serve(&s->user);

		s->host.also_fd = spoor_user_part_fd(&s->user);
		news = spoor_host_wait(&s->host, s->remote_fd, UINT64_MAX, soon >= 0 && soon < (int)look ? soon : look);
		if (news.other_signal)
			s->snapshot = true;
		if (news.fd)
			spoor_remote_serve(s->remote_fd, on_command, s);
		drain(s);
		if (spoor_rescue_killed(&s->rescue))
			say(s, "trace-rescue was killed; if spoor is killed as well, the last %d ms will be missing",
			    SPOOR_LOOK_MS);
		spoor_settings_govern(&s->settings, spoor_now_monotonic());
		rotate(s);
		say_progress(s);
		spoor_host_see_end(&s->host, spoor_now_monotonic());
	}
}

/* ---- ending ---- */

static void define_counter(struct session *s, const char *name, uint64_t value)
{
	spoor_define_counter(s->writer, spoor_writer_define, spoor_now_monotonic(), name, value);
}

static const char *const status_words[SPOOR_WALK_STATUS_MAX] = { "complete",  "budget", "no_rows", "unreadable",
								 "truncated", "gone",   "lost",    "busy",
								 "guessed" };

static void define_counters(struct session *s)
{
	const struct spoor_session_result *r = s->result;
	char name[56];

	for (int i = 0; i < SPOOR_WALK_STATUS_MAX; i++) {
		snprintf(name, sizeof(name), "walks_kernel_%s", status_words[i]);
		define_counter(s, name, r->kernel.walks[i]);
		snprintf(name, sizeof(name), "walks_user_%s", status_words[i]);
		define_counter(s, name, r->objects.walks[i]);
	}
	define_counter(s, "walks_raw", r->kernel.raw);
	define_counter(s, "walks_lost", r->kernel.raw_lost + r->objects.overflow);
	define_counter(s, "walks_remembered", r->kernel.remembered);
	define_counter(s, "frames", r->kernel.frames);
	define_counter(s, "row_cache_hits",
		       r->kernel.frames > r->kernel.row_misses ? r->kernel.frames - r->kernel.row_misses : 0);
	define_counter(s, "row_cache_misses", r->kernel.row_misses);
	define_counter(s, "threads_not_recorded", r->kernel.thread_misses);
	define_counter(s, "discarded", r->consumer.discarded);
	define_counter(s, "nested", r->consumer.nested);
	define_counter(s, "ring_damages", r->consumer.damaged);
	define_counter(s, "events", r->consumer.events);
	define_counter(s, "objects_loaded", r->objects.loaded);
	define_counter(s, "objects_without_memory", r->objects.no_memory);
	define_counter(s, "objects_failed", r->objects.failed);
	define_counter(s, "objects_full", r->full);
	define_counter(s, "objects_without_rows", r->objects.no_rows);
	define_counter(s, "spoor_user_ns", r->user_ns);
	define_counter(s, "spoor_system_ns", r->system_ns);
	define_counter(s, "program_ns", r->program_ns);
	define_counter(s, "program_runs", r->program_runs);
	define_counter(s, "kernel_bytes", r->kernel_bytes);
	define_counter(s, "memory_in_place", spoor_kernel_in_place(s->host.kernel));
}

static uint64_t ns_of(struct timeval tv)
{
	return tv.tv_sec * SPOOR_NS_PER_SEC + tv.tv_usec * 1000ULL;
}

static void end(struct session *s)
{
	struct spoor_session_result *r = s->result;
	uint64_t until;
	struct rusage ru;

	spoor_host_await_command(&s->host, drain, s);
	if (s->snapshot || s->ending)
		say(s, "no snapshot: the recording ended before its segment did");
	spoor_user_part_end(&s->user, &r->user, make_room, s);
	spoor_consumer_ends(s->consumer);
	until = spoor_now_monotonic() + END_NS;
	spoor_kernel_meet(s->host.kernel); /* who was at work in a call at attach, and came to sleep in it later */
	for (int i = 0; i < MOST_MEETINGS; i++) {
		drain(s); /* there was no room to tell of them all, say */
		if (!spoor_kernel_retake(s->host.kernel))
			break;
	}
	while (spoor_kernel_flush_pending(s->host.kernel) > 0 && spoor_now_monotonic() < until)
		drain(s);
	spoor_kernel_detach(s->host.kernel);
	spoor_host_settle(&s->host, END_NS, drain, s);
	spoor_consumer_clock(s->consumer);

	r->end = s->host.end;
	r->wait_status = s->host.wait_status;
	r->duration_ns = spoor_now_monotonic() - s->host.began;
	getrusage(RUSAGE_SELF, &ru);
	r->user_ns = ns_of(ru.ru_utime);
	r->system_ns = ns_of(ru.ru_stime);
	spoor_consumer_counts(s->consumer, &r->consumer);
	spoor_objects_counts(s->host.objects, &r->objects);
	spoor_kernel_stats(s->host.kernel, &r->kernel);
	r->full = spoor_kernel_is_full(s->host.kernel);
	spoor_kernel_run_time(s->host.kernel, &r->program_ns, &r->program_runs);
	r->overhead = s->settings.unheld;
	r->kernel_bytes = spoor_kernel_memory(s->host.kernel);
	define_counters(s);
}

int spoor_session_run(const struct spoor_session_options *o, struct spoor_session_result *ret, struct spoor_error *e)
{
	struct session s = { .o = o, .result = ret, .host.signal_fd = -1, .remote_fd = -1, .settings.stats_fd = -1 };
	struct spoor_error close_error = {};
	int r;

	memset(ret, 0, sizeof(*ret));
	r = begin(&s, e);
	if (!r) {
		run(&s);
		end(&s);
	}
	spoor_command_drop(&s.host.command);
	spoor_user_part_close(&s.user);
	if (s.writer) {
		int c;

		ret->consumer.discarded += spoor_writer_lost(s.writer);
		ret->bytes = spoor_writer_bytes(s.writer);
		ret->dropped = spoor_writer_dropped(s.writer);
		c = spoor_writer_close(s.writer, &close_error);
		if (c && !ret->warning[0])
			snprintf(ret->warning, sizeof(ret->warning), "%s", close_error.text);
		if (r) /* nothing was recorded: the next try may use the name */
			spoor_remove_tree(o->output);
	}
	spoor_rescue_stop(&s.rescue);
	spoor_consumer_free(s.consumer);
	spoor_settings_done(&s.settings);
	if (s.remote_fd >= 0)
		spoor_fds_hush(s.remote_fd);
	spoor_host_done(&s.host);
	spoor_ledger_free(s.ledger);
	return r;
}
