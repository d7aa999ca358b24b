/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The library's begin and end, and recording by environment variables alone (environment.h). */
#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "agent/control/control.h"
#include "agent/core/objects.h"
#include "agent/core/output.h"
#include "agent/core/process.h"
#include "agent/core/reserve.h"
#include "agent/core/sanitizers.h"
#include "agent/ust/ends.h"
#include "agent/ust/environment.h"
#include "agent/ust/exported.h"
#include "agent/ust/probes.h"
#include "agent/ust/rcu.h"
#include "agent/ust/sites.h"

/* A program without a site needs no memory: it gets an arena with the first object that has some. */
static struct alone alone;
static bool alone_waits;

static void record_alone(void)
{
	struct output *o;
	int r;

	if (!alone_waits || !sites_count(&alone.wish.n_stuck))
		return;
	alone_waits = false;
	alone.wish.defs = classes_room(&alone.wish);
	r = output_open(&alone.wish, &o);
	if (r) {
		environment_alone_failed(&alone, r);
		return;
	}
	o->spill_limit = alone.spill_limit;
	sites_record(0, true, o->first_slot);
}

static void wish_alone(void)
{
	/* Now it is cheap: with several threads the kernel lets a grace period pass. */
	sys3(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
	sites_rule(0, &alone.rule, NULL, 0);
	alone_waits = true;
	record_alone();
}

/* In the archive, before whose functions those of libc cannot stand. */
__attribute__((weak)) void ends_begin(bool first)
{
	(void)first;
}

/* The environment of a program that runs with more rights than its caller is not looked at. */
static void start(int argc, char **argv, char **envp)
{
	bool first = !environ; /* libc has not been initialized yet: nobody can have called dlopen */
	char **trusted = getauxval(AT_SECURE) ? NULL : envp;
	bool by_itself;

	(void)argc;
	(void)argv;
	sanitizers_begin();
	ends_begin(first);
	if (!agent_serves() || process_init() || !process_lock())
		return;
	if (!first)
		agent_stay();
	reserve_init();
	outputs_begin_forks(); /* before liburcu's, which has all signals blocked as children begin */
	rcu_begin();
	if (!environ)
		environ = envp;
	environment_clock(trusted);
	code_objects_start(first);
	sites_find_objects();
	by_itself = environment_wants_alone(trusted);
	if (by_itself && environment_alone(trusted, &alone))
		wish_alone();
	process_unlock();
	if (!by_itself)
		spoor_control_start();
}

static void end(void)
{
	if (!agent_serves())
		return;
	spoor_control_stop();
	outputs_end();
}

/*
 * Before the program's constructors and after its destructors, whatever their priority: linked statically they are in
 * one table with ours.
 */
static void (*begin_entry)(int, char **, char **) __attribute__((section(".init_array.00000"), used)) = start;
static void (*end_entry)(void) __attribute__((section(".fini_array.00000"), used)) = end;

void agent_object_in(const void *note)
{
	if (process_init() || !outputs_lock(true))
		return;
	sites_object_in(note);
	record_alone();
	spoor_control_objects();
	spoor_agent_objects();
	process_unlock();
}

void agent_object_out(const void *note)
{
	bool wait;

	if (process_init() || !outputs_lock(true))
		return;
	wait = sites_object_out(note);
	process_unlock();
	if (wait)
		probe_synchronize();
}
