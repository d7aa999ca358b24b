/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `spoor ust`: what concerns programs that trace themselves. One file a word that follows: ust_WORD.c. */
#include "cmd/ust.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/strings.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/ust_options.h"
#include "collect/user/hub.h"

static const struct word {
	const char *name;
	int (*run)(int argc, char **argv);
} words[] = {
	{ "run", spoor_ust_cmd_run },         { "list", spoor_ust_cmd_list },
	{ "create", spoor_ust_cmd_control },  { "start", spoor_ust_cmd_control },
	{ "stop", spoor_ust_cmd_control },    { "end", spoor_ust_cmd_control },
	{ "enable", spoor_ust_cmd_control },  { "disable", spoor_ust_cmd_control },
	{ "status", spoor_ust_cmd_control },  { "snapshot", spoor_ust_cmd_control },
	{ "recover", spoor_ust_cmd_recover },
};
#define N_WORDS (sizeof(words) / sizeof(*words))

void spoor_ust_say(const char *text)
{
	spoor_cmd_say("ust", text);
}

const char *spoor_ust_losses(uint64_t lost, uint64_t overwritten, char *to, size_t size)
{
	int n = snprintf(to, size, "%" PRIu64 " lost", lost);

	if (overwritten)
		snprintf(to + n, size - n, ", %" PRIu64 " overwritten", overwritten);
	return to;
}

const char *spoor_ust_dropped(unsigned segments, char *to, size_t size)
{
	*to = '\0';
	if (segments)
		snprintf(to, size, ", the oldest %u %s dropped", segments,
			 spoor_plural(segments, "segment", "segments"));
	return to;
}

const char *spoor_ust_sum(const struct spoor_hub_result *r, char *to, size_t size)
{
	char losses[64], dropped[48];

	snprintf(to, size, "%" PRIu64 " %s of %u %s, %s%s; %.1f MB", r->events,
		 spoor_plural(r->events, "event", "events"), r->programs,
		 spoor_plural(r->programs, "program", "programs"),
		 spoor_ust_losses(r->lost, r->overwritten, losses, sizeof(losses)),
		 spoor_ust_dropped(r->dropped, dropped, sizeof(dropped)), r->bytes / 1e6);
	return to;
}

const char *spoor_ust_not_recorded(const struct spoor_ust_apart *a, char *to, size_t size)
{
	const char *how = !a->unreached ? "came" : a->unreached < a->n ? "came or ran already" : "ran already";

	snprintf(to, size, "%u %s that %s %s not recorded: %s%s", a->n, spoor_plural(a->n, "program", "programs"), how,
		 spoor_plural(a->n, "is", "are"), a->why, a->differ ? "; others for other reasons" : "");
	return to;
}

const char *spoor_ust_damaged(const struct spoor_user_damaged *d, char *to, size_t size)
{
	unsigned more = d->n > SPOOR_DAMAGED_NAMED ? d->n - SPOOR_DAMAGED_NAMED : 0;
	char others[32] = "";

	if (more)
		snprintf(others, sizeof(others), " and %u more", more);
	snprintf(to, size, "%s%s wrote what made no sense into %s, in %" PRIu64 " %s; what that hid is lost", d->who,
		 others, spoor_plural(d->n, "its own buffer", "their own buffers"), d->places,
		 spoor_plural(d->places, "place", "places"));
	return to;
}

const char *spoor_ust_undescribed(uint64_t n, char *to, size_t size)
{
	snprintf(to, size,
		 "of what is lost, %" PRIu64 " %s no description that makes sense, or could be stored: nobody can say "
		 "what is in them",
		 n, spoor_plural(n, "event has", "events have"));
	return to;
}

static void say_escaped(const char *text)
{
	char shown[1024];

	spoor_escape_terminal(text, strlen(text), shown, sizeof(shown));
	fprintf(stderr, "spoor: %s\n", shown);
}

const char *spoor_ust_uncounted(uint32_t contexts, char *to, size_t size)
{
	const char *name;
	size_t n = 0;

	for (unsigned i = 0; i < 32 && n < size; i++)
		if (contexts >> i & 1 && (name = spoor_ust_context_name(i)))
			n += snprintf(to + n, size - n, "%s%s", n ? ", " : "", name);
	if (n < size)
		snprintf(to + n, size - n,
			 ": 0 in some events, as their program could not have it: not permitted "
			 "(/proc/sys/kernel/perf_event_paranoid, seccomp), no such counter, no descriptor for it "
			 "(ulimit -n), or closed");
	return to;
}

void spoor_ust_say_uncounted(uint32_t contexts)
{
	char text[512];

	if (contexts)
		say_escaped(spoor_ust_uncounted(contexts, text, sizeof(text)));
}

void spoor_ust_say_damaged(const struct spoor_user_damaged *d)
{
	char text[384];

	if (d->n)
		say_escaped(spoor_ust_damaged(d, text, sizeof(text)));
}

void spoor_ust_say_undescribed(uint64_t n)
{
	char text[192];

	if (n)
		say_escaped(spoor_ust_undescribed(n, text, sizeof(text)));
}

void spoor_ust_say_not_recorded(const struct spoor_ust_apart *a)
{
	char text[384];

	if (a->n)
		say_escaped(spoor_ust_not_recorded(a, text, sizeof(text)));
}

const char *spoor_ust_for_nothing(const struct spoor_hub_result *r, char *to, size_t size)
{
	snprintf(to, size,
		 "%u %s came, and no event: did they reach any whose name ('spoor ust list PID') and filter fit the "
		 "session's?",
		 r->came, spoor_plural(r->came, "program", "programs"));
	return to;
}

static void say_nothing(const struct spoor_hub_result *result)
{
	char text[200];

	if (result->came)
		fprintf(stderr, "spoor: %s\n", spoor_ust_for_nothing(result, text, sizeof(text)));
	else
		fprintf(stderr,
			"spoor: no event came: has the command tracepoints ('spoor ust list FILE'), and was any asked "
			"for? In a container the recorder's socket and the library must be there, too\n");
}

void spoor_ust_say_end(const struct spoor_hub_result *result)
{
	if (result->crashed)
		fprintf(stderr, "spoor: %u of them ended by a crash; what they had written is there\n",
			result->crashed);
	spoor_ust_say_damaged(&result->damaged);
	spoor_ust_say_undescribed(result->undescribed);
	spoor_ust_say_uncounted(result->uncounted);
	if (result->late)
		fprintf(stderr, "spoor: %u of them joined late: they began before the recorder answered them\n",
			result->late);
	if (result->stuck)
		fprintf(stderr, "spoor: %u %s could not be traced wholly: " SPOOR_HUB_STUCK "\n", result->stuck,
			spoor_plural(result->stuck, "program", "programs"));
	if (result->go_on)
		fprintf(stderr, "spoor: %u %s on, recorded no more: 'spoor daemon' records what outlives a command\n",
			result->go_on, spoor_plural(result->go_on, "program goes", "programs go"));
	spoor_ust_say_not_recorded(&result->apart);
	if (!result->events && !result->lost && !result->damaged.n && !result->stuck && !result->apart.n)
		say_nothing(result);
	if (result->why[0])
		spoor_ust_say(result->why);
}

static int unknown(const char *word)
{
	const char *names[N_WORDS], *nearest;
	char shown[128];

	for (size_t i = 0; i < N_WORDS; i++)
		names[i] = words[i].name;
	nearest = spoor_nearest(word, names, N_WORDS);
	spoor_escape_terminal(word, strlen(word), shown, sizeof(shown));
	fprintf(stderr, "spoor ust: there is no '%s'", shown);
	if (nearest)
		fprintf(stderr, "; did you mean 'spoor ust %s'?\n", nearest);
	else
		fputs("; 'spoor help ust' has the list\n", stderr);
	return SPOOR_EXIT_USAGE;
}

int spoor_cmd_ust(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL;

	if (!word) {
		spoor_ust_say("run, list, create, start, stop, end, enable, disable, status, snapshot, recover; "
			      "'spoor help ust' tells more");
		return SPOOR_EXIT_USAGE;
	}
	if (!strcmp(word, "-h") || !strcmp(word, "--help"))
		return spoor_cmd_usage("ust");
	for (size_t i = 0; i < N_WORDS; i++)
		if (!strcmp(word, words[i].name))
			return words[i].run(argc - 1, argv + 1);
	return unknown(word);
}
