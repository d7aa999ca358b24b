/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The verbs. Each is int spoor_cmd_X(argc, argv) with argv[0] the verb, in src/cmd/X.c; main.c's table gives dispatch,
 * `spoor help` and bash completion, docs/X.md gives its page. The returned number is the exit code: 0 ok, 1 failed,
 * 2 usage, or as below.
 */
#include <stdio.h>

#define SPOOR_EXIT_OK 0
#define SPOOR_EXIT_FAILED 1
#define SPOOR_EXIT_USAGE 2
#define SPOOR_EXIT_ON_ITS_WAY 3 /* `ust end`: the trace is not at the relay yet */
#define SPOOR_EXIT_INTERNAL 125 /* `record`, `stat`, `ust run -- CMD`: Spoor itself failed */

int spoor_cmd_check(int argc, char **argv);
int spoor_cmd_daemon(int argc, char **argv);
int spoor_cmd_help(int argc, char **argv);
int spoor_cmd_pack(int argc, char **argv);
int spoor_cmd_record(int argc, char **argv);
int spoor_cmd_repair(int argc, char **argv);
int spoor_cmd_relay(int argc, char **argv);
int spoor_cmd_report(int argc, char **argv);
int spoor_cmd_stat(int argc, char **argv);
int spoor_cmd_ust(int argc, char **argv);
int spoor_cmd_version(int argc, char **argv);

/* `spoor VERB -h`: synopsis, options and examples of the verb's page. Returns SPOOR_EXIT_OK. */
int spoor_cmd_usage(const char *verb);

/*
 * A page of docs/ as text, compiled in (scripts/md2man.py --c), so that help needs no installed file. A section is
 * a heading's words and what stands below it up to the next.
 */
struct spoor_page {
	const char *verb;
	const char *text;
};
extern const struct spoor_page spoor_pages[];
extern const size_t spoor_pages_n;

/*
 * Text for a person: through $PAGER (less) if stdout is a terminal, else stdout itself. Closing waits for the pager.
 * Never fails: without a pager it is stdout, which main() flushes and checks.
 */
struct spoor_pager {
	FILE *out;
	int pid; /* 0: no pager */
};
struct spoor_pager spoor_pager_open(void);
void spoor_pager_close(struct spoor_pager *p);
