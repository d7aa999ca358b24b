/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The live screen of `spoor stat --watch` over made-up counters: stat_watch PERIOD_MS [SNAPSHOTS [exit]]. Each snapshot
 * has more calls; threads have names that a terminal must not see. Ends with "closed: REASON" on standard output.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "present/stat_watch.h"

static void count(struct spoor_task_counters *t, uint16_t id, uint32_t stack, uint64_t n, uint64_t ns)
{
	struct spoor_call_counters *c = spoor_task_add_call(t, id, stack);

	if (!c)
		abort();
	c->calls = n;
	c->ns = n * ns;
	c->min_ns = c->max_ns = ns;
	c->histogram[spoor_histogram_bucket(ns)] = n;
}

static void make(struct spoor_counters *c, uint64_t round)
{
	static const char *const comms[] = { "main", "\033[31mred", "wor\nker", "\xff\xfe", "na\xc3\xafve" };

	*c = (struct spoor_counters){ .at_ns = round * SPOOR_NS_PER_SEC };
	for (int i = 0; i < 60; i++) {
		struct spoor_task_counters *t = spoor_counters_add_task(c);

		if (!t)
			abort();
		t->pid = 4000 + i / 10 * 10;
		t->tid = 4000 + i;
		t->start_ns = (uint64_t)t->tid;
		t->process_start_ns = (uint64_t)t->pid;
		t->threads = 1;
		memcpy(t->comm, comms[i % 5], strlen(comms[i % 5]));
		count(t, 0, 1, round * (uint64_t)(i + 1), 1000);
		count(t, 110, 2, round * 1009, 67);
		count(t, 1, 0, 1, 5000);
	}
}

static char *site(void *p, pid_t pid, uint32_t stack)
{
	return strdup(stack == 1 ? "main app.c:5" : "\033]0;evil\a");
}

static const char *run(struct spoor_watch *w, int period, uint64_t most)
{
	for (uint64_t round = 1;; round++) {
		uint64_t until = spoor_now_monotonic() + (uint64_t)period * 1000000, now;
		struct spoor_counters c;

		make(&c, round);
		if (spoor_watch_draw(w, &c) < 0)
			return "terminal gone";
		spoor_counters_done(&c);
		if (most && round == most)
			return "enough";
		while ((now = spoor_now_monotonic()) < until) {
			struct pollfd fd = { .fd = spoor_watch_fd(w), .events = POLLIN };
			enum spoor_watch_action action = SPOOR_WATCH_NONE;

			if (poll(&fd, 1, (int)((until - now) / 1000000) + 1) > 0)
				action = spoor_watch_key(w);
			if (action == SPOOR_WATCH_QUIT)
				return "quit";
			if (action == SPOOR_WATCH_DRAW && spoor_watch_draw(w, NULL) < 0)
				return "terminal gone";
		}
	}
}

int main(int argc, char **argv)
{
	struct spoor_stat_view view = { .blocked = 0, .site = site, .utf8 = (uint8_t)spoor_stat_utf8(), .colour = 1 };
	struct spoor_error e = {};
	struct spoor_watch *w;
	const char *reason;

	if (spoor_watch_open(&view, &w, &e) < 0) {
		fprintf(stderr, "stat_watch: %s\n", e.text);
		return 1;
	}
	reason = run(w, argc > 1 ? atoi(argv[1]) : 1000, argc > 2 ? strtoull(argv[2], NULL, 10) : 0);
	if (argc > 3)
		exit(3); /* without closing: exit() must put the terminal back */
	spoor_watch_close(w);
	printf("closed: %s\n", reason);
	return 0;
}
