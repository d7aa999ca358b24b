/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Which system calls are recorded, and each with which stack: `-e EXPR`.
 *
 *   EXPR     = ["!"] ITEM { "," ITEM }
 *   ITEM     = ["!"] SELECTOR ["=" MODE]
 *   SELECTOR = NAME        openat: the call of that name, of x86-64 and of i386
 *            | "%" CLASS   %file %network (or %net) %process %desc %memory %signal %ipc
 *            | "/" ERE "/" POSIX extended regular expression, found anywhere in the name; without {n,m} and \1
 *            | "all"
 *   MODE     = "none" | "app" | "app-all" | "lib" | "all" | "custom"
 *
 * Without -e everything is recorded. Items work from left to right, over several -e as over one: the first that adds
 * clears this default, so `-e openat` records openat alone while `-e '!futex'` records the rest. A "!" before an item
 * removes what it selects; before the whole list it removes everything in the list, as in strace. Without "=MODE" a
 * call has the recording's own mode, also if an item further left gave it another.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "trace/record.h"

#define SPOOR_FILTER_NONE 0                  /* not recorded */
#define SPOOR_FILTER_DEFAULT 1               /* recorded with the recording's mode, whatever that is at the time */
#define SPOOR_FILTER_MODE(mode) (2 + (mode)) /* recorded with this enum spoor_mode (collect/kernel/control.h) */

#define SPOOR_FILTER_NUMBERS 8
#define SPOOR_FILTER_I386 (1ULL << 32)

struct spoor_filter {
	uint8_t mode[SPOOR_SYSCALL_MAX]; /* SPOOR_FILTER_*, by event id */
	uint8_t other;                   /* the same of numbers without a name: "all" and regular
					  * expressions with "syscall_" select them */
	bool chosen;                     /* an item added something: the default is gone */
	uint8_t n_numbers;               /* of numbers: which ones without a name, while other is NONE */
	uint64_t numbers[SPOOR_FILTER_NUMBERS]; /* and SPOOR_FILTER_I386 if it is of that ABI alone */
};

/* Everything, in the default mode. Owns nothing. Returns 0. */
int spoor_filter_init(struct spoor_filter *f);

/* Applies one -e. 0, or -EINVAL with the reason and a suggestion in e (may be NULL); f is then unchanged. */
int spoor_filter_parse(struct spoor_filter *f, const char *expr, struct spoor_error *e);

/* The same of what is recorded or counted, where calls without a name are one: -EINVAL if one of them is meant. */
int spoor_filter_parse_kernel(struct spoor_filter *f, const char *expr, struct spoor_error *e);

/* Is no call selected at all? */
bool spoor_filter_is_empty(const struct spoor_filter *f);

/* Has some call this enum spoor_mode of its own? */
bool spoor_filter_uses(const struct spoor_filter *f, unsigned mode);

/* Has some call the recording's own mode? */
bool spoor_filter_has_default(const struct spoor_filter *f);

/* enum spoor_mode of "app-all" and so on, or -EINVAL with the reason; also for -m. */
int spoor_mode_parse(const char *name, struct spoor_error *e);
/* "app-all"; NULL if there is no such mode. */
const char *spoor_mode_name(unsigned mode);
/* Of enum spoor_unwind, and NULL behind them. */
extern const char *const spoor_unwind_words[];
