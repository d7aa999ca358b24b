/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/threads.h"

#include <dirent.h>
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"

#define NOBODYS (1u << 22) /* from here on the kernel gives no thread a number (PID_MAX_LIMIT) */
#define TIDS (1u << 29)    /* of events, which have 29 bits for it */
#define MOST_THREADS (1u << 20) /* of one program: a hostile one makes tids up */
#define FEW_THREADS 1024
#define REST 9                  /* times as long as a look that found nothing: so long there is none, */
#define AT_ONCE 200000000ULL    /* ns: but for so much of them at once */

struct thread {
	uint32_t called, tid; /* by the program, by the host; called 0: no thread */
	bool met, defined;    /* in this segment */
};

struct spoor_source_threads {
	struct thread *all; /* by a hash of `called`, open addressing */
	size_t n, size;     /* size: a power of two */
	size_t undefined;
	struct thread last;
	uint64_t rest; /* ns: until then, for looks that found nothing */
};

static void forget_all(struct spoor_source *s)
{
	if (s->threads)
		free(s->threads->all);
	free(s->threads);
	s->threads = NULL;
}

void spoor_source_done(struct spoor_source *s)
{
	forget_all(s);
	spoor_user_arena_free(s->arena);
	spoor_user_addresses_free(s->addresses);
	if (s->own_clock) {
		spoor_user_clock_done(s->clock);
		free(s->clock);
	}
	*s = (struct spoor_source){};
}

static struct thread *slot(struct spoor_source_threads *t, uint32_t called)
{
	size_t i = called * 2654435761u & (t->size - 1);

	while (t->all[i].called && t->all[i].called != called)
		i = (i + 1) & (t->size - 1);
	return &t->all[i];
}

static int grow(struct spoor_source_threads *t)
{
	struct spoor_source_threads bigger = *t;

	if (t->n * 2 < t->size)
		return 0;
	bigger.size = t->size ? t->size * 2 : 16;
	bigger.all = calloc(bigger.size, sizeof(*bigger.all));
	if (!bigger.all)
		return -ENOMEM;
	for (size_t i = 0; i < t->size; i++)
		if (t->all[i].called)
			*slot(&bigger, t->all[i].called) = t->all[i];
	free(t->all);
	*t = bigger;
	return 0;
}

/* The last number in the line NSpid of a status file: what the innermost namespace calls the thread. 0: none. */
static uint32_t innermost(const char *path)
{
	_cleanup_(spoor_fclosep) FILE *f = fopen(path, "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		char *at = strrchr(line, '\t');

		if (!strncmp(line, "NSpid:", 6))
			return at ? strtoul(at, NULL, 10) : 0;
	}
	return 0;
}

/* The host's tid of a thread of another pid namespace. */
static uint32_t find_foreign(uint32_t pid, uint32_t called)
{
	char path[64];
	struct dirent *d;
	uint32_t found = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	dir = opendir(path);
	while (dir && !found && (d = readdir(dir))) {
		uint32_t tid = strtoul(d->d_name, NULL, 10);

		snprintf(path, sizeof(path), "/proc/%u/task/%u/status", pid, tid);
		if (tid && innermost(path) == called)
			found = tid;
	}
	if (dir)
		closedir(dir);
	return found;
}

/*
 * Of a thread that has ended nobody can say what the host called it; and what it called itself others are called, too:
 * 1 and on in each namespace. The first number is any, for the recorder before us had such ones.
 */
uint32_t spoor_nobodys_tid(void)
{
	static uint32_t last;

	if (!last && getrandom(&last, sizeof(last), GRND_NONBLOCK) != sizeof(last))
		last = getpid();
	return NOBODYS + ++last % (TIDS - NOBODYS);
}

/*
 * Who makes numbers up would have us look through all his threads for each. Threads that have ended before they were
 * looked for are not found either, but seldom many.
 */
static uint32_t find_in_time(const struct spoor_source *s, uint32_t called)
{
	struct spoor_source_threads *t = s->threads;
	uint64_t began = spoor_now_monotonic();
	uint32_t tid;

	if (!s->live || t->rest > began + REST * AT_ONCE)
		return 0;
	tid = find_foreign(s->pid, called);
	if (!tid)
		t->rest = (t->rest > began ? t->rest : began) + (REST + 1) * (spoor_now_monotonic() - began);
	return tid;
}

struct number {
	uint32_t tid;
	const struct spoor_source *source; /* the last one to have it */
};

static int by_tid(const void *a, const void *b)
{
	const struct number *x = a, *y = b;

	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

/* Processes of different numbers, which different namespaces gave them, at one time. */
static bool are_apart(const struct spoor_source *a, const struct spoor_source *b)
{
	const struct spoor_arena *x = &a->arena->head, *y = &b->arena->head;

	return x->pid_ns && y->pid_ns && x->pid_ns != y->pid_ns && x->pid != y->pid && x->made < b->until &&
	       y->made < a->until;
}

/* Without memory for it a number is what it is called. */
static uint32_t own_number(const struct spoor_source *s, uint32_t called)
{
	struct number *new = calloc(1, sizeof(*new)), **at;

	if (!new)
		return called;
	*new = (struct number){ called, s };
	at = tsearch(new, s->numbers, by_tid);
	if (!at || *at != new)
		free(new);
	if (!at)
		return called;
	if (are_apart((*at)->source, s))
		return spoor_nobodys_tid();
	(*at)->source = s;
	return called;
}

static uint32_t host_tid(const struct spoor_source *s, uint32_t called)
{
	uint32_t tid;

	if (!s->foreign || !s->pid)
		return s->numbers ? own_number(s, called) : called;
	if (called == s->arena->head.pid)
		return s->pid;
	tid = find_in_time(s, called);
	return tid ? tid : spoor_nobodys_tid();
}

uint32_t spoor_source_tid(struct spoor_source *s, uint32_t tid)
{
	struct spoor_source_threads *t = s->threads;
	struct thread *at;

	if (t && t->last.called == tid && tid)
		return t->last.tid;
	if (!tid)
		return 0;
	if (!t)
		t = s->threads = calloc(1, sizeof(*t));
	if (!t || t->n >= MOST_THREADS || grow(t))
		return tid;
	at = slot(t, tid);
	if (!at->called) {
		*at = (struct thread){ .called = tid, .tid = host_tid(s, tid) };
		t->n++;
	}
	t->undefined += !at->met;
	at->met = true;
	t->last = *at;
	return at->tid;
}

/* ---- definitions ---- */

static uint64_t from_ticks(uint64_t ticks)
{
	uint64_t ns = ticks * (SPOOR_NS_PER_SEC / sysconf(_SC_CLK_TCK)), less = spoor_suspended();

	return ns > less ? ns - less : 0;
}

/* What /proc says of it; false: it is gone. */
static bool ask(uint32_t pid, uint32_t tid, struct spoor_thread *def)
{
	_cleanup_(spoor_fclosep) FILE *f = NULL;
	char path[64], line[1024], *open, *close;
	unsigned long long start;
	unsigned ppid;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/stat", pid, tid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(line, 1, sizeof(line) - 1, f);
	line[n] = '\0';
	open = strchr(line, '(');
	close = strrchr(line, ')');
	if (!open || !close || close < open)
		return false;
	if (sscanf(close + 1, " %*c %u %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &ppid,
		   &start) != 2)
		return false;
	def->ppid = ppid;
	def->start = from_ticks(start);
	n = close - open - 1;
	memset(def->comm, 0, sizeof(def->comm));
	memcpy(def->comm, open + 1, n < sizeof(def->comm) - 1 ? n : sizeof(def->comm) - 1);
	return true;
}

static void define(struct spoor_source *s, struct spoor_writer *w, const struct thread *t, uint64_t ts)
{
	const struct spoor_arena *h = &s->arena->head;
	struct {
		struct spoor_thread t;
		char padding[3];
	} __attribute__((packed, aligned(4))) def = {};

	def.t.h.id = SPOOR_EV_THREAD;
	def.t.h.size4 = sizeof(def) / 4;
	def.t.h.ts = ts;
	def.t.h.tid = t->tid;
	def.t.pid = s->pid ? s->pid : h->pid;
	def.t.start = from_ticks(h->start_time);
	memcpy(def.t.comm, h->comm, sizeof(def.t.comm));
	if (s->live)
		ask(def.t.pid, t->tid, &def.t);
	/* The program came here by execve as a rule: who it was before is none of this arena's business. */
	def.t.since = h->made > def.t.start ? h->made : def.t.start;
	def.t.vtid = t->called;
	def.t.why = SPOOR_THREAD_ATTACH;
	spoor_writer_define_user(w, (const void *)&def);
}

void spoor_source_define(struct spoor_source *s, struct spoor_writer *w, uint64_t ts)
{
	struct spoor_source_threads *t = s->threads;

	for (size_t i = 0; t && t->undefined && i < t->size; i++) {
		if (!t->all[i].met || t->all[i].defined)
			continue;
		define(s, w, &t->all[i], ts);
		t->all[i].defined = true;
		t->undefined--;
	}
}

/*
 * Of a thread of another pid namespace that has ended meanwhile nobody can be asked any more what it was called; of
 * very many the ones that wrote nothing of late are let go.
 */
void spoor_source_forget(struct spoor_source *s)
{
	struct spoor_source_threads *t = s->threads, kept = {};

	if (!t || !s->foreign) {
		forget_all(s);
		return;
	}
	kept.rest = t->rest;
	for (size_t i = 0; i < t->size; i++) {
		const struct thread *old = &t->all[i];

		if (!old->called || (t->n > FEW_THREADS && !old->met) || grow(&kept))
			continue;
		*slot(&kept, old->called) = (struct thread){ .called = old->called, .tid = old->tid };
		kept.n++;
	}
	free(t->all);
	*t = kept;
}
