/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object/dwarf_names.h"

#include <dwarf.h>
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "object/demangle.h"

/* By the address of the entry's bytes, which is one for an entry and stays put. */
struct name {
	const void *key;
	char *text; /* NULL: none */
	int unqualified;
};

struct spoor_dwarf_names {
	void *tree;
};

static int compare(const void *a, const void *b)
{
	const struct name *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static void free_name(void *p)
{
	struct name *name = p;

	free(name->text);
	free(name);
}

int spoor_dwarf_names_new(struct spoor_dwarf_names **ret)
{
	struct spoor_dwarf_names *names = calloc(1, sizeof(*names));

	if (!names)
		return -ENOMEM;
	*ret = names;
	return 0;
}

void spoor_dwarf_names_free(struct spoor_dwarf_names *names)
{
	if (!names)
		return;
	tdestroy(names->tree, free_name);
	free(names);
}

static const char *linkage_name(Dwarf_Die *die)
{
	Dwarf_Attribute attr;

	if (!dwarf_attr_integrate(die, DW_AT_linkage_name, &attr) &&
	    !dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr))
		return NULL;
	return dwarf_formstring(&attr);
}

/* An inlined or out-of-line instance points at its origin, a definition at its declaration, which has the scopes. */
static void declaration_of(Dwarf_Die *die)
{
	static const unsigned links[] = { DW_AT_abstract_origin, DW_AT_specification };

	for (int i = 0; i < 8; i++) {
		Dwarf_Attribute attr;
		Dwarf_Die next;

		if (!dwarf_attr(die, links[0], &attr) && !dwarf_attr(die, links[1], &attr))
			return;
		if (!dwarf_formref_die(&attr, &next))
			return;
		*die = next;
	}
}

static int has_namespaces(Dwarf_Die *die)
{
	Dwarf_Die unit;

	if (!dwarf_diecu(die, &unit, NULL, NULL))
		return 0;
	switch (dwarf_srclang(&unit)) {
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14:
	case 0x002b: /* C++17 */
	case 0x002c: /* C++20 */
	case DW_LANG_Rust:
	case DW_LANG_D:
		return 1;
	}
	return 0;
}

static int put_before(const char *name, char **text)
{
	char *longer;

	if (strlen(name) + strlen(*text) > 16384 || asprintf(&longer, "%s::%s", name, *text) < 0)
		return -ENOMEM;
	free(*text);
	*text = longer;
	return 0;
}

static const char *name_of_scope(Dwarf_Die *scope, const char *text)
{
	const char *name = dwarf_diename(scope);

	if (name)
		return name;
	if (dwarf_tag(scope) == DW_TAG_namespace)
		return "(anonymous namespace)";
	return strcmp(text, "operator()") ? "{unnamed}" : "{lambda}";
}

/* "outer::Class::" in front of *text, as far as the scopes have names; of a class in a function, the function's too. */
static void qualify(Dwarf_Die *declaration, char **text, int depth)
{
	_cleanup_(spoor_freep) Dwarf_Die *scopes = NULL;
	int n = dwarf_getscopes_die(declaration, &scopes);

	for (int i = 1; i < n && i < 32; i++) {
		int tag = dwarf_tag(&scopes[i]);

		if (tag == DW_TAG_lexical_block)
			continue;
		if (tag == DW_TAG_subprogram && i > 1 && depth < 4) {
			Dwarf_Die function = scopes[i];

			declaration_of(&function);
			if (!put_before(name_of_scope(&function, *text), text))
				qualify(&function, text, depth + 1);
			return;
		}
		if (tag != DW_TAG_namespace && tag != DW_TAG_structure_type && tag != DW_TAG_class_type &&
		    tag != DW_TAG_union_type)
			return;
		if (put_before(name_of_scope(&scopes[i], *text), text))
			return;
	}
}

static char *make_name(Dwarf_Die *die, int *ret_unqualified)
{
	const char *linkage = linkage_name(die), *plain;
	Dwarf_Die declaration = *die;
	char *text;

	if (linkage) {
		text = spoor_demangle(linkage);
		if (text)
			return text;
	}
	plain = dwarf_diename(die);
	if (!plain)
		return linkage ? strdup(linkage) : NULL;
	text = strdup(plain);
	if (!text || !has_namespaces(die))
		return text;
	*ret_unqualified = 1;
	declaration_of(&declaration);
	qualify(&declaration, &text, 0);
	return text;
}

const char *spoor_dwarf_name(struct spoor_dwarf_names *names, Dwarf_Die *function, int *ret_unqualified)
{
	struct name key = { .key = function->addr }, *name, **found;

	*ret_unqualified = 0;
	found = tfind(&key, &names->tree, compare);
	if (!found) {
		name = calloc(1, sizeof(*name));
		if (!name)
			return NULL;
		name->key = function->addr;
		name->text = make_name(function, &name->unqualified);
		found = tsearch(name, &names->tree, compare);
		if (!found) {
			free_name(name);
			return NULL;
		}
	}
	*ret_unqualified = (*found)->unqualified;
	return (*found)->text;
}
