/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long a call took, drawn: a line for each power of two. */
#include <inttypes.h>
#include <string.h>

#include "base/strings.h"
#include "base/time.h"
#include "present/stat_internal.h"

static void put_bar(FILE *out, uint64_t n, uint64_t most, unsigned width, int utf8)
{
	static const char *const eighths[] = {
		"", "\u258f", "\u258e", "\u258d", "\u258c", "\u258b", "\u258a", "\u2589"
	};
	unsigned steps = utf8 ? width * 8 : width;
	unsigned length = most ? (unsigned)((unsigned __int128)n * steps / most) : 0;

	if (n && !length)
		length = 1; /* few is not none */
	if (!utf8) {
		for (unsigned i = 0; i < width; i++)
			fputc(i < length ? '#' : ' ', out);
		return;
	}
	for (unsigned i = 0; i < width; i++) {
		if (i < length / 8)
			fputs("\u2588", out);
		else
			fputs(i == length / 8 && length % 8 ? eighths[length % 8] : " ", out);
	}
}

static void put_heading(FILE *out, const struct spoor_call_counters *c, const char *site,
			const struct spoor_stat_view *v)
{
	char name[64], min[32], p50[32], p99[32], max[32];

	spoor_call_counters_name(c->id, name, sizeof(name));
	spoor_format_duration(c->min_ns, min, sizeof(min));
	spoor_format_duration(spoor_call_percentile(c, 500), p50, sizeof(p50));
	spoor_format_duration(spoor_call_percentile(c, 990), p99, sizeof(p99));
	spoor_format_duration(c->max_ns, max, sizeof(max));
	fprintf(out, "\n%s%s%s", v->colour ? "\033[1m" : "", name, v->colour ? "\033[0m" : "");
	if (site) {
		fputs(" at ", out);
		spoor_stat_put_text(out, v, site, strlen(site));
	}
	fprintf(out, ": %" PRIu64 " %s, min %s%s, p50 %s, p99 %s, max %s%s\n", c->calls,
		spoor_plural(c->calls, "call", "calls"), c->min_is_bound ? ">=" : "", min, p50, p99,
		c->max_is_bound ? "<=" : "", max);
}

void spoor_stat_put_histogram(FILE *out, const struct spoor_call_counters *c, const char *site,
			      const struct spoor_stat_view *v)
{
	unsigned low = 0, high = SPOOR_HISTOGRAM - 1, width = v->width ? v->width - 34 : 40;
	uint64_t most = 0;

	if (v->width < 44 && v->width)
		width = 10;
	if (width > 64)
		width = 64;
	while (low < high && !c->histogram[low])
		low++;
	while (high > low && !c->histogram[high])
		high--;
	for (unsigned i = low; i <= high; i++)
		most = c->histogram[i] > most ? c->histogram[i] : most;
	put_heading(out, c, site, v);
	for (unsigned i = low; i <= high; i++) {
		char from[32];

		spoor_format_duration(i ? UINT64_C(1) << i : 0, from, sizeof(from));
		fprintf(out, "  %8s ", from);
		fputs(v->utf8 ? "\u2502" : "|", out);
		put_bar(out, c->histogram[i], most, width, v->utf8);
		fprintf(out, "%s %" PRIu64 "\n", v->utf8 ? "\u2502" : "|", c->histogram[i]);
	}
}
