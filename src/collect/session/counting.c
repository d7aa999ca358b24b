/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/counting.h"

#include <string.h>
#include <unistd.h>

#include "base/time.h"

#define SETTLE_NS (2 * SPOOR_NS_PER_SEC)
/* For what is still to be unwound at the end: a row compiler that hangs is killed after 11 s, and another one asked. */
#define END_NS (13 * SPOOR_NS_PER_SEC)
#define COLLECT_MS 50       /* what ended processes left is taken at most so often, */
#define SITES_MS 1000       /* and by site so often in any case: what was handed out raw fills the kernel's sums */
#define SMALL_RING 65536    /* only walks write there */
#define SITE_RING (8 << 20) /* of one CPU, while there are few: 256 MiB in all */

static bool all_counted(const struct spoor_filter *f)
{
	for (unsigned id = 0; id < SPOOR_SYSCALL_MAX; id++)
		if (f->mode[id] == SPOOR_FILTER_NONE)
			return false;
	return f->other != SPOOR_FILTER_NONE;
}

static unsigned site_ring(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	unsigned size = SITE_RING;

	while (size > SMALL_RING && (uint64_t)size * cpus * SPOOR_LEVELS > 256 << 20)
		size /= 2;
	return size;
}

static int open_kernel(struct spoor_counting *c, const struct spoor_counting_options *o, struct spoor_error *e)
{
	struct spoor_kernel_options ko = {
		.counting = true,
		.by_process = o->by_process || o->each_exit,
		.no_blocked = o->no_blocked,
		.filtered = !all_counted(&o->filter),
		.by_site = o->by_site,
		.unwind = o->unwind,
		.ring_size = o->by_site ? site_ring() : SMALL_RING,
	};
	int r = spoor_host_open(&c->host, &ko, e);

	if (r)
		return r;
	spoor_kernel_set_calls(c->host.kernel, &o->filter, o->by_site ? o->mode : SPOOR_MODE_NONE, SPOOR_MODE_MAX - 1,
			       o->budget);
	r = spoor_counts_new(c->host.kernel, o->by_process, o->each_exit, &c->counts);
	return r ? spoor_fail(e, -r, "cannot read the counters: %s", strerror(-r)) : 0;
}

static uint32_t stack_of(void *ctx, uint32_t stack, bool now)
{
	return spoor_site_stacks_id(ctx, stack, now);
}

static int open_sites(struct spoor_counting *c, const struct spoor_counting_options *o, struct spoor_error *e)
{
	static const struct spoor_scope none;
	struct spoor_objects_options oo = {
		.kernel = c->host.kernel,
		.app = &o->app,
		.custom = &none,
		.cache_dir = o->cache_dir,
		.max_row_bytes = o->row_memory,
	};
	int r;

	if (!o->by_site)
		return 0;
	r = spoor_objects_new(&oo, &c->host.objects, e);
	if (!r)
		r = spoor_site_stacks_new(c->host.kernel, c->host.objects, &c->sites);
	if (!r)
		spoor_counts_name_stacks(c->counts, stack_of, c->sites);
	return r;
}

static bool drain(void *ctx)
{
	if (ctx)
		spoor_site_stacks_drain(ctx);
	return false;
}

static void make_room(void *ctx)
{
	spoor_site_stacks_drain(ctx);
}

/* Waits a while for stacks that the loader has not unwound yet. */
static void settle(struct spoor_counting *c, uint64_t most_ns)
{
	if (c->sites)
		spoor_host_settle(&c->host, most_ns, drain, c->sites);
}

/* Returns how many raw stacks are still with the loader, whatever it has done meanwhile. */
static uint64_t drain_all(struct spoor_counting *c)
{
	struct spoor_objects_counts before, after;
	int tries = 10; /* targets that go on may make more each time */

	do {
		spoor_objects_counts(c->host.objects, &before);
		drain(c->sites);
		spoor_objects_counts(c->host.objects, &after);
	} while (after.waiting != before.waiting && --tries);
	return after.waiting;
}

static int begin(struct spoor_counting *c, const struct spoor_counting_options *o, struct spoor_error *e)
{
	int r = spoor_host_check(&c->host, &o->targets, e);

	if (!r)
		r = open_kernel(c, o, e);
	if (!r)
		r = open_sites(c, o, e);
	if (r)
		return r;
	c->host.duration_ns = o->duration_ns;
	c->host.make_room = c->sites ? make_room : NULL;
	c->host.ctx = c->sites;
	r = spoor_host_block_signals(&c->host, 0, e);
	if (!r)
		r = spoor_host_attach(&c->host, e);
	if (!r)
		r = spoor_host_go(&c->host, 0, e);
	if (r || o->targets.argv)
		return r;
	settle(c, SETTLE_NS); /* who sleeps now can be looked at now */
	if (o->ready)
		o->ready(o->ctx, c->host.attached);
	return 0;
}

/* ---- running ---- */

struct clocks {
	uint64_t next, collected; /* the next look; when ended processes were taken last */
};

static void hand_out_finals(struct spoor_counting *c, const struct spoor_counting_options *o)
{
	if (!o->each_exit)
		return;
	settle(c, SETTLE_NS);
	o->finals(o->ctx, c);
}

static void collect(struct spoor_counting *c, const struct spoor_counting_options *o, struct clocks *k, uint64_t now)
{
	if (now - k->collected < COLLECT_MS * 1000000ULL)
		return;
	k->collected = now;
	spoor_counts_collect(c->counts);
	hand_out_finals(c, o);
}

static int look(struct spoor_counting *c, const struct spoor_counting_options *o, enum spoor_counting_why why)
{
	if (why == SPOOR_COUNTING_END || !o->on_fd)
		settle(c, SETTLE_NS); /* else somebody waits at a keyboard */
	if (c->sites && why == SPOOR_COUNTING_END)
		c->late = drain_all(c);
	return o->look(o->ctx, c, why);
}

static int run(struct spoor_counting *c, const struct spoor_counting_options *o)
{
	struct clocks k = { .next = o->interval_ns ? c->host.began + o->interval_ns : UINT64_MAX };
	bool ended = false; /* processes have, and were not collected yet */
	int r = 0;

	while (!c->host.stop && !r) {
		struct spoor_host_news news =
			spoor_host_wait(&c->host, o->on_fd ? o->fd : -1, k.next, ended ? COLLECT_MS : SPOOR_LOOK_MS);
		uint64_t now = spoor_now_monotonic();

		ended = ended || news.kernel;
		if (o->on_fd && news.fd && !o->on_fd(o->ctx, c)) {
			c->host.end = SPOOR_END_SIGNAL;
			c->host.stop = true;
		}
		if (c->sites)
			spoor_site_stacks_drain(c->sites);
		if (ended || (c->sites && now - k.collected > SITES_MS * 1000000ULL)) {
			collect(c, o, &k, now);
			ended = k.collected != now;
		}
		if (!c->host.stop && o->interval_ns && now >= k.next) {
			r = look(c, o, SPOOR_COUNTING_INTERVAL);
			k.next += o->interval_ns * ((now - k.next) / o->interval_ns + 1);
		}
		spoor_host_see_end(&c->host, now);
	}
	return r;
}

uint64_t spoor_counting_lost_threads(const struct spoor_counting *c)
{
	struct spoor_kernel_stats stats;

	spoor_kernel_stats(c->host.kernel, &stats);
	return stats.thread_misses;
}

static void count_stacks(const struct spoor_counting *c, struct spoor_counting_result *ret)
{
	struct spoor_objects_counts objects;
	struct spoor_kernel_stats stats;

	if (!c->sites)
		return;
	spoor_kernel_stats(c->host.kernel, &stats);
	spoor_objects_counts(c->host.objects, &objects);
	ret->lost_stacks = stats.raw_lost + objects.overflow + c->late + spoor_site_stacks_lost(c->sites);
	ret->forbidden = objects.forbidden;
}

static int end(struct spoor_counting *c, const struct spoor_counting_options *o, struct spoor_counting_result *ret)
{
	int r;

	spoor_host_await_command(&c->host, drain, c->sites);
	if (c->host.end == SPOOR_END_COMMAND || c->host.end == SPOOR_END_TARGETS) /* others are counted on meanwhile */
		settle(c, END_NS);
	if (o->each_exit) {
		spoor_counts_collect(c->counts);
		hand_out_finals(c, o);
	}
	r = look(c, o, SPOOR_COUNTING_END);
	spoor_kernel_detach(c->host.kernel);
	ret->end = c->host.end;
	ret->wait_status = c->host.wait_status;
	ret->lost_threads = spoor_counting_lost_threads(c);
	count_stacks(c, ret);
	return r;
}

int spoor_counting_run(const struct spoor_counting_options *o, struct spoor_counting_result *ret, struct spoor_error *e)
{
	struct spoor_counting c = { .host.signal_fd = -1 };
	int r;

	memset(ret, 0, sizeof(*ret));
	r = begin(&c, o, e);
	if (!r) {
		int ran = run(&c, o);

		r = end(&c, o, ret);
		r = ran ? ran : r;
	}
	spoor_command_drop(&c.host.command);
	spoor_counts_free(c.counts);
	spoor_site_stacks_free(c.sites);
	spoor_host_done(&c.host);
	return r;
}
