/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What could not be seen, said at the end of every report. */
#include <inttypes.h>
#include <string.h>

#include "base/strings.h"
#include "base/time.h"
#include "present/present.h"
#include "present/text.h"

#define MAX_DAMAGES_SHOWN 10

static uint64_t sum(const uint64_t *counts, size_t n)
{
	uint64_t total = 0;

	for (size_t i = 0; i < n; i++)
		total += counts[i];
	return total;
}

static void put_share(FILE *out, const char *before, const char *name, uint64_t n, uint64_t total)
{
	char count[32];

	spoor_format_count(n, count, sizeof(count));
	fprintf(out, "%s%s %s (%.4g %%)", before, name, count, 100.0 * (double)n / (double)total);
}

/* As of programs that run code of libraries or code made at run time: most of the report names nobody. */
static void put_empty(FILE *out, uint64_t empty, uint64_t walked)
{
	if (walked >= 100 && empty >= walked / 5 * 4)
		fputs("Hint: few of these stacks have code of the application's own. record --app says what that is\n"
		      "      (libraries, modules, [anonymous] for code made at run time); -m lib takes of all code.\n",
		      out);
}

static void put_guessed(FILE *out, uint64_t guessed)
{
	if (guessed)
		fputs("Guessed: by frame pointers through code without unwind rows, which perhaps keeps none: callers\n"
		      "         may be missing in these stacks (of Java: -XX:+PreserveFramePointer has them kept).\n",
		      out);
}

static void put_no_rows(FILE *out, uint64_t no_rows, uint64_t walked)
{
	if (no_rows && no_rows >= walked / 100)
		fputs("No rows: the walk came to code without unwind tables (or they did not fit, or were not to be\n"
		      "         used) and without frame pointers, or of 32 bits: callers may be missing in these\n"
		      "         stacks.\n",
		      out);
}

static void put_walks(struct spoor_view *v)
{
	static const char *const ways[] = { "in the kernel", "in user space" };
	const struct spoor_tally *t = &v->tally;
	uint64_t walked = sum(t->walks, SPOOR_WALK_STATUS_MAX), by_ways = sum(t->ways, 2);
	const char *before = "Walks: ";
	char count[32];

	if (!walked) {
		fputs("Walks: none was recorded with these calls.\n", v->out);
		return;
	}
	for (unsigned i = 0; i < SPOOR_WALK_STATUS_MAX; i++) {
		if (!t->walks[i])
			continue;
		put_share(v->out, before, spoor_walk_status_name(i), t->walks[i], walked);
		before = ", ";
	}
	for (unsigned i = 0; i < 2 && by_ways; i++)
		put_share(v->out, i ? ", " : "; ", ways[i], t->ways[i], by_ways);
	if (t->no_stack) {
		spoor_format_count(t->no_stack, count, sizeof(count));
		fprintf(v->out, "; %s %s without a stack", count, spoor_plural(t->no_stack, "call", "calls"));
	}
	fputs(".\n", v->out);
	put_guessed(v->out, t->walks[SPOOR_WALK_GUESSED]);
	put_no_rows(v->out, t->walks[SPOOR_WALK_NO_ROWS], walked);
	put_empty(v->out, t->empty, walked);
}

static void put_lost(FILE *out, uint64_t n, const char *one, const char *many, const char *what)
{
	char count[32];

	if (!n)
		return;
	spoor_format_count(n, count, sizeof(count));
	fprintf(out, "Lost: %s %s %s.\n", count, spoor_plural(n, one, many), what);
}

/* What a flight recorder is for is no loss. */
static void put_overwritten(FILE *out, uint64_t n)
{
	char count[32];

	spoor_format_count(n, count, sizeof(count));
	if (n)
		fprintf(out, "Overwritten: %s %s, by newer ones, as --mode overwrite asks for.\n", count,
			spoor_plural(n, "event", "events"));
}

static void put_dropped(FILE *out, const struct spoor_trace_info *info)
{
	char segments[32], bytes[32];

	if (!info->dropped_segments)
		return;
	spoor_format_count(info->dropped_segments, segments, sizeof(segments));
	spoor_format_count(info->dropped_bytes, bytes, sizeof(bytes));
	fprintf(out, "Dropped: the oldest %s %s, %s bytes, to keep to --max-size; what was in them is not here.\n",
		segments, spoor_plural(info->dropped_segments, "segment", "segments"), bytes);
}

/* To connect at first takes some milliseconds. */
static bool had_trouble(const struct spoor_trace_info *info)
{
	return info->relay_discarded || info->relay_reconnects || info->relay_away_ms >= 1000;
}

/* What was discarded then is among the losses. */
static void put_network(FILE *out, const struct spoor_trace_info *info)
{
	char discarded[32], reconnects[32], away[32];

	if (!had_trouble(info))
		return;
	spoor_format_count(info->relay_discarded, discarded, sizeof(discarded));
	spoor_format_count(info->relay_reconnects, reconnects, sizeof(reconnects));
	spoor_format_duration(info->relay_away_ms * 1000000, away, sizeof(away));
	fprintf(out, "Network: %s %s discarded while the relay was behind; %s %s, %s without a connection.\n",
		discarded, spoor_plural(info->relay_discarded, "event was", "events were"), reconnects,
		spoor_plural(info->relay_reconnects, "reconnect", "reconnects"), away);
}

static int was_cut_off(const struct spoor_trace_info *info)
{
	return !info->ended && !info->live;
}

static int is_damaged(const struct spoor_program *p)
{
	return p->malformed || p->state == SPOOR_PROGRAM_DAMAGED;
}

static int any_program_is_damaged(const struct spoor_view *v)
{
	for (size_t i = 0; i < v->programs.n; i++)
		if (is_damaged(&v->programs.list[i]))
			return 1;
	return 0;
}

static void put_losses(struct spoor_view *v)
{
	const struct spoor_trace_info *info = spoor_trace_info(v->trace);
	uint64_t discarded = spoor_trace_discarded(v->trace), full = discarded - info->lost_writing;
	uint64_t child = info->lost_child < full ? info->lost_child : full, undescribed;

	full -= child;
	undescribed = info->lost_undescribed < full ? info->lost_undescribed : full;
	put_lost(v->out, full - undescribed, "event was", "events were",
		 info->has_calls ? "discarded because a buffer was full" :
				   "discarded because a buffer was full, or its packets too small");
	put_lost(v->out, child, "event was", "events were",
		 "of child processes that could have no buffers of their own");
	put_lost(v->out, undescribed, "event has", "events have",
		 "no description that makes sense, or could be stored: nobody can say what is in them");
	put_lost(v->out, info->lost_writing, "event", "events",
		 "could not be written: a full disk or quota, a limit on file sizes, a removed directory, a slow "
		 "relay, or no room below --max-size");
	put_lost(v->out, info->threads_not_recorded, "thread was", "threads were",
		 "not recorded, nor perhaps what they started: no kernel memory for them");
	put_lost(v->out, info->ring_damages, "stretch", "stretches",
		 "of a buffer made no sense to the recorder, with all that was in them");
	put_network(v->out, info);
	put_overwritten(v->out, info->overwritten);
	put_dropped(v->out, info);
	if (discarded || info->threads_not_recorded || info->ring_damages || info->dropped_segments)
		return;
	if (v->n_undecodable || info->n_damages || info->programs_not_recorded || info->held_lost ||
	    was_cut_off(info) || any_program_is_damaged(v))
		fputs("Lost: nothing that is known of, but see below.\n", v->out);
	else
		fputs("Lost: nothing.\n", v->out);
}

static void put_damages(struct spoor_view *v)
{
	const struct spoor_trace_info *info = spoor_trace_info(v->trace);

	if (v->n_undecodable)
		fprintf(v->out, "Damaged: %" PRIu64 " %s whose arguments do not fit their call.\n", v->n_undecodable,
			spoor_plural(v->n_undecodable, "event", "events"));
	for (unsigned i = 0; i < info->n_damages && i < MAX_DAMAGES_SHOWN; i++) {
		fputs("Damaged: ", v->out);
		spoor_put_string(v->out, spoor_trace_damage(v->trace, i));
		fputc('\n', v->out);
	}
	if (info->n_damages > MAX_DAMAGES_SHOWN)
		fprintf(v->out, "Damaged: and %u more %s.\n", info->n_damages - MAX_DAMAGES_SHOWN,
			spoor_plural(info->n_damages - MAX_DAMAGES_SHOWN, "place", "places"));
}

static void put_end(struct spoor_view *v)
{
	const struct spoor_trace_info *info = spoor_trace_info(v->trace);

	if (info->snapshot)
		fputs("This is a snapshot: the recording went on.\n", v->out);
	if (info->away)
		fputs("Who writes this is away: what came after the last whole packet is not here yet.\n", v->out);
	else if (info->suspended && !info->live)
		fputs("Its daemon was stopped, and the session has not ended: the next daemon goes on with it.\n",
		      v->out);
	else if (info->live)
		fputs("The recording is still going on: this is what had been written.\n", v->out);
	else if (info->torn_bytes)
		fprintf(v->out,
			"The recording was cut off: %" PRIu64 " %s of packets that are not whole; what is whole in "
			"them is here ('spoor repair' cuts them, for other readers).\n",
			info->torn_bytes, spoor_plural(info->torn_bytes, "byte is", "bytes are"));
	else if (was_cut_off(info))
		fputs("The recording was cut off: what came after the last whole packet is not here.\n", v->out);
}

/* Which of these it was of this program, its count does not tell; what there was of none in the trace is none. */
static void put_why_lost(FILE *out, const struct spoor_trace_info *info)
{
	fputs(", whose buffer was full, or its packets too small", out);
	if (info->lost_child)
		fputs(", or whose children could have none", out);
	if (info->lost_writing)
		fputs(", or which could not be written", out);
	fputs(".\n", out);
}

/* Of programs that traced themselves: whose buffers were too small, who crashed. */
static void put_program(FILE *out, const struct spoor_trace_info *info, const struct spoor_program *p)
{
	char count[32];

	if (p->state == SPOOR_PROGRAM_CRASHED) {
		fputs("Crashed: ", out);
		spoor_put_text(out, p->comm, strnlen(p->comm, sizeof(p->comm)));
		fprintf(out, "[%u]; its user events are here up to there.\n", p->pid);
	}
	if (p->state == SPOOR_PROGRAM_UNSEEN) {
		fputs("Ended without exit(), by a crash or not: ", out);
		spoor_put_text(out, p->comm, strnlen(p->comm, sizeof(p->comm)));
		fprintf(out, "[%u]; its user events are here up to there.\n", p->pid);
	}
	if (p->lost) {
		spoor_format_count(p->lost, count, sizeof(count));
		fputs("Lost: in ", out);
		spoor_put_text(out, p->comm, strnlen(p->comm, sizeof(p->comm)));
		fprintf(out, "[%u] %s", p->pid, count);
		put_why_lost(out, info);
	}
	if (is_damaged(p)) {
		fputs("Damaged: ", out);
		spoor_put_text(out, p->comm, strnlen(p->comm, sizeof(p->comm)));
		if (p->malformed)
			fprintf(out,
				"[%u] wrote what makes no sense into its own buffer, %" PRIu64
				" %s; what it hid is lost.\n",
				p->pid, (uint64_t)p->malformed, spoor_plural(p->malformed, "time", "times"));
		else
			fprintf(out, "[%u]'s buffer was cut when it was recovered; what was behind the cut is lost.\n",
				p->pid);
	}
}

static int is_worth_a_line(const struct spoor_program *p)
{
	return p->lost || is_damaged(p) || p->state == SPOOR_PROGRAM_CRASHED || p->state == SPOOR_PROGRAM_UNSEEN;
}

static void put_programs(struct spoor_view *v)
{
	unsigned shown = 0, more = 0;

	for (size_t i = 0; i < v->programs.n; i++) {
		const struct spoor_program *p = &v->programs.list[i];

		if (!is_worth_a_line(p))
			continue;
		if (shown++ < MAX_DAMAGES_SHOWN)
			put_program(v->out, spoor_trace_info(v->trace), p);
		else
			more++;
	}
	if (more)
		fprintf(v->out, "And %u more %s crashed or lost user events.\n", more,
			spoor_plural(more, "program", "programs"));
}

static void put_comings(FILE *out, uint64_t n, const char *before, const char *after)
{
	if (n)
		fprintf(out, "%s: %" PRIu64 " %s %s\n", before, n, spoor_plural(n, "program", "programs"), after);
}

/* Programs that came and were recorded from later on than their begin, or not at all. */
static void put_not_wholly_recorded(FILE *out, const struct spoor_trace_info *info)
{
	put_comings(out, info->programs_late, "Late",
		    "began before the recorder answered; their first user events are not here.");
	put_comings(out, info->programs_turned_away, "Turned away",
		    "found no room, at a daemon or to wait for one; what those wrote that ended before there was "
		    "some is not here.");
	if (info->held_lost)
		fputs("Not known: what programs left that ended while no daemon was there; trace-keeper, which holds "
		      "that, had ended, or did not answer.\n",
		      out);
	put_comings(out, info->programs_not_recorded, "Not recorded",
		    "that came or ran already: as many other sessions and channels as can at once did, there was no "
		    "memory for the buffers, a limit (ulimit) or a directory's rights did not let them be, their "
		    "libspoor-ust was of another version, they do not obey the recorder's user, or no signal reached "
		    "them; their user events are not here.");
}

static void put_uncounted(FILE *out, uint64_t n)
{
	if (n)
		fprintf(out, "Not counted: %" PRIu64 " %s 0 in some events, as their program could not have %s.\n", n,
			spoor_plural(n, "counter (perf:NAME) is", "counters (perf:NAME) are"),
			spoor_plural(n, "it", "them"));
}

static void put_user_events(struct spoor_view *v)
{
	char count[32], time[32];

	spoor_format_count(v->tally.user_events, count, sizeof(count));
	spoor_format_duration(v->last_user_ts - v->first_user_ts, time, sizeof(time));
	if (spoor_view_has_calls(v) && !v->tally.user_events)
		return;
	fprintf(v->out, "%sUser events: %s, within %s.\n", spoor_view_has_calls(v) ? "" : "\n", count, time);
}

static void put_calls(struct spoor_view *v)
{
	const struct spoor_tally *t = &v->tally;
	char calls[32], errors[32], unfinished[32], time[32];

	if (!spoor_view_has_calls(v))
		return;
	spoor_format_count(t->calls, calls, sizeof(calls));
	spoor_format_count(t->errors, errors, sizeof(errors));
	spoor_format_count(t->unfinished, unfinished, sizeof(unfinished));
	spoor_format_duration(v->last_ts - v->first_ts, time, sizeof(time));
	fprintf(v->out, "\nCalls: %s, of which %s failed; %s more never ended; within %s.\n", calls, errors, unfinished,
		time);
	if (t->began_before) {
		spoor_format_count(t->began_before, calls, sizeof(calls));
		fprintf(v->out,
			"Began before they were recorded: %s of these calls, which took at least the time shown.\n",
			calls);
	}
}

void spoor_put_footer(struct spoor_view *v)
{
	put_calls(v);
	put_user_events(v);
	put_losses(v);
	put_programs(v);
	put_not_wholly_recorded(v->out, spoor_trace_info(v->trace));
	put_uncounted(v->out, spoor_trace_info(v->trace)->uncounted);
	put_damages(v);
	put_end(v);
	if (spoor_view_has_calls(v))
		put_walks(v);
	for (unsigned i = 0; spoor_symbolizer_note(v->symbols, i); i++) {
		fputs("Note: ", v->out);
		spoor_put_string(v->out, spoor_symbolizer_note(v->symbols, i));
		fputc('\n', v->out);
	}
}

static void put_notes_json(struct spoor_view *v)
{
	const struct spoor_trace_info *info = spoor_trace_info(v->trace);

	fputs(",\"damages\":[", v->out);
	for (unsigned i = 0; i < info->n_damages; i++) {
		fputs(i ? "," : "", v->out);
		spoor_put_json_string(v->out, spoor_trace_damage(v->trace, i));
	}
	fputs("],\"notes\":[", v->out);
	for (unsigned i = 0; spoor_symbolizer_note(v->symbols, i); i++) {
		fputs(i ? "," : "", v->out);
		spoor_put_json_string(v->out, spoor_symbolizer_note(v->symbols, i));
	}
	fputs("]", v->out);
}

static void put_programs_json(struct spoor_view *v)
{
	fprintf(v->out, ",\"user_events\":%" PRIu64 ",\"programs\":[", v->tally.user_events);
	for (size_t i = 0; i < v->programs.n; i++) {
		const struct spoor_program *p = &v->programs.list[i];

		fprintf(v->out, "%s{\"pid\":%u,\"comm\":", i ? "," : "", p->pid);
		spoor_put_json_bytes(v->out, p->comm, strnlen(p->comm, sizeof(p->comm)));
		fprintf(v->out, ",\"state\":\"%s\",\"lost\":%" PRIu64 ",\"malformed\":%" PRIu64 "}",
			spoor_program_state_name(p->state), (uint64_t)p->lost, (uint64_t)p->malformed);
	}
	fputs("]", v->out);
}

static void put_network_json(FILE *out, const struct spoor_trace_info *info)
{
	if (had_trouble(info))
		fprintf(out,
			",\"relay\":{\"discarded\":%" PRIu64 ",\"reconnects\":%" PRIu64 ",\"away_ms\":%" PRIu64 "}",
			info->relay_discarded, info->relay_reconnects, info->relay_away_ms);
}

void spoor_put_summary_json(struct spoor_view *v)
{
	const struct spoor_trace_info *info = spoor_trace_info(v->trace);
	const struct spoor_tally *t = &v->tally;

	fprintf(v->out,
		"{\"event\":\"spoor:summary\",\"calls\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"unfinished\":%" PRIu64
		",\"began_before\":%" PRIu64 ",\"discarded\":%" PRIu64 ",\"lost_writing\":%" PRIu64
		",\"lost_child\":%" PRIu64 ",\"lost_undescribed\":%" PRIu64 ",\"overwritten\":%" PRIu64
		",\"threads_not_recorded\":%" PRIu64 ",\"programs_late\":%" PRIu64 ",\"programs_turned_away\":%" PRIu64
		",\"held_lost\":%" PRIu64
		",\"programs_not_recorded\":%" PRIu64 ",\"uncounted\":%" PRIu64 ",\"ring_damages\":%" PRIu64
		",\"dropped\":{\"segments\":%" PRIu64 ",\"bytes\":%" PRIu64 "},\"undecodable\":%" PRIu64 ",\"walks\":{",
		t->calls, t->errors, t->unfinished, t->began_before, spoor_trace_discarded(v->trace),
		info->lost_writing, info->lost_child, info->lost_undescribed, info->overwritten,
		info->threads_not_recorded, info->programs_late, info->programs_turned_away,
		info->held_lost,
		info->programs_not_recorded, info->uncounted, info->ring_damages, info->dropped_segments,
		info->dropped_bytes, v->n_undecodable);
	for (unsigned i = 0; i < SPOOR_WALK_STATUS_MAX; i++)
		fprintf(v->out, "%s\"%s\":%" PRIu64, i ? "," : "", spoor_walk_status_name(i), t->walks[i]);
	fprintf(v->out,
		"},\"ways\":{\"kernel\":%" PRIu64 ",\"user\":%" PRIu64 "},\"no_stack\":%" PRIu64 ",\"ended\":%s",
		t->ways[SPOOR_WAY_KERNEL], t->ways[SPOOR_WAY_USER], t->no_stack, info->ended ? "true" : "false");
	put_network_json(v->out, info);
	put_programs_json(v);
	put_notes_json(v);
	fputs("}\n", v->out);
}
