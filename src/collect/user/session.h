/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * A session of user-space tracing: which events of which programs are recorded, how, and into which trace. A hub
 * (hub.h) has one or more. Not thread-safe.
 */
#include <stdbool.h>
#include <stdint.h>

#include "agent/control/protocol.h"
#include "base/error.h"
#include "collect/relay/client.h"
#include "collect/session/scope.h"
#include "collect/user/taker.h"
#include "collect/user/written.h"

#define SPOOR_UST_MAX_RULES 1024
#define SPOOR_UST_MOST_SESSIONS 8 /* that record one program at once: what the library has room for */

struct spoor_ust_options {
	const char *name;
	const char *output; /* NAME.spoor; must not exist */
	const char *command;
	uint64_t buffers; /* bytes a program; 0: default */
	uint64_t max_size, segment_size, segment_ns;
	struct spoor_control_channel channels[SPOOR_ARENA_MAX_CHANNELS];
	unsigned n_channels; /* 0: one of discarding */
	const char *app, *scope; /* of call stacks: patterns as of `record --app` and `--scope`; NULL: none */
	bool resume; /* output exists: goes on with it */
	struct spoor_relay_client *relay; /* output is a name there, instead of a directory; NULL: none */
	const uint8_t *token; /* resume at a relay: whose the trace is */
	const struct spoor_source_list *unwritten; /* resume: what the one before us could not write; NULL: nothing */
	uint64_t lost_writing;                     /* likewise: events */
	struct spoor_writer *writer; /* to write with, which has lanes; NULL: one of its own is made */
};

/* How a program's recording came to its end, as the kernel knows it. What its arena says goes before that. */
enum spoor_program_end {
	SPOOR_END_UNKNOWN, /* nobody saw it */
	SPOOR_END_RUNS,    /* it goes on: another program was executed, or the session is over */
	SPOOR_END_EXITED,  /* by exit() or _exit() */
	SPOOR_END_KILLED,  /* by a signal */
};

/* A process, and no later one that gets its number. */
struct spoor_ust_process {
	uint32_t pid;        /* the host's */
	uint64_t start_time; /* clock ticks since boot */
};

struct spoor_ust_rule {
	struct spoor_ust_process process; /* pid 0: all programs */
	struct spoor_control_rule rule;
};

static inline bool spoor_ust_rule_is_for(const struct spoor_ust_rule *r, const struct spoor_ust_process *p)
{
	return !r->process.pid || (r->process.pid == p->pid && r->process.start_time == p->start_time);
}

static inline bool spoor_ust_is_since(uint32_t change, uint32_t heard)
{
	return (int32_t)(change - heard) > 0;
}

/* A process that was started or stopped since all were. */
struct spoor_ust_single {
	struct spoor_ust_process process;
	bool on;
};

struct spoor_ust_retired {
	struct spoor_source *source;
	enum spoor_program_end end;
	bool sent; /* all of it is on its way to the relay, and snapshots do not have it */
};

/* Buffers of a program that is gone, which the keeper holds until it is written how that ended (hub_gone.c). */
struct spoor_ust_gone {
	uint8_t arena[16];
	uint64_t mark; /* when the relay has carried out as much, it is there, too */
};
#define SPOOR_UST_MOST_GONE 256

/* Programs with sites that came, or ran already, and cannot be recorded. */
struct spoor_ust_apart {
	unsigned n;
	unsigned unreached; /* of these: they ran already, and have not come: no signal reaches them */
	char why[241]; /* of the last one */
	bool differ;   /* of others it is something else */
};

struct spoor_apart_who {
	struct spoor_ust_process process;
	bool earlier; /* a recorder before us counted it, and it has not come again yet */
	bool unreached;
};

/* Whether a program is recorded from its begin on. */
enum spoor_coming {
	SPOOR_CAME_FIRST, /* it is, or since its parent forked it */
	SPOOR_CAME_LATE,  /* it was wanted, and not answered in time */
	SPOOR_CAME_MET,   /* it ran already when it was first wanted */
};

struct spoor_came {
	struct spoor_ust_process process;
	enum spoor_coming how;
};

/* The end of a session that waits for somebody: hub_end.c. */
struct spoor_ust_ending {
	enum { SPOOR_ENDING_NOT, SPOOR_ENDING_HEARS, SPOOR_ENDING_TAKES, SPOOR_ENDING_SETTLES } step;
	uint64_t until; /* ns: so long a step may take */
	struct spoor_hub_request *request;
};

/* What its programs left while no recorder was there, with the keeper. */
enum spoor_ust_held {
	SPOOR_HELD_NOTHING, /* or we have it */
	SPOOR_HELD_UNHEARD, /* nobody has answered yet */
	SPOOR_HELD_LOST,    /* nobody did in time, or the keeper had ended: if it held something, it is lost */
};

struct spoor_ust_session {
	struct spoor_ust_session *next;
	uint32_t id;
	char *name, *output, *command;
	char *app_text, *scope_text;
	struct spoor_scope app, custom; /* which code is the application's; how much of each in mode custom */
	struct spoor_ust_options o;
	struct spoor_ust_rule *rules;
	size_t n_rules;
	bool ruled;     /* it has had rules: where all of them are gone, nothing is enabled */
	bool recording; /* all that it wants, but for: */
	struct spoor_ust_single *singles;
	size_t n_singles;
	uint32_t changes;  /* that were said of it: rules, starts, stops; the last one's number */
	uint32_t recorded; /* that with which all were started, or stopped */
	bool flight; /* its buffers are overwritten: they are read for a snapshot and at the end */
	struct spoor_writer *w;
	struct spoor_taker *taker;
	unsigned n_snapshots;
	struct spoor_source_list written; /* by recorders before us */
	uint64_t lost_earlier;            /* told by them, beyond what `lost` has of the same programs */
	struct spoor_ust_retired *retired; /* of a flight recorder: programs that have ended (retired.c) */
	size_t n_retired;
	uint64_t retired_bytes;
	struct spoor_ust_gone gone[SPOOR_UST_MOST_GONE];
	size_t n_gone;
	struct spoor_sender *sender;  /* the way to the relay; NULL: none */
	bool behind;                  /* what the round before wrote is not there yet */
	bool missed;                  /* the last round did not take all that there was: there is no room */
	bool partial;                 /* it began all the same, and is to be gone on with */
	uint64_t network_lost;        /* events that programs had to discard meanwhile */
	uint64_t lost_before;         /* by all programs, in the round before */
	char trouble[320];            /* with the relay, as it was told last */
	struct spoor_ust_ending ending;
	bool failed;   /* the last time that there was something to write */
	char why[512]; /* it fails, or did once: the first reason */
	/* of programs that are gone: */
	uint64_t lost, refused;
	unsigned n_programs, n_crashed, n_unseen;
	struct spoor_user_damaged damaged;
	struct spoor_source_list damaged_arenas; /* the first of these: each counts once, whoever counted it */
	uint32_t uncounted; /* counters that some events could not have: bits of contexts */
	struct spoor_ust_apart apart;
	struct spoor_apart_who *apart_who; /* of these, those that may live yet */
	size_t n_apart_who;
	unsigned n_came;  /* programs with sites that were told of it */
	struct spoor_came *came_earlier; /* of these, those of a recorder before us that have not come again */
	size_t n_came_earlier;
	unsigned n_stuck; /* programs that came with sites that cannot be switched on */
	unsigned n_late;  /* programs whose main() had begun before we answered them */
	unsigned n_met;   /* programs that ran already when they were first wanted, and came to us */
	unsigned told_late, told_apart, told_away; /* in this segment */
	uint64_t told_undescribed;
	uint64_t saved; /* spoor_ust_session_comings() as the state file has them */
	unsigned n_away;  /* programs that found no room, at a recorder or to wait for one */
	bool resumed;     /* it was there before this recorder */
	enum spoor_ust_held held;
	char elsewhere[512]; /* why a recorder could not go on in the trace that it had, and began this one; "": none */
};

int spoor_ust_session_new(const struct spoor_ust_options *o, uint32_t id, struct spoor_ust_session **ret,
			  struct spoor_error *e);
/* What recorders before us have written (written), and could not write, counts as ours. */
void spoor_ust_session_go_on(struct spoor_ust_session *s);
/* Ends the trace in order. NULL is fine. */
int spoor_ust_session_close(struct spoor_ust_session *s, struct spoor_error *e);

/*
 * Keeps the rule for programs to come, as a new change if it has not the number of one. -EINVAL: its filter is none;
 * -E2BIG: too many rules; -ENOMEM.
 */
int spoor_ust_session_rule(struct spoor_ust_session *s, const struct spoor_ust_rule *rule, struct spoor_error *e);
/* What is none is said: -EINVAL. */
int spoor_ust_filter_check(const char *text, struct spoor_error *e);
/*
 * Programs record from now on, or do not: one, or all (NULL), which ends what was said of single ones. -E2BIG: too many
 * single ones; -ENOMEM.
 */
int spoor_ust_session_record(struct spoor_ust_session *s, const struct spoor_ust_process *p, bool on,
			     struct spoor_error *e);
bool spoor_ust_session_records(const struct spoor_ust_session *s, const struct spoor_ust_process *p);
/* Was anything said of its recording since that change? */
bool spoor_ust_session_recorded_since(const struct spoor_ust_session *s, const struct spoor_ust_process *p,
				      uint32_t change);
/* Drops what is said of processes that have ended. */
void spoor_ust_session_forget_ended(struct spoor_ust_session *s);
/* It comes and cannot be recorded. */
bool spoor_apart_has(const struct spoor_ust_session *s, const struct spoor_ust_process *p); /* it did */
void spoor_apart_count(struct spoor_ust_session *s, const struct spoor_ust_process *p, const char *why);
/* One that is counted already. */
void spoor_apart_note(struct spoor_ust_session *s, const struct spoor_apart_who *who);
/* It ran already, and no signal reaches it; */
void spoor_apart_unreached(struct spoor_ust_session *s, const struct spoor_ust_process *p, const char *why);
/* it comes all the same. */
void spoor_apart_comes(struct spoor_ust_session *s, const struct spoor_ust_process *p);
/* It comes, and has sites. true: it had come to a recorder before us, and *how is as it did there. */
bool spoor_came_count(struct spoor_ust_session *s, const struct spoor_ust_process *p, enum spoor_coming *how);
/* Changes with each program that comes late, while it runs, not at all, or first, and with each damaged one. */
static inline uint64_t spoor_ust_session_comings(const struct spoor_ust_session *s)
{
	return (uint64_t)s->n_late + s->n_met + s->n_away + s->apart.n + (s->n_came != 0) + s->damaged_arenas.n +
	       (s->why[0] != 0) + (s->held == SPOOR_HELD_LOST);
}
/* Do rules concern this process? */
bool spoor_ust_session_wants(const struct spoor_ust_session *s, const struct spoor_ust_process *p);
/* p NULL: with the rules of all processes. */
void spoor_ust_session_setup(const struct spoor_ust_session *s, const struct spoor_ust_process *p,
			     struct spoor_control_setup *ret);

/*
 * One round over these programs; what a relay has no room for is lost, and counted. Returns the largest share of an
 * arena that was taken, per mille, or -errno.
 */
int spoor_ust_session_drain(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n,
			    struct spoor_error *e);
/*
 * The same of what was written over a long time, as a flight recorder's buffers have it: in order of time, so that it
 * needs no more lanes than what can be taken at once. For each such piece it looks at all that there is.
 */
int spoor_ust_session_drain_by_time(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n,
				    struct spoor_error *e);
/* The same as far as a relay has room for it, and says in s->missed whether something stays in the buffers yet. */
int spoor_ust_session_take(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n,
			   struct spoor_error *e);
/* Waits until the relay has everything, and gives it back. -ETIMEDOUT. */
int spoor_ust_session_settle(struct spoor_ust_session *s, unsigned ms);
/* Begins the next segment. */
int spoor_ust_session_rotate(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n,
			     struct spoor_error *e);
/* The second half of that, where somebody else began it. */
void spoor_ust_session_segment(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n);
/* What is in the trace, and in flight in the buffers, as a trace of its own at path. */
int spoor_ust_session_snapshot(struct spoor_ust_session *s, struct spoor_source *const *sources, size_t n,
			       const char *path, struct spoor_error *e);
/* The program is gone, or is to be recorded no longer, and all that it wrote was taken: says how it ended. */
void spoor_ust_session_gone(struct spoor_ust_session *s, struct spoor_source *source, enum spoor_program_end end);
/* enum spoor_program_state of a program that ended so. */
unsigned spoor_ust_state(const struct spoor_source *source, enum spoor_program_end end);
/* A buffer that cannot be read, of a program that is damaged. comm: "", not known. false: nothing new to say. */
bool spoor_ust_session_unreadable(struct spoor_ust_session *s, const uint8_t arena[16], const char comm[16],
				  uint32_t pid);
void spoor_ust_session_fails(struct spoor_ust_session *s, const char *why);
void spoor_ust_session_goes_on(struct spoor_ust_session *s); /* it can write again */
