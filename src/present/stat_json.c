/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counters as one object of JSON in one line; docs/stat.md tells the members. */
#include <inttypes.h>
#include <string.h>

#include "base/time.h"
#include "present/stat_internal.h"
#include "present/text.h"
#include "trace/record.h"
#include "trace/syscalls.h"

static void put_seconds(FILE *out, const char *member, uint64_t ns)
{
	fprintf(out, ",\"%s\":%" PRIu64 ".%09" PRIu64, member, ns / SPOOR_NS_PER_SEC, ns % SPOOR_NS_PER_SEC);
}

static void put_histogram(FILE *out, const struct spoor_call_counters *c)
{
	unsigned n = SPOOR_HISTOGRAM;

	while (n && !c->histogram[n - 1])
		n--;
	fputs(",\"histogram\":[", out);
	for (unsigned i = 0; i < n; i++)
		fprintf(out, "%s%" PRIu64, i ? "," : "", c->histogram[i]);
	fputc(']', out);
}

static void put_errnos(FILE *out, const struct spoor_call_counters *c)
{
	uint64_t rest = c->errors;

	fputs(",\"errnos\":{", out);
	for (size_t i = 0; i < c->n_errnos; i++) {
		const char *name = spoor_errno_name(c->errnos[i].number);

		if (name)
			fprintf(out, "%s\"%s\":%" PRIu64, i ? "," : "", name, c->errnos[i].n);
		else
			fprintf(out, "%s\"%u\":%" PRIu64, i ? "," : "", c->errnos[i].number, c->errnos[i].n);
		rest = spoor_sub_saturated(rest, c->errnos[i].n);
	}
	if (rest)
		fprintf(out, "%s\"others\":%" PRIu64, c->n_errnos ? "," : "", rest);
	fputc('}', out);
}

static void put_open(FILE *out, const char *member, uint64_t calls, uint64_t ns, uint64_t blocked_ns,
		     const struct spoor_stat_view *v)
{
	fprintf(out, ",\"%s\":{\"calls\":%" PRIu64, member, calls);
	put_seconds(out, "seconds", ns);
	if (v->blocked)
		put_seconds(out, "blocked_seconds", blocked_ns);
	fputc('}', out);
}

static void put_counters(FILE *out, const struct spoor_call_counters *c, const struct spoor_stat_view *v)
{
	fprintf(out, "\"entered\":%" PRIu64 ",\"calls\":%" PRIu64 ",\"errors\":%" PRIu64, spoor_call_shown(c), c->calls,
		c->errors);
	put_seconds(out, "seconds", c->ns);
	if (v->blocked) {
		put_seconds(out, "on_cpu_seconds", spoor_sub_saturated(c->ns, c->blocked_ns));
		put_seconds(out, "blocked_seconds", c->blocked_ns);
	}
	if (c->calls)
		fprintf(out, ",\"min_ns\":%" PRIu64 ",\"max_ns\":%" PRIu64, c->min_ns, c->max_ns);
	else
		fputs(",\"min_ns\":null,\"max_ns\":null", out);
	if (c->min_is_bound || c->max_is_bound)
		fprintf(out, ",\"min_exact\":%s,\"max_exact\":%s", c->min_is_bound ? "false" : "true",
			c->max_is_bound ? "false" : "true");
	if (c->calls)
		fprintf(out, ",\"p50_ns\":%" PRIu64 ",\"p99_ns\":%" PRIu64, spoor_call_percentile(c, 500),
			spoor_call_percentile(c, 990));
	put_histogram(out, c);
	put_errnos(out, c);
	if (c->in_flight)
		put_open(out, "in_flight", c->in_flight, c->in_flight_ns, c->in_flight_blocked_ns, v);
	if (c->unreturned)
		put_open(out, "unreturned", c->unreturned, c->unreturned_ns, c->unreturned_blocked_ns, v);
	if (c->left)
		put_open(out, "left", c->left, c->left_ns, c->left_blocked_ns, v);
	put_seconds(out, "spent_seconds", spoor_call_shown_ns(c));
}

static void put_sites(FILE *out, const struct spoor_task_counters *t, uint16_t id, const struct spoor_stat_view *v,
		      const struct spoor_stat_labels *labels)
{
	int first = 1;

	fputs(",\"sites\":[", out);
	for (size_t i = 0; i < t->n_calls; i++) {
		const struct spoor_call_counters *c = &t->calls[i];

		if (c->id != id)
			continue;
		fputs(first ? "{\"site\":" : ",{\"site\":", out);
		first = 0;
		spoor_put_json_string(out, c->stack ? spoor_stat_label_of(labels, c->stack) : NULL);
		if (v->site_json && c->stack && c->stack <= labels->n) {
			const struct spoor_stat_stack *s = &labels->stacks[c->stack - 1];

			fputs(",\"stack\":", out);
			v->site_json(v->p, out, s->pid, s->stack);
		}
		fputc(',', out);
		put_counters(out, c, v);
		fputc('}', out);
	}
	fputc(']', out);
}

static void put_call(FILE *out, const struct spoor_call_counters *c, const struct spoor_task_counters *sites,
		     const struct spoor_stat_view *v, const struct spoor_stat_labels *labels)
{
	int i386 = c->id >= SPOOR_SYSCALL_I386 && c->id < SPOOR_SYSCALL_MAX;
	const char *known = c->id < SPOOR_SYSCALL_MAX ? spoor_syscall_info(c->id)->name : NULL;
	char name[64];

	if (c->id < SPOOR_SYSCALL_MAX)
		snprintf(name, sizeof(name), "syscall_%u", c->id & (SPOOR_SYSCALL_I386 - 1u));
	else
		snprintf(name, sizeof(name), "unknown");
	fprintf(out, "{\"name\":\"%s\"%s,", known ?: name, i386 ? ",\"abi\":\"i386\"" : "");
	put_counters(out, c, v);
	if (sites)
		put_sites(out, sites, c->id, v, labels);
	fputc('}', out);
}

static void put_task(FILE *out, const struct spoor_task_counters *t, const struct spoor_task_counters *sites,
		     const struct spoor_stat_view *v, const struct spoor_stat_labels *labels)
{
	fprintf(out, "{\"pid\":%d,\"tid\":%d,\"ppid\":%d,\"comm\":", t->pid, t->tid, t->ppid);
	spoor_put_json_bytes(out, t->comm, strnlen(t->comm, sizeof(t->comm)));
	fprintf(out, ",\"threads\":%u,\"processes\":%u,\"overflow\":%" PRIu64 ",\"syscalls\":[", t->threads,
		t->processes, t->overflow);
	for (size_t i = 0; i < t->n_calls; i++) {
		fputs(i ? "," : "", out);
		put_call(out, &t->calls[i], sites, v, labels);
	}
	fputs("]}", out);
}

/* The same task in the counters by site, which may be in another order. */
static const struct spoor_task_counters *find(const struct spoor_counters *c, const struct spoor_task_counters *t)
{
	for (size_t i = 0; c && i < c->n; i++)
		if (c->tasks[i].pid == t->pid && c->tasks[i].tid == t->tid && c->tasks[i].start_ns == t->start_ns)
			return &c->tasks[i];
	return NULL;
}

void spoor_stat_put_json(FILE *out, const struct spoor_counters *c, const struct spoor_counters *by_site,
			 const struct spoor_stat_view *v, const struct spoor_stat_labels *labels)
{
	static const char *const levels[] = { "application", "process", "thread", "process" };
	uint64_t epoch = spoor_now_realtime() - spoor_now_monotonic();
	char from[32], at[32];

	spoor_format_epoch(c->since_ns + epoch, from, sizeof(from));
	spoor_format_epoch(c->at_ns + epoch, at, sizeof(at));
	fprintf(out,
		"{\"from\":\"%s\",\"to\":\"%s\",\"level\":\"%s\",\"lost_threads\":%" PRIu64 ",\"lost_calls\":%" PRIu64
		",\"tasks\":[",
		from, at, levels[v->level], c->lost_threads, c->lost_calls);
	for (size_t i = 0; i < c->n; i++) {
		fputs(i ? "," : "", out);
		put_task(out, &c->tasks[i], find(by_site, &c->tasks[i]), v, labels);
	}
	fputs("]}\n", out);
}
