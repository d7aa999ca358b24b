/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Counters as `spoor stat` shows them: what makes, prints and checks them. */
#include "counters_fixture.h"
#include "present/stat_text.h"

static inline char *print(const struct spoor_counters *c, const struct spoor_stat_view *v)
{
	size_t size;
	char *text;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(spoor_stat_print(out, c, v), 0);
	fclose(out);
	return text;
}

/* One task of few calls. */
static inline void make_simple(struct spoor_counters *c)
{
	struct spoor_task_counters *t = add_named(c, 20, 20, "lego");

	t->threads = 46;
	count(t, READ, 0, 13, 1000003)->errors = 7;
	spoor_call_add_errno(&t->calls[0], EINTR, 2);
	spoor_call_add_errno(&t->calls[0], EAGAIN, 4);
	count(t, GETPPID, 0, 7919, 67);
	count(t, WRITE, 0, 1, 333);
}

/* Stacks 1 and 2 are of one site; 9 is something else in each process. */
static inline char *site(void *p, pid_t pid, uint32_t stack)
{
	char *text = NULL;

	if (asprintf(&text, stack <= 2 ? "main x.c:5" : "jit_%d_%u", pid, stack) < 0)
		return NULL;
	return text;
}

static inline void site_json(void *p, FILE *out, pid_t pid, uint32_t stack)
{
	fprintf(out, "[{\"frame\":%u}]", stack);
}

static inline void make_sites(struct spoor_counters *c)
{
	for (pid_t pid = 1; pid <= 2; pid++) {
		struct spoor_task_counters *t = add_named(c, pid, pid, "app");

		count(t, READ, 1, 3, 1000);
		count(t, READ, 2, 5, 1000);
		count(t, READ, 9, 7, 100);
		count(t, GETPPID, 0, 11, 10);
	}
}

static inline void assert_clean(const char *text, int utf8)
{
	for (const char *s = text; *s; s++)
		assert_true(*s == '\n' || ((unsigned char)*s >= ' ' && *s != 0x7f && (utf8 || !(*s & 0x80))));
}

/* Names that would take over a terminal or break the JSON if they were printed as they are. */
static const char *const hostile[] = {
	"\033]0;owned\a",
	"\033[2J\033[31mx",
	"a\nb\rc\td\b",
	"\x9b"
	"31m\x80\xff",
	"\xe2\x80\xae"
	"evil",
	"na\xc3\xafve \xe2\x82\xac",
	"\"\\{}[],:",
	"0123456789abcdef",
	"\x7f\x01\x02\x03",
	"",
};
#define N_HOSTILE (sizeof(hostile) / sizeof(*hostile))

static inline char *hostile_site(void *p, pid_t pid, uint32_t stack)
{
	return strdup(hostile[stack % N_HOSTILE]);
}

/* A process of each name with a call at each site. */
static inline void make_hostile(struct spoor_counters *c)
{
	for (unsigned i = 0; i < N_HOSTILE; i++)
		for (unsigned k = 0; k < N_HOSTILE; k++)
			count(add_named(c, 1 + (pid_t)i, 1 + (pid_t)i, hostile[i]), READ, k + 1, 1, 5);
}
