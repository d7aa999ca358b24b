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

static int parse_fraction(const char *s, uint64_t *ret_ns)
{
	uint64_t ns = 0, unit = 100000000;

	if (*s == '.')
		for (s++; isdigit((unsigned char)*s); s++, unit /= 10)
			ns += (uint64_t)(*s - '0') * unit;
	*ret_ns = ns;
	return *s ? -EINVAL : 0;
}

static int parse_epoch(const char *s, uint64_t *ret)
{
	char *end;
	uint64_t seconds, ns;

	errno = 0;
	seconds = strtoull(s, &end, 10);
	if (!isdigit((unsigned char)*s) || errno || seconds > UINT64_MAX / SPOOR_NS_PER_SEC - 1 ||
	    parse_fraction(end, &ns) < 0)
		return -EINVAL;
	*ret = seconds * SPOOR_NS_PER_SEC + ns;
	return 0;
}

static int parse_clock(const char *s, uint64_t begin, uint64_t *ret)
{
	time_t seconds = (time_t)(begin / SPOOR_NS_PER_SEC);
	const char *end;
	struct tm tm;
	uint64_t ns;

	localtime_r(&seconds, &tm);
	end = strptime(s, "%H:%M:%S", &tm);
	if (!end || parse_fraction(end, &ns) < 0)
		return -EINVAL;
	tm.tm_isdst = -1;
	*ret = (uint64_t)mktime(&tm) * SPOOR_NS_PER_SEC + ns;
	return 0;
}

/* first: CLOCK_MONOTONIC of the trace's first event. s NULL: nothing is asked for. */
static int parse_time(const char *option, const char *s, uint64_t first, uint64_t epoch_offset, uint64_t *ret,
		      struct spoor_error *e)
{
	bool absolute = s && (*s == '@' || strchr(s, ':'));
	uint64_t t;
	int r;

	if (!s)
		return 0;
	if (*s == '@')
		r = parse_epoch(s + 1, &t);
	else if (absolute)
		r = parse_clock(s, first + epoch_offset, &t);
	else
		r = spoor_parse_duration(s, &t);
	if (r < 0 || (!absolute && t > UINT64_MAX - first))
		return spoor_fail(e, EINVAL, "%s: '%s' is no time; examples: 1.5s, 11:03:07.25, @1763722800.5", option,
				  s);
	if (absolute)
		*ret = t > epoch_offset ? t - epoch_offset : 1;
	else
		*ret = first + t;
	return 0;
}

int spoor_report_times(const char *from, const char *to, struct spoor_trace *t, struct spoor_select *select,
		       struct spoor_error *e)
{
	uint64_t offset = spoor_trace_info(t)->epoch_offset, first;
	struct spoor_event ev;
	int r;

	if (!from && !to)
		return 0;
	first = spoor_trace_next(t, &ev) == 1 ? ev.h->ts : 0;
	spoor_trace_rewind(t);
	r = parse_time("--from", from, first, offset, &select->from, e);
	if (!r)
		r = parse_time("--to", to, first, offset, &select->to, e);
	if (!r && from && to && select->from > select->to)
		r = spoor_fail(e, EINVAL, "--from %s is after --to %s", from, to);
	return r;
}
