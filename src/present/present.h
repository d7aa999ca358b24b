/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The forms of a report. Each reads the trace from its beginning, writes to `out`, and ends with what was lost and how
 * the stacks were walked. They return 0 or -errno with the reason in e. A reader who closes the pipe early is no error.
 */
#include <signal.h>
#include <stdio.h>

#include "analyze/callsites.h"
#include "analyze/programs.h"
#include "analyze/select.h"
#include "analyze/tally.h"

struct spoor_texts;

enum spoor_sort { SPOOR_SORT_TIME, SPOOR_SORT_CALLS, SPOOR_SORT_ERRORS, SPOOR_SORT_MAX };

struct spoor_view {
	struct spoor_trace *trace;
	struct spoor_select *select;
	struct spoor_symbolizer *symbols;
	FILE *out;
	uint8_t colour;
	uint8_t progress; /* show on standard error, a terminal, how far a long report is */
	uint8_t json;     /* of blocked calls */
	uint8_t killed;   /* calls that were ended by what killed their thread are given a second time, as unfinished */
	uint8_t follow;   /* go on as long as the trace is being written, or until *stop */
	volatile sig_atomic_t *stop; /* may be NULL */
	void (*tell_away)(int away); /* followed: whoever writes it is no more, and may come back; or is there again */
	uint8_t stacks;   /* --events: each with its stack */
	uint8_t by_time;  /* --folded: time instead of counts */
	enum spoor_by by;
	enum spoor_sort sort;
	unsigned top; /* sites shown of a process; 0: all */

	struct spoor_texts *stack_texts; /* JSON of stacks; may be NULL */

	struct spoor_tally tally; /* filled while reading */
	struct spoor_programs programs;
	uint64_t first_ts, last_ts; /* of all that the trace has */
	uint64_t first_user_ts, last_user_ts;
	uint8_t start_is_bound; /* of the completed call at hand: it began before, and took at least its time */
	uint32_t user_pid; /* of the user event at hand; 0: unknown */
	uint8_t writer_away;    /* as it was told */
	uint8_t progress_shown;
	uint64_t next_progress; /* when, CLOCK_MONOTONIC ns; 0: it has not begun */
	uint64_t n_undecodable; /* events whose arguments do not fit their class */
};

int spoor_present_table(struct spoor_view *v, struct spoor_error *e);
int spoor_present_events(struct spoor_view *v, struct spoor_error *e);
int spoor_present_json(struct spoor_view *v, struct spoor_error *e);
int spoor_present_folded(struct spoor_view *v, struct spoor_error *e);
int spoor_present_blocked(struct spoor_view *v, struct spoor_error *e);

/* ---- what they share ---- */

/*
 * Calls `each` for every call that the view's select wants, in the order of the trace; for calls that never ended, at
 * the end, with why. `other`, if any, gets every other event, of user events (ev->class) those that are wanted. A
 * non-zero result of either ends the reading.
 */
typedef int spoor_each_call(struct spoor_view *v, const struct spoor_event *ev, enum spoor_unfinished why, void *p);
typedef int spoor_each_other(struct spoor_view *v, const struct spoor_event *ev, void *p);
int spoor_view_read(struct spoor_view *v, spoor_each_call *each, spoor_each_other *other, void *p,
		    struct spoor_error *e);

/* How long a call that never ended had lasted when it was last known of, ns; 0: not known. */
uint64_t spoor_view_so_far(const struct spoor_view *v, const struct spoor_event *ev, enum spoor_unfinished why);

/* The matrix of all selected calls, tallied. user: counts of the selected user events, too; NULL: not needed. */
struct spoor_userevents;
int spoor_view_matrix(struct spoor_view *v, struct spoor_callsites *matrix, struct spoor_userevents *user,
		      struct spoor_error *e);
/* Is there anything about calls to say? Not of a trace of user events alone, nor if only those were asked for. */
int spoor_view_has_calls(const struct spoor_view *v);

/* A thread's name at a time; "?" if unknown. */
const char *spoor_view_comm(const struct spoor_segment *segment, uint32_t tid, uint64_t ts);

/* A stack, a line per frame, innermost first. */
void spoor_put_stack(struct spoor_view *v, const struct spoor_segment *segment, uint32_t pid, uint32_t stack,
		     const char *indent);

/* "app[12]", "app (3 processes)", "all processes", as v->by says; bold on a terminal. */
void spoor_put_process_name(struct spoor_view *v, const struct spoor_process *process);
/* Tables of user events by process; a blank line before each if `more` text stands above. */
void spoor_put_userevents(struct spoor_view *v, const struct spoor_processes *processes, struct spoor_userevents *user,
			  int more);

/* Losses, walk statuses, both walking ways, damages, notes: after a text report. */
void spoor_put_footer(struct spoor_view *v);
/* The same as the last line of a JSON report. */
void spoor_put_summary_json(struct spoor_view *v);

/* One call as a line of JSON. */
int spoor_put_event_json(struct spoor_view *v, const struct spoor_event *ev, enum spoor_unfinished why);
/* A stack's frames as an array, innermost first; an empty one if it is not known. */
void spoor_put_frames_json(FILE *out, struct spoor_symbolizer *symbols, const struct spoor_segment *segment,
			   uint32_t pid, uint32_t stack);
/* ",\"stack\":[...],\"walk\":...,\"way\":...": made once for each stack if there are v->stack_texts. */
void spoor_put_stack_json(struct spoor_view *v, const struct spoor_segment *segment, uint32_t pid, uint32_t stack);
/* How far it is: of total, 0 where that is not known. listed: how many calls and user events were given so far. */
void spoor_view_progress(struct spoor_view *v, const char *what, size_t done, size_t total);
void spoor_view_listed(struct spoor_view *v);
/* Nothing of it stays. */
void spoor_view_progress_end(struct spoor_view *v);
/* "sleep", "before", "end", "death": enum spoor_pending_why in JSON. */
const char *spoor_pending_name(unsigned why);
