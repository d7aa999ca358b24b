/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/host.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/process.h"
#include "base/signals.h"
#include "base/time.h"
#include "collect/session/check.h"
#include "collect/session/privileges.h"

int spoor_host_check(struct spoor_host *h, const struct spoor_targets *t, struct spoor_error *e)
{
	int r;

	*h = (struct spoor_host){ .targets = t, .signal_fd = -1, .also_fd = -1 };
	spoor_descriptors_raise();
	if (!spoor_check_proc_there())
		return spoor_fail(e, ENOENT, "/proc is not mounted, or is another pid namespace's: " SPOOR_PROC_ADVICE);
	if (!spoor_clocks_are_the_kernels())
		return spoor_fail(e, EINVAL, SPOOR_CLOCKS_WRONG ": " SPOOR_CLOCKS_ADVICE);
	r = spoor_targets_check(t, h->cmd_path, e);
	return r ? r : spoor_privileges_check(e);
}

int spoor_host_open(struct spoor_host *h, struct spoor_kernel_options *ko, struct spoor_error *e)
{
	const struct spoor_targets *t = h->targets;
	int r, nice;

	ko->match_all = t->all;
	ko->match_names = t->n_names;
	ko->cgroup = t->cgroup;
	nice = spoor_privileges_ahead();
	r = spoor_kernel_open(ko, &h->kernel, e); /* the kernel's verifier is what takes so long */
	spoor_privileges_back(nice);
	return r ? r : spoor_kernel_set_names(h->kernel, t->names, t->n_names, e);
}

int spoor_host_block_signals(struct spoor_host *h, int other, struct spoor_error *e)
{
	h->signal_fd = spoor_signals_watch(other, e);
	return h->signal_fd < 0 ? h->signal_fd : 0;
}

int spoor_host_attach(struct spoor_host *h, struct spoor_error *e)
{
	const struct spoor_targets *t = h->targets;
	int r;

	if (h->objects)
		spoor_targets_preload(t, h->cmd_path, h->objects);
	if (t->argv) {
		r = spoor_command_fork(t->argv, h->cmd_path, &h->command, e);
		if (r)
			return r;
		spoor_kernel_pick(h->kernel, h->command.pid,
				  SPOOR_PICK_WAIT_EXEC | (t->follow ? SPOOR_PICK_FOLLOW : 0));
	}
	if (h->hurry)
		spoor_privileges_hurry(true);
	r = spoor_kernel_attach(h->kernel, e);
	if (!r)
		h->began = spoor_now_monotonic();
	return r;
}

int spoor_host_go(struct spoor_host *h, uint64_t keep, struct spoor_error *e)
{
	const struct spoor_targets *t = h->targets;

	if (t->argv) {
		long r = spoor_kernel_take_in(h->kernel);

		spoor_kernel_end_attach(h->kernel);
		spoor_privileges_drop(keep);
		return r < 0 ? r : spoor_command_go(&h->command, e);
	}
	spoor_privileges_drop(keep);
	h->attached = spoor_targets_take_in(t, h->kernel, h->make_room, h->ctx);
	if (h->attached == -ESRCH)
		return spoor_fail(e, ESRCH, "-p %d%s: %s", t->pids[0], t->n_pids > 1 ? ", and the others" : "",
				  spoor_process_start(t->pids[0]) ? "the kernel does not show it to Spoor" :
								    "ended before Spoor was attached to it");
	if (h->attached < 0)
		return spoor_fail(e, -h->attached, "cannot list the tasks: %s", strerror(-h->attached));
	return 0;
}

/* Reads what signals there are. Returns whether `other` was among them. */
static bool take_signals(struct spoor_host *h)
{
	struct signalfd_siginfo si;
	bool other = false;

	while (read(h->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGCHLD) {
			int status;

			if (h->command.pid && waitpid(h->command.pid, &status, WNOHANG) == h->command.pid) {
				h->wait_status = status;
				h->end = SPOOR_END_COMMAND;
				h->command.pid = 0;
				h->stop = true;
			}
			continue;
		}
		if (si.ssi_signo != SIGINT && si.ssi_signo != SIGTERM && si.ssi_signo != SIGHUP) {
			other = true;
			continue;
		}
		h->end = SPOOR_END_SIGNAL;
		h->stop = true;
	}
	return other;
}

static int wait_ms(const struct spoor_host *h, uint64_t until_ns, unsigned most_ms)
{
	uint64_t now = spoor_now_monotonic(), end = h->duration_ns ? h->began + h->duration_ns : UINT64_MAX;

	if (until_ns > end)
		until_ns = end;
	if (until_ns <= now)
		return 0;
	return until_ns - now < most_ms * 1000000ULL ? (until_ns - now) / 1000000 + 1 : most_ms;
}

struct spoor_host_news spoor_host_wait(struct spoor_host *h, int fd, uint64_t until_ns, unsigned most_ms)
{
	struct pollfd fds[] = {
		{ .fd = h->signal_fd, .events = POLLIN },
		{ .fd = spoor_kernel_wakeup_fd(h->kernel), .events = POLLIN },
		{ .fd = fd, .events = POLLIN },
		{ .fd = h->objects ? spoor_objects_fd(h->objects) : -1, .events = POLLIN },
		{ .fd = h->also_fd, .events = POLLIN },
	};
	struct spoor_host_news news = {};

	poll(fds, 5, wait_ms(h, until_ns, most_ms));
	if (fds[0].revents)
		news.other_signal = take_signals(h);
	if (fds[1].revents)
		spoor_kernel_wakeup_drain(h->kernel);
	news.kernel = fds[1].revents;
	news.fd = fds[2].revents;
	spoor_kernel_retake(h->kernel);
	return news;
}

static bool targets_gone(const struct spoor_host *h)
{
	const struct spoor_targets *t = h->targets;

	return t->n_pids && !t->n_names && !t->cgroup && !t->all && spoor_kernel_live_threads(h->kernel) <= 0;
}

void spoor_host_see_end(struct spoor_host *h, uint64_t now)
{
	if (h->stop)
		return;
	if (h->duration_ns && now >= h->began + h->duration_ns)
		h->end = SPOOR_END_DURATION;
	else if (targets_gone(h))
		h->end = SPOOR_END_TARGETS;
	else
		return;
	h->stop = true;
}

void spoor_host_settle(struct spoor_host *h, uint64_t most_ns, bool (*drain)(void *ctx), void *ctx)
{
	uint64_t until = spoor_now_monotonic() + most_ns;

	while ((drain(ctx) || spoor_objects_waiting(h->objects)) && spoor_now_monotonic() < until)
		usleep(1000);
	drain(ctx); /* what the loader has unwound meanwhile */
}

struct awaiting {
	struct spoor_host *host;
	bool (*drain)(void *ctx);
	void *ctx;
};

static void serve(void *ctx)
{
	struct awaiting *a = ctx;

	a->drain(a->ctx);
	take_signals(a->host);
}

void spoor_host_await_command(struct spoor_host *h, bool (*drain)(void *ctx), void *ctx)
{
	if (h->end != SPOOR_END_SIGNAL)
		return;
	take_signals(h);
	spoor_command_await(&h->command, serve, &(struct awaiting){ h, drain, ctx });
}

void spoor_host_done(struct spoor_host *h)
{
	spoor_objects_free(h->objects);
	spoor_kernel_close(h->kernel);
	if (h->signal_fd >= 0)
		close(h->signal_fd);
}
