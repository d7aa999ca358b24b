/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/counting.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"

#define LOOK_MS 200         /* so often it is seen whether the targets are gone */
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
		.match_all = o->targets.all,
		.match_names = o->targets.n_names,
		.cgroup = o->targets.cgroup,
	};
	int r = spoor_kernel_open(&ko, &c->kernel, e);

	if (r)
		return r;
	spoor_kernel_set_calls(c->kernel, &o->filter, o->by_site ? o->mode : SPOOR_MODE_NONE, o->budget);
	r = spoor_kernel_set_names(c->kernel, o->targets.names, o->targets.n_names, e);
	if (r)
		return r;
	r = spoor_counts_new(c->kernel, o->by_process, o->each_exit, &c->counts);
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
		.kernel = c->kernel,
		.app = &o->app,
		.custom = &none,
		.cache_dir = o->cache_dir,
		.max_row_bytes = o->row_memory,
	};
	int r;

	if (!o->by_site)
		return 0;
	r = spoor_objects_new(&oo, &c->objects, e);
	if (!r)
		r = spoor_site_stacks_new(c->kernel, c->objects, &c->sites);
	if (!r)
		spoor_counts_name_stacks(c->counts, stack_of, c->sites);
	return r;
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
	c->host.kernel = c->kernel;
	c->host.objects = c->objects;
	spoor_host_block_signals(&c->host, 0);
	r = spoor_host_attach(&c->host, e);
	if (!r)
		r = spoor_host_go(&c->host, false, e);
	if (!r && c->sites && !o->targets.argv)
		spoor_site_stacks_settle(c->sites); /* who sleeps now can be looked at now */
	if (!r && o->ready && !o->targets.argv)
		o->ready(o->ctx, c->host.attached);
	return r;
}

/* ---- running ---- */

struct clocks {
	uint64_t until, next, collected; /* the end; the next look; when ended processes were taken last */
};

static int wait_ms(const struct clocks *k, uint64_t now)
{
	uint64_t first = k->until < k->next ? k->until : k->next;

	if (first <= now)
		return 0;
	return first - now < LOOK_MS * 1000000ULL ? (first - now) / 1000000 + 1 : LOOK_MS;
}

static void hand_out_finals(struct spoor_counting *c, const struct spoor_counting_options *o)
{
	if (!o->each_exit)
		return;
	if (c->sites)
		spoor_site_stacks_settle(c->sites);
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

static void check_end(struct spoor_counting *c, const struct clocks *k, uint64_t now)
{
	if (c->host.stop)
		return;
	if (now >= k->until)
		c->host.end = SPOOR_END_DURATION;
	else if (spoor_host_targets_gone(&c->host))
		c->host.end = SPOOR_END_TARGETS;
	else
		return;
	c->host.stop = true;
}

static int look(struct spoor_counting *c, const struct spoor_counting_options *o, enum spoor_counting_why why)
{
	if (c->sites && (why == SPOOR_COUNTING_END || !o->on_fd))
		spoor_site_stacks_settle(c->sites); /* else somebody waits at a keyboard */
	return o->look(o->ctx, c, why);
}

static int run(struct spoor_counting *c, const struct spoor_counting_options *o)
{
	struct clocks k = { .until = o->duration_ns ? c->host.began + o->duration_ns : UINT64_MAX,
			    .next = o->interval_ns ? c->host.began + o->interval_ns : UINT64_MAX };
	bool ended = false; /* processes have, and were not collected yet */
	int r = 0;

	while (!c->host.stop && !r) {
		struct pollfd fds[] = {
			{ .fd = c->host.signal_fd, .events = POLLIN },
			{ .fd = spoor_kernel_wakeup_fd(c->kernel), .events = POLLIN },
			{ .fd = o->on_fd ? o->fd : -1, .events = POLLIN },
			{ .fd = c->objects ? spoor_objects_fd(c->objects) : -1, .events = POLLIN },
		};
		uint64_t now = spoor_now_monotonic();

		poll(fds, 4, ended && wait_ms(&k, now) > COLLECT_MS ? COLLECT_MS : wait_ms(&k, now));
		now = spoor_now_monotonic();
		if (fds[0].revents)
			spoor_host_signals(&c->host);
		if (fds[1].revents) {
			spoor_kernel_wakeup_drain(c->kernel);
			ended = true;
		}
		spoor_kernel_retake(c->kernel);
		if (fds[2].revents && o->on_fd && !o->on_fd(o->ctx, c)) {
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
		check_end(c, &k, now);
	}
	return r;
}

uint64_t spoor_counting_lost_threads(const struct spoor_counting *c)
{
	struct spoor_kernel_stats stats;

	spoor_kernel_stats(c->kernel, &stats);
	return stats.thread_misses;
}

static uint64_t lost_stacks(const struct spoor_counting *c)
{
	struct spoor_objects_counts objects;
	struct spoor_kernel_stats stats;

	if (!c->sites)
		return 0;
	spoor_kernel_stats(c->kernel, &stats);
	spoor_objects_counts(c->objects, &objects);
	return stats.raw_lost + objects.overflow + spoor_site_stacks_lost(c->sites);
}

static int end(struct spoor_counting *c, const struct spoor_counting_options *o, struct spoor_counting_result *ret)
{
	int r;

	spoor_host_await_command(&c->host);
	if (o->each_exit) {
		spoor_counts_collect(c->counts);
		hand_out_finals(c, o);
	}
	r = look(c, o, SPOOR_COUNTING_END);
	spoor_kernel_detach(c->kernel);
	ret->end = c->host.end;
	ret->wait_status = c->host.wait_status;
	ret->lost_threads = spoor_counting_lost_threads(c);
	ret->lost_stacks = lost_stacks(c);
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
	spoor_counts_free(c.counts);
	spoor_site_stacks_free(c.sites);
	spoor_objects_free(c.objects);
	spoor_kernel_close(c.kernel);
	spoor_host_done(&c.host);
	return r;
}
