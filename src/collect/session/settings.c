/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/settings.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/strings.h"
#include "base/time.h"

#define SAMPLE_NS (100 * 1000000ULL) /* the kernel's count costs two clock readings a program: not always on */
#define EVERY_NS SPOOR_NS_PER_SEC
#define CALM_SAMPLES 10 /* below half the limit before a step up is tried */

/* A change in words, as an event of its own. */
static void write_change(struct spoor_settings *s, const char *text)
{
	struct {
		struct spoor_event_header h;
		char text[496];
	} def = { .h.id = SPOOR_EV_CONFIG, .h.ts = spoor_now_monotonic() };

	snprintf(def.text, sizeof(def.text), "%s", text);
	def.h.size4 = SPOOR_SIZE4(sizeof(def.h) + strlen(def.text) + 1);
	spoor_writer_define(s->writer, &def.h);
}

static void use(struct spoor_settings *s)
{
	spoor_kernel_set_calls(s->kernel, &s->filter, s->mode, s->most_now, s->budget);
}

/* The last in the order of their numbers, in which all but none and app count alike: no other is stepped to. */
static enum spoor_mode last_mode(const struct spoor_settings *s)
{
	enum spoor_mode most = SPOOR_MODE_MAX - 1;

	while (most > SPOOR_MODE_NONE && !spoor_filter_uses(&s->filter, most) &&
	       !(most == s->mode && spoor_filter_has_default(&s->filter)))
		most--;
	return most;
}

/* Modes have changed. What was lowered stays so. */
static void see_modes(struct spoor_settings *s)
{
	bool lowered = s->most_now < s->most;

	s->most = last_mode(s);
	if (!lowered || s->most_now > s->most)
		s->most_now = s->most;
}

void spoor_settings_init(struct spoor_settings *s, struct spoor_kernel *k, struct spoor_writer *w,
			 const struct spoor_filter *f, enum spoor_mode mode, unsigned budget, unsigned limit,
			 bool scoped)
{
	*s = (struct spoor_settings){ .kernel = k,
				      .writer = w,
				      .filter = *f,
				      .mode = mode,
				      .budget = budget,
				      .limit = limit,
				      .most_budget = budget,
				      .scoped = scoped,
				      .stats_fd = -1 };
	see_modes(s);
	use(s);
}

void spoor_settings_done(struct spoor_settings *s)
{
	if (s->stats_fd >= 0)
		close(s->stats_fd);
	s->stats_fd = -1;
}

/* ---- commands ---- */

/* Objects' limits are set as they are loaded, from --scope: without it mode custom takes nothing anywhere. */
static int no_scope(struct spoor_error *e)
{
	return spoor_fail(e, EINVAL, "mode custom: this recording was started without --scope");
}

static int set_mode(struct spoor_settings *s, const char *word, struct spoor_error *e)
{
	int mode = spoor_mode_parse(word, e);

	if (mode < 0)
		return mode;
	if (mode == SPOOR_MODE_CUSTOM && !s->scoped)
		return no_scope(e);
	s->mode = mode;
	see_modes(s);
	s->most_now = s->most;
	return 0;
}

static int set_budget(struct spoor_settings *s, const char *word, struct spoor_error *e)
{
	uint64_t n;

	if (spoor_parse_number(word, 1, SPOOR_MAX_FRAMES, &n))
		return spoor_fail(e, EINVAL, "budget=%s: a number from 1 to %d", word, SPOOR_MAX_FRAMES);
	s->budget = s->most_budget = n;
	return 0;
}

static int set_filter(struct spoor_settings *s, const char *expr, struct spoor_error *e)
{
	struct spoor_filter f;
	int r;

	spoor_filter_init(&f);
	r = spoor_filter_parse_kernel(&f, expr, e);
	if (!r && !s->scoped && spoor_filter_uses(&f, SPOOR_MODE_CUSTOM))
		r = no_scope(e);
	if (!r && spoor_filter_is_empty(&f))
		r = spoor_fail(e, EINVAL, "-e: this leaves no system call to be recorded; pause does that");
	if (r)
		return r;
	s->filter = f;
	see_modes(s);
	return 0;
}

/* In s alone: the kernel side does not know of it yet. */
static int set(struct spoor_settings *s, const char *text, struct spoor_error *e)
{
	int r = 0;

	if (!strcmp(text, "pause") || !strcmp(text, "resume")) {
		s->paused = *text == 'p';
	} else if (!strncmp(text, "mode=", 5)) {
		r = set_mode(s, text + 5, e);
	} else if (!strncmp(text, "budget=", 7)) {
		r = set_budget(s, text + 7, e);
	} else if (!strncmp(text, "e=", 2)) {
		r = set_filter(s, text + 2, e);
	} else {
		r = spoor_fail(e, EINVAL, "--set %.100s: mode=MODE, budget=N, e=EXPR, pause, resume or snapshot", text);
	}
	return r;
}

int spoor_settings_check(const struct spoor_settings *s, const char *text, struct spoor_error *e)
{
	struct spoor_settings copy = *s;

	return set(&copy, text, e);
}

int spoor_settings_understood(const char *text, struct spoor_error *e)
{
	struct spoor_settings any = { .scoped = true };

	spoor_filter_init(&any.filter);
	return !strcmp(text, "snapshot") ? 0 : set(&any, text, e);
}

int spoor_settings_apply(struct spoor_settings *s, const char *text, struct spoor_error *e)
{
	int r = set(s, text, e);

	if (r)
		return r;
	spoor_kernel_set_paused(s->kernel, s->paused);
	use(s);
	write_change(s, text);
	return 0;
}

/* ---- --overhead ---- */

/*
 * From dear to cheap: less call sites, then only the application's, then one, then none. A step up is the reverse,
 * never beyond what the user asked for. It is so for calls that have modes of their own, too.
 */
static bool step_down(struct spoor_settings *s)
{
	if (s->most_now == SPOOR_MODE_NONE)
		return false;
	if (s->most_now == SPOOR_MODE_APP)
		s->most_now = SPOOR_MODE_NONE;
	else if (s->budget > 1)
		s->budget /= 2;
	else
		s->most_now = SPOOR_MODE_APP;
	return true;
}

static bool step_up(struct spoor_settings *s)
{
	if (s->most_now == SPOOR_MODE_NONE && s->most != SPOOR_MODE_NONE)
		s->most_now = SPOOR_MODE_APP;
	else if (s->most_now != s->most) {
		s->most_now = s->most;
		s->budget = 1;
	} else if (s->budget < s->most_budget)
		s->budget = s->budget * 2 < s->most_budget ? s->budget * 2 : s->most_budget;
	else
		return false;
	return true;
}

static void say_step(struct spoor_settings *s)
{
	char text[160];

	snprintf(text, sizeof(text), "overhead %u.%u%% of %u.%u%%: mode=%s budget=%u", s->last / 10, s->last % 10,
		 s->limit / 10, s->limit % 10, spoor_mode_name(s->most_now), s->budget);
	write_change(s, text);
	use(s);
}

/* Which calls are recorded is the user's: what they cost without stacks is the least. */
static void say_unheld(struct spoor_settings *s)
{
	char text[160];

	if (s->last <= s->unheld)
		return;
	if (!s->unheld) {
		snprintf(text, sizeof(text), "overhead %u.%u%% of %u.%u%%: cannot be held, there is nothing to lower",
			 s->last / 10, s->last % 10, s->limit / 10, s->limit % 10);
		write_change(s, text);
	}
	s->unheld = s->last;
}

static void say_unmeasured(struct spoor_settings *s, int error)
{
	char text[160];

	if (s->unmeasured)
		return;
	s->unmeasured = true;
	snprintf(text, sizeof(text), "overhead: not measured, and mode and S stay: %s", strerror(error));
	write_change(s, text);
}

static void judge(struct spoor_settings *s, uint64_t wall)
{
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN); /* others that there might be have no time */
	uint64_t ns, runs;

	spoor_kernel_run_time(s->kernel, &ns, &runs);
	s->last = (ns - s->sample_ns) * 1000 / (wall * (cpus > 0 ? cpus : 1));
	if (s->last > s->limit && s->most_now == SPOOR_MODE_NONE) {
		s->calm = 0;
		say_unheld(s);
	} else if (s->last > s->limit) {
		bool changed = false;

		s->calm = 0;
		for (unsigned i = 0; i < s->last / s->limit && i < 4; i++) /* far above: several at once */
			changed |= step_down(s);
		if (changed)
			say_step(s);
	} else if (s->last * 2 < s->limit && ++s->calm >= CALM_SAMPLES) {
		s->calm = 0;
		if (step_up(s))
			say_step(s);
	}
}

int spoor_settings_can_hold(struct spoor_error *e)
{
	int fd = bpf_enable_stats(BPF_STATS_RUN_TIME);

	if (fd < 0)
		return spoor_fail(e, -fd, "--overhead: the kernel may not be asked how long BPF programs run: %s",
				  fd == -EPERM ? "CAP_SYS_ADMIN is missing" : strerror(-fd));
	close(fd);
	return 0;
}

void spoor_settings_govern(struct spoor_settings *s, uint64_t now)
{
	uint64_t runs;

	if (!s->limit || now < s->next_sample)
		return;
	if (s->stats_fd < 0) {
		s->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
		if (s->stats_fd < 0)
			say_unmeasured(s, -s->stats_fd);
		spoor_kernel_run_time(s->kernel, &s->sample_ns, &runs);
		s->sample_begin = now;
		s->next_sample = now + SAMPLE_NS;
		return;
	}
	s->unmeasured = false;
	judge(s, now - s->sample_begin);
	close(s->stats_fd);
	s->stats_fd = -1;
	s->next_sample = now + EVERY_NS;
}
