/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "agent/ust/marker_plan.h"

struct parser {
	struct marker_plan *plan;
	const char *text; /* what stands before the conversion under way */
	const char *hint; /* `#`, or NULL */
	char *at;
	const char *end;
	int n_fields;
	char *names[MARKER_MAX_FIELDS];
};

struct conversion {
	char letter;
	int length;      /* 'H' for hh, 'h', 'l', 'j', 'z', 't', 'L' */
	bool stars[2];   /* width, precision */
	int precision;   /* -1: none */
	const char *end; /* behind it */
};

static bool is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* C23's %w32d and %wf32d (a fast type, of 8 bytes but for that of 8 bits) by the length of the same size. */
static const char *parse_bits(const char *at, int *ret_length)
{
	static const struct {
		const char *text;
		int length, fast;
	} widths[] = { { "8", 'H', 'H' }, { "16", 'h', 'l' }, { "32", 0, 'l' }, { "64", 'l', 'l' } };
	const bool fast = at[1] == 'f';
	unsigned i;

	at += 1 + fast;
	for (i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		size_t n = strlen(widths[i].text);

		if (!strncmp(at, widths[i].text, n) && !isdigit((unsigned char)at[n])) {
			*ret_length = fast ? widths[i].fast : widths[i].length;
			return at + n;
		}
	}
	return NULL;
}

static int parse_conversion(const char *at, struct conversion *ret)
{
	struct conversion c = { .precision = -1 };

	at += strspn(at, "-+ #0'I");
	if (*at == '*')
		c.stars[0] = *at++;
	else
		at += strspn(at, "0123456789");
	if (*at == '$')
		return -EINVAL; /* arguments by number */
	if (*at == '.') {
		at++;
		if (*at == '*')
			c.stars[1] = *at++;
		else
			for (c.precision = 0; isdigit((unsigned char)*at) && c.precision < 100000; at++)
				c.precision = c.precision * 10 + (*at - '0');
	}
	if (*at == 'w') {
		at = parse_bits(at, &c.length);
		if (!at || !*at || !strchr("dibBouxX", *at))
			return -EINVAL;
	}
	while (*at && strchr("hlLqjzt", *at)) {
		c.length = *at == 'q' ? 'l' : *at == 'h' && c.length == 'h' ? 'H' : *at;
		at++;
	}
	if (!*at || !strchr("dibBouxXcspfFeEgGaAmn%", *at))
		return -EINVAL;
	c.letter = *at;
	c.end = at + 1;
	*ret = c;
	return 0;
}

/* The last word of the text before: "fd = %d" is fd. */
static size_t name_of(const struct parser *p, const char *percent, const char **ret)
{
	const char *end = p->hint ?: percent, *begin;

	while (end > p->text && !is_name(end[-1]))
		end--;
	for (begin = end; begin > p->text && is_name(begin[-1]);)
		begin--;
	*ret = begin;
	return (size_t)(end - begin);
}

static bool name_taken(const struct parser *p, const char *name)
{
	int i;

	for (i = 0; i < p->n_fields; i++)
		if (!strcmp(p->names[i], name))
			return true;
	return false;
}

static void number(char *to, unsigned n)
{
	if (n > 9)
		*to++ = (char)('0' + n / 10);
	*to++ = (char)('0' + n % 10);
	*to = 0;
}

static void choose_name(const struct parser *p, const char *percent, char name[64])
{
	const char *from;
	size_t n = name_of(p, percent, &from);

	if (!n || n > 48 || isdigit((unsigned char)*from)) {
		strcpy(name, "arg");
		number(name + 3, (unsigned)p->n_fields + 1);
	} else {
		memcpy(name, from, n);
		name[n] = 0;
	}
	if (!name_taken(p, name))
		return;
	n = strlen(name);
	name[n++] = '_';
	number(name + n, (unsigned)p->n_fields + 1);
}

static int add_argument(struct parser *p, uint8_t pass, unsigned bytes)
{
	struct marker_argument *a = &p->plan->arguments[p->plan->n];

	if (p->plan->n >= MARKER_MAX_FIELDS)
		return -E2BIG;
	p->plan->n++;
	*a = (struct marker_argument){ .pass = pass, .bytes = (uint8_t)bytes, .precision = -1 };
	return 0;
}

static int add_field(struct parser *p, const char *percent, struct spoor_def_field f)
{
	char name[64];
	size_t size;

	choose_name(p, percent, name);
	size = (strlen(name) + 1 + 7) & ~(size_t)7;
	f.size = (uint32_t)(sizeof(f) + size);
	if (p->n_fields >= MARKER_MAX_FIELDS || f.size > (size_t)(p->end - p->at))
		return -E2BIG;
	memcpy(p->at, &f, sizeof(f));
	memset(p->at + sizeof(f), 0, size);
	p->names[p->n_fields++] = strcpy(p->at + sizeof(f), name);
	p->at += f.size;
	return 0;
}

static unsigned passed_bytes(int length)
{
	switch (length) {
	case 'H':
		return 1;
	case 'h':
		return 2;
	case 0:
		return 4;
	default:
		return 8;
	}
}

/* "#n4u": n for network order, the size, then how to show it. */
static void apply_hint(const struct parser *p, struct spoor_def_field *f)
{
	const char *at = p->hint;

	if (!at)
		return;
	at++;
	if (*at == 'n') {
		f->flags |= SPOOR_DEF_BIG;
		at++;
	}
	if (*at == '1' || *at == '2' || *at == '4' || *at == '8')
		f->bytes = (uint8_t)(*at++ - '0');
	if (*at == 'd' || *at == 'i')
		f->flags |= SPOOR_DEF_SIGNED;
	else if (*at && strchr("uoxX", *at))
		f->flags &= (uint8_t)~SPOOR_DEF_SIGNED;
	if (*at == 'x' || *at == 'X')
		f->base = 16;
	else if (*at == 'o')
		f->base = 8;
}

static int add_integer(struct parser *p, const char *percent, const struct conversion *c)
{
	struct spoor_def_field f = { .type = SPOOR_DEF_INT, .base = 10, .bytes = (uint8_t)passed_bytes(c->length) };
	struct marker_argument *a;
	int r;

	if (c->letter == 'c' && c->length == 'l') { /* wide: which one, a wint_t */
		struct conversion wide = { .letter = 'x' };

		return add_integer(p, percent, &wide);
	}
	if (c->letter == 'x' || c->letter == 'X')
		f.base = 16;
	if (c->letter == 'o')
		f.base = 8;
	if (c->letter == 'b' || c->letter == 'B')
		f.base = 2;
	if (c->letter == 'd' || c->letter == 'i')
		f.flags = SPOOR_DEF_SIGNED;
	if (c->letter == 'p') {
		f.type = SPOOR_DEF_POINTER;
		f.base = 16;
		f.bytes = 8;
	}
	if (c->letter == 'c') {
		f.flags = SPOOR_DEF_TEXT;
		f.shape = SPOOR_DEF_ARRAY;
		f.count = 1;
		f.bytes = 1;
	} else {
		apply_hint(p, &f);
	}
	r = add_argument(p, c->letter == 'p' || passed_bytes(c->length) == 8 ? PASS_LONG : PASS_INT, f.bytes);
	if (r)
		return r;
	a = &p->plan->arguments[p->plan->n - 1];
	a->swap = (f.flags & SPOOR_DEF_BIG) != 0;
	a->passed = (uint8_t)(c->letter == 'p' ? 8 : passed_bytes(c->length));
	a->is_signed = c->letter == 'd' || c->letter == 'i';
	return add_field(p, percent, f);
}

static int add_string(struct parser *p, const char *percent, const struct conversion *c)
{
	struct spoor_def_field f = { .type = SPOOR_DEF_STRING, .base = 10, .bytes = 1 };
	int r;

	if (c->length == 'l') { /* wide: where it is */
		struct conversion pointer = *c;

		pointer.letter = 'p';
		return add_integer(p, percent, &pointer);
	}
	r = add_argument(p, PASS_STRING, 1);
	if (r)
		return r;
	p->plan->arguments[p->plan->n - 1].precision = c->precision;
	return add_field(p, percent, f);
}

/* What %m shows the text of, named as by a word before it. */
static int add_errno(struct parser *p)
{
	static const char name[] = "errno";
	const struct spoor_def_field f = { .type = SPOOR_DEF_INT, .base = 10, .bytes = 4, .flags = SPOOR_DEF_SIGNED };

	p->text = name;
	p->hint = NULL;
	return add_argument(p, PASS_ERRNO, 4) ?: add_field(p, name + strlen(name), f);
}

static int add_conversion(struct parser *p, const char *percent, const struct conversion *c)
{
	struct spoor_def_field number = { .type = SPOOR_DEF_FLOAT, .base = 10, .bytes = 8, .flags = SPOOR_DEF_SIGNED };
	int r = 0;

	if (c->stars[0])
		r = add_argument(p, PASS_SKIPPED, 0);
	if (!r && c->stars[1])
		r = add_argument(p, c->letter == 's' && c->length != 'l' ? PASS_PRECISION : PASS_SKIPPED, 0);
	if (r)
		return r;
	switch (c->letter) {
	case '%':
		return 0;
	case 'm':
		return add_errno(p);
	case 'n':
		return -EINVAL;
	case 's':
		return add_string(p, percent, c);
	case 'd':
	case 'i':
	case 'b':
	case 'B':
	case 'o':
	case 'u':
	case 'x':
	case 'X':
	case 'c':
	case 'p':
		return add_integer(p, percent, c);
	default:
		r = add_argument(p, c->length == 'L' ? PASS_LONG_DOUBLE : PASS_DOUBLE, 8);
		return r ?: add_field(p, percent, number);
	}
}

int marker_parse(const char *format, struct marker_plan *ret, char *at, const char *end, char **ret_end)
{
	struct parser p = { .plan = ret, .text = format, .at = at, .end = end };
	const char *s = format;

	ret->n = 0;
	while (*s) {
		struct conversion c;
		int r;

		if (*s == '#')
			p.hint = s;
		else if (p.hint && isspace((unsigned char)*s))
			p.hint = NULL;
		if (*s != '%') {
			s++;
			continue;
		}
		r = parse_conversion(s + 1, &c);
		if (!r)
			r = add_conversion(&p, s, &c);
		if (r)
			return r;
		s = c.end;
		if (c.letter != '%') {
			p.text = s;
			p.hint = NULL;
		}
	}
	*ret_end = p.at;
	return p.n_fields;
}
