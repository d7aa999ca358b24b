/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/filter.h"

#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "base/strings.h"
#include "collect/kernel/control.h"
#include "trace/syscalls.h"

#define MAX_ITEM 256
#define BLANKS " \t"
#define UNKNOWN "syscall_"
#define N_ELEMENTS(a) (sizeof(a) / sizeof(*(a)))

/* One item, cut into its parts. */
struct item {
	bool remove;
	const char *selector;
	const char *mode; /* NULL: none given */
	char text[MAX_ITEM];
};

/* What an item selects. */
struct selection {
	bool ids[SPOOR_SYSCALL_MAX];
	bool other;
	bool one;        /* not `other`, but this: */
	uint64_t number; /* as in struct spoor_filter */
};

static const char *const mode_names[] = {
	[SPOOR_MODE_NONE] = "none", [SPOOR_MODE_APP] = "app", [SPOOR_MODE_APP_ALL] = "app-all",
	[SPOOR_MODE_LIB] = "lib",   [SPOOR_MODE_ALL] = "all", [SPOOR_MODE_CUSTOM] = "custom",
};
_Static_assert(N_ELEMENTS(mode_names) == SPOOR_MODE_MAX, "a mode has no name");

const char *const spoor_unwind_words[] = { "cfi", "fp", "scan", NULL };

static const struct {
	const char *name;
	uint16_t bit;
} classes[] = {
	{ "%file", SPOOR_CLASS_FILE },       { "%network", SPOOR_CLASS_NETWORK }, { "%net", SPOOR_CLASS_NETWORK },
	{ "%process", SPOOR_CLASS_PROCESS }, { "%desc", SPOOR_CLASS_DESC },       { "%memory", SPOOR_CLASS_MEMORY },
	{ "%signal", SPOOR_CLASS_SIGNAL },   { "%ipc", SPOOR_CLASS_IPC },
};

/* ---- errors: what was typed is quoted, and may hold anything ---- */

struct quoted {
	char text[96];
};

static struct quoted quote(const char *s)
{
	struct quoted q;

	spoor_escape_terminal(s, strlen(s), q.text, sizeof(q.text));
	return q;
}

/* ", did you mean 'openat'?", or nothing. */
static struct quoted suggest(const char *word, const char *const *candidates, size_t n)
{
	const char *nearest = spoor_nearest(word, candidates, n);
	struct quoted q = { "" };

	if (nearest)
		snprintf(q.text, sizeof(q.text), ", did you mean '%s'?", nearest);
	return q;
}

static int fail_name(const char *name, struct spoor_error *e)
{
	const char *names[SPOOR_SYSCALL_MAX + N_ELEMENTS(classes) + 1] = { "all" };
	size_t n = 1;

	for (size_t i = 0; i < N_ELEMENTS(classes); i++)
		if (!strcmp(name, classes[i].name + 1))
			return spoor_fail(e, EINVAL, "-e: no system call is named '%s', but '%s' is a class", name,
					  classes[i].name);
	for (unsigned id = 0; id < SPOOR_SYSCALL_MAX; id++)
		if (spoor_syscall_info(id)->name)
			names[n++] = spoor_syscall_info(id)->name;
	return spoor_fail(e, EINVAL, "-e: no system call is named '%s'%s", quote(name).text,
			  suggest(name, names, n).text);
}

static int fail_class(const char *name, struct spoor_error *e)
{
	const char *names[N_ELEMENTS(classes)];

	for (size_t i = 0; i < N_ELEMENTS(classes); i++)
		names[i] = classes[i].name;
	return spoor_fail(e, EINVAL, "-e: no class '%s'%s (%%file %%network %%process %%desc %%memory %%signal %%ipc)",
			  quote(name).text, suggest(name, names, N_ELEMENTS(names)).text);
}

/* ---- modes ---- */

bool spoor_filter_uses(const struct spoor_filter *f, unsigned mode)
{
	return f->other == SPOOR_FILTER_MODE(mode) || memchr(f->mode, SPOOR_FILTER_MODE(mode), sizeof(f->mode));
}

bool spoor_filter_has_default(const struct spoor_filter *f)
{
	return f->other == SPOOR_FILTER_DEFAULT || memchr(f->mode, SPOOR_FILTER_DEFAULT, sizeof(f->mode));
}

bool spoor_filter_is_empty(const struct spoor_filter *f)
{
	for (unsigned id = 0; id < SPOOR_SYSCALL_MAX; id++)
		if (f->mode[id] != SPOOR_FILTER_NONE && spoor_syscall_info(id)->name)
			return false;
	return f->other == SPOOR_FILTER_NONE && !f->n_numbers;
}

int spoor_mode_parse(const char *name, struct spoor_error *e)
{
	for (unsigned mode = 0; mode < N_ELEMENTS(mode_names); mode++)
		if (!strcmp(name, mode_names[mode]))
			return mode;
	return spoor_fail(e, EINVAL, "no mode '%s'%s (none, app, app-all, lib, all, custom)", quote(name).text,
			  suggest(name, mode_names, N_ELEMENTS(mode_names)).text);
}

const char *spoor_mode_name(unsigned mode)
{
	return mode < N_ELEMENTS(mode_names) ? mode_names[mode] : NULL;
}

/* ---- selectors ---- */

static int select_class(struct selection *s, const char *name, struct spoor_error *e)
{
	unsigned bit = 0;

	for (size_t i = 0; i < N_ELEMENTS(classes); i++)
		if (!strcmp(name, classes[i].name))
			bit = classes[i].bit;
	if (!bit)
		return fail_class(name, e);
	for (unsigned id = 0; id < SPOOR_SYSCALL_MAX; id++)
		s->ids[id] = spoor_syscall_info(id)->classes & bit;
	return 0;
}

/* Repetition counts and back references can take glibc's regcomp() and regexec() time and memory without end. */
static bool regex_is_bounded(const char *pattern)
{
	for (const char *c = pattern; *c; c++) {
		if (*c == '{')
			return false;
		if (*c == '\\' && c[1] && strchr("123456789", *++c))
			return false;
	}
	return true;
}

static int select_regex(struct selection *s, const char *pattern, struct spoor_error *e)
{
	unsigned matches = 0;
	char reason[128];
	regex_t regex;
	int err;

	if (!*pattern || !regex_is_bounded(pattern))
		return spoor_fail(e, EINVAL, "-e: /%s/: %s", quote(pattern).text,
				  *pattern ? "{n,m} and back references are not supported" :
					     "empty regular expression");
	err = regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB);
	if (err) {
		regerror(err, &regex, reason, sizeof(reason));
		return spoor_fail(e, EINVAL, "-e: /%s/: %s", quote(pattern).text, reason);
	}
	for (unsigned id = 0; id < SPOOR_SYSCALL_MAX; id++) {
		const char *name = spoor_syscall_info(id)->name;

		s->ids[id] = name && !regexec(&regex, name, 0, NULL, 0);
		matches += s->ids[id];
	}
	/* Only who means them is to get them. */
	s->other = strstr(pattern, UNKNOWN) && !regexec(&regex, UNKNOWN, 0, NULL, 0);
	matches += s->other;
	regfree(&regex);
	return matches ? 0 : spoor_fail(e, EINVAL, "-e: /%s/ matches no system call", quote(pattern).text);
}

/* As calls are called that the table has no name for. */
static bool select_unknown(struct selection *s, const char *name, bool only_i386)
{
	uint64_t nr;

	if (strncmp(name, UNKNOWN, strlen(UNKNOWN)) || spoor_parse_number(name + strlen(UNKNOWN), 0, UINT32_MAX, &nr))
		return false;
	s->number = nr | (only_i386 ? SPOOR_FILTER_I386 : 0);
	s->one = nr >= SPOOR_SYSCALL_I386 || (!only_i386 && !spoor_syscall_info(nr)->name) ||
		 !spoor_syscall_info(SPOOR_SYSCALL_I386 + nr)->name;
	return s->one;
}

/* "getpid", of both ABIs; "i386_getpid", as such a call is shown: of that one. */
static int select_name(struct selection *s, const char *said, struct spoor_error *e)
{
	bool only_i386 = !strncmp(said, "i386_", 5);
	const char *name = only_i386 ? said + 5 : said;
	int x86_64 = only_i386 ? -ENOENT : spoor_syscall_by_name(name), i386 = spoor_syscall_by_name_i386(name);

	if (select_unknown(s, name, only_i386))
		return 0;
	if (x86_64 < 0 && i386 < 0)
		return fail_name(said, e);
	if (x86_64 >= 0)
		s->ids[x86_64] = true;
	if (i386 >= 0)
		s->ids[i386] = true;
	return 0;
}

static int select_calls(struct selection *s, const char *selector, struct spoor_error *e)
{
	memset(s, 0, sizeof(*s));
	if (!strcmp(selector, "all")) {
		memset(s->ids, true, sizeof(s->ids));
		s->other = true;
		return 0;
	}
	if (*selector == '%')
		return select_class(s, selector, e);
	if (*selector == '/')
		return select_regex(s, selector + 1, e);
	return select_name(s, selector, e);
}

/* ---- items ---- */

/* Length of the item at s. A comma in a regular expression does not end it. */
static size_t item_length(const char *s)
{
	const char *end = s + strspn(s, BLANKS "!");

	if (*end == '/')
		do
			end += 1 + (*end == '\\' && end[1]);
		while (*end && *end != '/');
	return end + strcspn(end, ",") - s;
}

/* Ends the text at `at`, blanks before it included. */
static void cut(char *start, char *at)
{
	while (at > start && strchr(BLANKS, at[-1]))
		at--;
	*at = '\0';
}

/* "/.../" -> "/...": the closing slash must be the last character. */
static char *regex_end(char *selector)
{
	char *c = selector + 1;

	while (*c && *c != '/')
		c += 1 + (*c == '\\' && c[1]);
	return *c ? c : NULL;
}

static int split_item(struct item *item, const char *s, size_t len, struct spoor_error *e)
{
	char *selector = item->text, *end, *equals;

	if (len >= sizeof(item->text))
		return spoor_fail(e, EINVAL, "-e: an item is longer than %d characters", MAX_ITEM - 1);
	memcpy(selector, s, len);
	cut(selector, selector + len);
	selector += strspn(selector, BLANKS);
	item->remove = *selector == '!';
	if (item->remove)
		selector += 1 + strspn(selector + 1, BLANKS);
	end = selector;
	if (*selector == '/') {
		end = regex_end(selector);
		if (!end)
			return spoor_fail(e, EINVAL, "-e: %s: the closing '/' is missing", quote(selector).text);
		*end++ = '\0';
	}
	equals = end + strcspn(end, "=");
	item->mode = *equals ? equals + 1 + strspn(equals + 1, BLANKS) : NULL;
	cut(end, equals);
	if (end != selector && *end)
		return spoor_fail(e, EINVAL, "-e: %s/%s: '=MODE' or nothing may follow a regular expression",
				  quote(selector).text, quote(end).text);
	if (!*selector)
		return spoor_fail(e, EINVAL,
				  "-e: empty item (write NAME, %%CLASS, /REGEX/ or all, separated by commas)");
	item->selector = selector;
	return 0;
}

static int apply_one(struct spoor_filter *f, uint64_t number, uint8_t value, struct spoor_error *e)
{
	unsigned i = 0;

	if (f->other != SPOOR_FILTER_NONE)
		return value != SPOOR_FILTER_NONE ?
			       0 :
			       spoor_fail(e, EINVAL, "-e: calls without a name are not left out one by one");
	while (i < f->n_numbers && f->numbers[i] != number)
		i++;
	if (value != SPOOR_FILTER_NONE && i == SPOOR_FILTER_NUMBERS)
		return spoor_fail(e, EINVAL, "-e: more than %d calls without a name", SPOOR_FILTER_NUMBERS);
	if (value != SPOOR_FILTER_NONE) {
		f->n_numbers += i == f->n_numbers;
		f->numbers[i] = number;
	} else if (i < f->n_numbers) {
		f->numbers[i] = f->numbers[--f->n_numbers];
		f->numbers[f->n_numbers] = 0;
	}
	return 0;
}

static int apply(struct spoor_filter *f, const struct selection *s, uint8_t value, struct spoor_error *e)
{
	if (value != SPOOR_FILTER_NONE && !f->chosen) {
		memset(f->mode, SPOOR_FILTER_NONE, sizeof(f->mode));
		f->other = SPOOR_FILTER_NONE;
		f->chosen = true;
	}
	for (unsigned id = 0; id < SPOOR_SYSCALL_MAX; id++)
		if (s->ids[id])
			f->mode[id] = value;
	if (s->other) {
		f->other = value;
		f->n_numbers = 0;
		memset(f->numbers, 0, sizeof(f->numbers));
	}
	return s->one ? apply_one(f, s->number, value, e) : 0;
}

static int item_value(const struct item *item, struct spoor_error *e)
{
	int mode;

	if (item->remove && item->mode)
		return spoor_fail(e, EINVAL,
				  "-e: '%s' is removed by the '!', so '=%s' means nothing; "
				  "to add and remove write two -e",
				  quote(item->selector).text, quote(item->mode).text);
	if (item->remove)
		return SPOOR_FILTER_NONE;
	if (!item->mode)
		return SPOOR_FILTER_DEFAULT;
	mode = spoor_mode_parse(item->mode, e);
	return mode < 0 ? mode : SPOOR_FILTER_MODE(mode);
}

int spoor_filter_init(struct spoor_filter *f)
{
	memset(f, 0, sizeof(*f));
	memset(f->mode, SPOOR_FILTER_DEFAULT, sizeof(f->mode));
	f->other = SPOOR_FILTER_DEFAULT;
	return 0;
}

int spoor_filter_parse(struct spoor_filter *f, const char *expr, struct spoor_error *e)
{
	bool remove_all = expr[strspn(expr, BLANKS)] == '!';
	struct spoor_filter changed = *f;

	for (const char *s = expr;; s++) {
		size_t len = item_length(s);
		struct selection selection;
		struct item item = { .selector = "" };
		int value, err;

		err = split_item(&item, s, len, e);
		if (err)
			return err;
		item.remove |= remove_all;
		value = item_value(&item, e);
		if (value < 0)
			return value;
		err = select_calls(&selection, item.selector, e);
		if (err)
			return err;
		err = apply(&changed, &selection, value, e);
		if (err)
			return err;
		s += len;
		if (!*s)
			break;
	}
	*f = changed;
	return 0;
}

int spoor_filter_parse_kernel(struct spoor_filter *f, const char *expr, struct spoor_error *e)
{
	struct spoor_filter changed = *f;
	int r = spoor_filter_parse(&changed, expr, e);

	if (r)
		return r;
	if (changed.n_numbers)
		return spoor_fail(e, EINVAL, "-e: of calls without a name all are taken or none (/" UNKNOWN "/)");
	*f = changed;
	return 0;
}
