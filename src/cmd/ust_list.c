/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `spoor ust list`: the sites of files and of processes. Needs no recorder, and of a process only to read it. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/strings.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/ust.h"
#include "cmd/ust_options.h"
#include "collect/user/sites.h"

struct list {
	uint32_t pid;        /* at hand; 0: a file */
	bool json, sdt, all; /* sdt: of processes, too */
	uint64_t n;
};

static const char *const kinds[] = { "tracepoint", "marker", "log", "sdt" };
static const char *const states[] = { "?", "off", "on" };
static const char *const ways[] = { "patched", "flag", "mem", "refused", "absent" };

static const char *shown(const char *text, char *buf, size_t size)
{
	spoor_escape_terminal(text, strlen(text), buf, size);
	return buf;
}

static void print_text(const struct list *l, const struct spoor_site_info *s)
{
	char a[512], b[512], c[4096];

	if (l->pid)
		printf("%u ", l->pid);
	if (s->channels && *s->channels)
		printf("%s/", shown(s->channels, a, sizeof(a)));
	printf("%s:%s", shown(s->provider, a, sizeof(a)), shown(s->name, b, sizeof(b)));
	if (l->pid && s->kind != SPOOR_SITE_SDT)
		printf(" %s", states[s->state]);
	printf(" %s", kinds[s->kind]);
	if (s->kind != SPOOR_SITE_SDT)
		printf(" %s", ways[s->way]);
	if (s->level >= 0)
		printf(" %s", spoor_ust_level_name(s->level));
	printf(s->kind == SPOOR_SITE_MARKER || s->kind == SPOOR_SITE_LOG ? " \"%s\"" : " (%s)",
	       shown(s->fields, c, sizeof(c)));
	if (*s->file)
		printf(" %s:%u", shown(s->file, a, sizeof(a)), s->line);
	printf(" %s+0x%lx\n", shown(s->object, b, sizeof(b)), (unsigned long)s->code);
}

static void print_string(const char *key, const char *value)
{
	char buf[8192];

	spoor_escape_json(value, strlen(value), buf, sizeof(buf));
	printf(",\"%s\":\"%s\"", key, buf);
}

static void print_json(const struct list *l, const struct spoor_site_info *s)
{
	char name[2048];

	snprintf(name, sizeof(name), "%s:%s", s->provider, s->name);
	printf("{\"pid\":%u", l->pid);
	print_string("event", name);
	print_string("kind", kinds[s->kind]);
	if (l->pid && s->kind != SPOOR_SITE_SDT)
		print_string("state", states[s->state]);
	if (s->channels && *s->channels)
		print_string("channels", s->channels);
	if (s->kind != SPOOR_SITE_SDT)
		print_string("how", ways[s->way]);
	if (s->level >= 0)
		print_string("level", spoor_ust_level_name(s->level));
	print_string(s->kind == SPOOR_SITE_MARKER || s->kind == SPOOR_SITE_LOG ? "format" : "fields", s->fields);
	print_string("file", s->file);
	printf(",\"line\":%u", s->line);
	print_string("object", s->object);
	printf(",\"address\":\"0x%lx\"}\n", (unsigned long)s->code);
}

static void on_site(void *ctx, const struct spoor_site_info *s)
{
	struct list *l = ctx;

	l->n++;
	if (l->json)
		print_json(l, s);
	else
		print_text(l, s);
}

static bool is_number(const char *s)
{
	if (!*s)
		return false;
	for (; *s; s++)
		if (!isdigit((unsigned char)*s))
			return false;
	return true;
}

static int list_one(struct list *l, const char *what)
{
	struct spoor_error e = { "" };
	uint64_t pid = 0;
	int r;

	if (is_number(what) && !spoor_parse_number(what, 1, INT_MAX, &pid)) {
		l->pid = pid;
		r = spoor_sites_of_process(pid, l->sdt, on_site, l, &e);
	} else {
		l->pid = 0;
		r = spoor_sites_of_file(what, on_site, l, &e);
	}
	if (r < 0) {
		spoor_ust_say(e.text);
		return SPOOR_EXIT_FAILED;
	}
	return SPOOR_EXIT_OK;
}

static void list_all(struct list *l)
{
	struct dirent *d;
	DIR *proc = opendir("/proc");

	while (proc && (d = readdir(proc)))
		if (is_number(d->d_name)) {
			l->pid = atoi(d->d_name);
			spoor_sites_of_process(l->pid, l->sdt, on_site, l, NULL);
		}
	if (proc)
		closedir(proc);
}

static const struct spoor_option options[] = {
	{ "all", 'a', SPOOR_OPTION_FLAG, SPOOR_AT(struct list, all) },
	{ "sdt", 0, SPOOR_OPTION_FLAG, SPOOR_AT(struct list, sdt) },
	{ "format", 'f', SPOOR_OPTION_WORD, SPOOR_AT(struct list, json), .words = spoor_format_words },
	{},
};

int spoor_ust_cmd_list(int argc, char **argv)
{
	const struct spoor_command_line line = { .verb = "ust list", .options = options };
	struct spoor_error e = { "" };
	struct list l = {};
	int r = spoor_options_parse(&line, argc, argv, &l, NULL, &e), code = SPOOR_EXIT_OK;

	if (r > 0)
		return spoor_cmd_usage("ust");
	if (!r && !l.all && optind == argc)
		r = spoor_fail(&e, EINVAL, "of what? spoor ust list FILE|PID... or -a");
	if (r)
		return spoor_cmd_misuse("ust", &e);
	if (l.all)
		list_all(&l);
	for (; optind < argc; optind++) {
		r = list_one(&l, argv[optind]);
		code = r ? r : code;
	}
	if (!l.n && code == SPOOR_EXIT_OK && !l.json)
		fputs("no tracepoints, markers or SDT probes\n", stderr);
	return code;
}
