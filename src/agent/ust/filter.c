/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <string.h>

#include "agent/ust/filter.h"
#include "agent/ust/filter_core.h"
#include "agent/ust/filter_run.h"

struct known {
	struct known *next;
	struct filter *f;
	char expression[];
};

static struct known *all;

static const struct filter *find(const char *expression)
{
	const struct known *k;

	for (k = all; k; k = k->next)
		if (!strcmp(k->expression, expression))
			return k->f;
	return NULL;
}

static int keep_filter(const struct filter *made, const char *expression, const struct filter **ret)
{
	struct known *k = keep(sizeof(*k) + strlen(expression) + 1);
	struct filter *f = keep(sizeof(*f));

	if (!k || !f)
		return -ENOMEM;
	memcpy(f, made, sizeof(*f));
	*k = (struct known){ all, f };
	strcpy(k->expression, expression);
	all = k;
	*ret = f;
	return 0;
}

int filter_compile(const char *expression, const struct filter **ret, char *text, unsigned size)
{
	static struct filter made; /* too large for a stack that may be small */
	const char *at, *wrong;
	const struct filter *f = find(expression);

	if (f) {
		*ret = f;
		return 0;
	}
	wrong = filter_parse(expression, &made, &at);
	if (!wrong)
		return keep_filter(&made, expression, ret);
	if (size) {
		strncpy(text, wrong, size - 1);
		text[size - 1] = 0;
	}
	return -EINVAL;
}

static bool has_field(const struct class *c, const char *name)
{
	const char *at = c->fields, *end = at + c->fields_size;

	while (at < end) {
		struct spoor_def_field f;

		memcpy(&f, at, sizeof(f));
		if (!strcmp(at + sizeof(f), name))
			return true;
		at += f.size;
	}
	return filter_is_context(name);
}

const char *filter_field_missing(const struct filter *f, const struct class *c, unsigned *at)
{
	for (; *at < f->n; ++*at) {
		const struct filter_node *n = &f->nodes[*at];

		if (n->op == FILTER_FIELD && !has_field(c, f->text + n->text))
			return f->text + n->text;
	}
	return NULL;
}
