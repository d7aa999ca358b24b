/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cmd/report_times.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/strings.h"
#include "base/time.h"

#define NS_PER_US 1000

/* A time, and the last one that is written so: listings cut times to the microsecond. */
struct moment {
	uint64_t first, last;
};

static int parse_fraction(const char *s, struct moment *ret)
{
	uint64_t ns = 0, unit = SPOOR_NS_PER_SEC / 10;

	if (*s == '.')
		for (s++; isdigit((unsigned char)*s); s++, unit /= 10)
			ns += (uint64_t)(*s - '0') * unit;
	ret->first = ns;
	ret->last = unit >= NS_PER_US / 10 ? ns + NS_PER_US - 1 : ns;
	return *s ? -EINVAL : 0;
}

static void add_seconds(struct moment *m, uint64_t seconds)
{
	m->first += seconds * SPOOR_NS_PER_SEC;
	m->last += seconds * SPOOR_NS_PER_SEC;
}

static int parse_epoch(const char *s, struct moment *ret)
{
	char *end;
	uint64_t seconds;

	errno = 0;
	seconds = strtoull(s, &end, 10);
	if (!isdigit((unsigned char)*s) || errno || seconds > UINT64_MAX / SPOOR_NS_PER_SEC - 1 ||
	    parse_fraction(end, ret) < 0)
		return -EINVAL;
	add_seconds(ret, seconds);
	return 0;
}

static int parse_clock(const char *s, uint64_t begin, struct moment *ret)
{
	time_t seconds = (time_t)(begin / SPOOR_NS_PER_SEC);
	const char *end;
	struct tm tm;

	localtime_r(&seconds, &tm);
	end = strptime(s, "%H:%M:%S", &tm);
	if (!end || parse_fraction(end, ret) < 0)
		return -EINVAL;
	tm.tm_isdst = -1;
	add_seconds(ret, (uint64_t)mktime(&tm));
	return 0;
}

static uint64_t monotonic(uint64_t realtime, uint64_t epoch_offset)
{
	return realtime > epoch_offset ? realtime - epoch_offset : 1;
}

/* first: CLOCK_MONOTONIC of the trace's first event. s NULL: nothing is asked for. */
static int parse_time(const char *option, const char *s, uint64_t first, uint64_t epoch_offset, struct moment *ret,
		      struct spoor_error *e)
{
	bool absolute = s && (*s == '@' || strchr(s, ':'));
	uint64_t since = 0;
	struct moment t = {};
	int r;

	if (!s)
		return 0;
	if (*s == '@')
		r = parse_epoch(s + 1, &t);
	else if (absolute)
		r = parse_clock(s, first + epoch_offset, &t);
	else
		r = spoor_parse_duration(s, &since);
	if (r < 0 || since > UINT64_MAX - first)
		return spoor_fail(e, EINVAL, "%s: '%s' is no time; examples: 1.5s, 11:03:07.25, @1763722800.5", option,
				  s);
	if (absolute)
		*ret = (struct moment){ monotonic(t.first, epoch_offset), monotonic(t.last, epoch_offset) };
	else
		*ret = (struct moment){ first + since, first + since };
	return 0;
}

int spoor_report_times(const char *from, const char *to, struct spoor_trace *t, struct spoor_select *select,
		       struct spoor_error *e)
{
	uint64_t offset = spoor_trace_info(t)->epoch_offset, first;
	struct moment begin = {}, end = {};
	struct spoor_event ev;
	int r;

	if (!from && !to)
		return 0;
	first = spoor_trace_next(t, &ev) == 1 ? ev.h->ts : 0;
	spoor_trace_rewind(t);
	r = parse_time("--from", from, first, offset, &begin, e);
	if (!r)
		r = parse_time("--to", to, first, offset, &end, e);
	select->from = begin.first;
	select->to = end.last;
	if (!r && from && to && select->from > select->to)
		r = spoor_fail(e, EINVAL, "--from %s is after --to %s", from, to);
	return r;
}
