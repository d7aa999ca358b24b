/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MANGLED 4096
#define MAX_READABLE 16384

struct output {
	jmp_buf full;
	size_t len;
	char text[MAX_READABLE + 1];
};

/*
 * libiberty cannot be told to stop, so we leave its callback by a long jump. Its callback interface works on the
 * stack alone (it is made for crash handlers); only a punycode identifier of Rust may leak, once a hostile name.
 */
static void collect(const char *s, size_t n, void *p)
{
	struct output *out = p;

	if (n > MAX_READABLE - out->len)
		longjmp(out->full, 1);
	memcpy(out->text + out->len, s, n);
	out->len += n;
}

static int is_mangled(const char *name)
{
	return !strncmp(name, "_Z", 2) || !strncmp(name, "_R", 2) || !strncmp(name, "__Z", 3) ||
	       !strncmp(name, "___Z", 4);
}

static int demangle_into(const char *name, struct output *out)
{
	if (setjmp(out->full))
		return 0;
	if (rust_demangle_callback(name, DMGL_ANSI, collect, out))
		return 1;
	out->len = 0;
	return !strncmp(name, "_Z", 2) && cplus_demangle_v3_callback(name, DMGL_ANSI, collect, out);
}

char *spoor_demangle(const char *name)
{
	struct output *out;
	char *ret = NULL;

	if (!is_mangled(name) || strnlen(name, MAX_MANGLED) == MAX_MANGLED)
		return NULL;
	out = malloc(sizeof(*out));
	if (!out)
		return NULL;
	out->len = 0;
	if (demangle_into(name, out) && out->len) {
		out->text[out->len] = 0;
		ret = strdup(out->text);
	}
	free(out);
	return ret;
}
