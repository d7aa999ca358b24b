/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * The objects of this process (the program, its libraries, what it has dlopen()ed), as call stacks meet them, and their
 * definitions in arenas.
 *
 * What is there when the program begins stays for ever and is entered once, without asking the file system. What comes
 * by dlopen is found by _dl_find_object (glibc 2.35; async-signal-safe, without locks), when a call stack has an
 * address in it. That it is the same still is asked before each use: dlclose tells nobody, and another object may lie
 * where it was. Without that function, such addresses are of no known object.
 */
#include "agent/core/output.h"
#include "agent/core/rows.h"

#define CODE_OBJECTS 1024 /* in one process, ever; what comes later is not known */

enum code_rows {
	CODE_ROWS_AWAITED = 0, /* the recorder has not said anything: frame pointers meanwhile */
	CODE_ROWS_THERE,
	CODE_ROWS_NONE, /* it has none, or a later session's recorder has: frame pointers */
};

/* What the recorder of an output has of it; of the generation of its first slot: */
struct code_class {
	uint32_t defined;    /* it is in the arena */
	uint32_t refused;    /* there was no room for it */
	uint32_t classified; /* the rest is known */
	uint16_t app, limit; /* it is the application's own code; call sites to take of it */
};

struct code_object {
	uintptr_t start, end, bias;
	const void *map; /* the loader's; NULL: it stays for ever */
	bool gone;       /* another may lie there */
	bool covered;    /* another has lain there since it was defined */
	uint32_t flags;  /* enum spoor_def_object_flag */
	uint32_t rows;   /* enum code_rows */
	struct spoor_row_table table;
	uintptr_t id_at; /* where its build-id is in memory; 0: it has none */
	uint8_t id_len, id[32];
	uint64_t looks; /* where it has none: a hash of its name and headers; 0: these cannot be read */
	struct code_class in[SPOOR_OUTPUTS];
};

/* Counted up whenever something that code_object_of() said may be so no more, or rows have come. */
extern uint32_t code_epoch HIDDEN;

/* Once, in the constructor. alone: nothing has run yet that could have called dlopen. */
void code_objects_start(bool alone);

/*
 * The object that an address lies in; NULL: none. held: it is certain that its code is in use; else it is looked at
 * with more care. May take the process's lock, when it is new. Async-signal-safe.
 */
struct code_object *code_object_of(uintptr_t pc, bool held);

/* Whether a found one is still what it was. */
bool code_object_is_there(const struct code_object *o, uintptr_t pc, bool held);

/* From 1 on; never another's. */
unsigned code_object_number(const struct code_object *o);
struct code_object *code_object_numbered(unsigned n);

extern struct code_class code_anonymous[SPOOR_OUTPUTS] HIDDEN; /* code of no object */

/* Of that object, or (NULL) of code of no object. NULL: not classified yet. Async-signal-safe. */
static inline const struct code_class *code_class_of(const struct code_object *o, const struct output *out)
{
	static const struct code_class none;
	const struct code_class *c = o ? &o->in[out - outputs] : &code_anonymous[out - outputs];

	if (__atomic_load_n(&c->classified, __ATOMIC_ACQUIRE) == output_generation(out))
		return c;
	return o ? NULL : &none; /* of such code the recorder may have nothing to say */
}

/*
 * The recorder's answer for the object defined so, or, if all three are 0, for code of no object; for that output. fd:
 * its rows, which stays the caller's; -1: it has none. Under the process's lock.
 */
struct code_answer {
	uintptr_t start, end, bias;
	unsigned object; /* its number: others may have lain there, or do so now */
	int fd;
	uint16_t app, limit;
};
void code_object_answer(const struct code_answer *a, const struct output *out);
/* All that is there for ever is defined in the arena of that slot, so that rows come soon. Under the process's lock. */
void code_objects_define(const struct slot *s);
/* How many of these the recorder has not answered for. */
unsigned code_objects_awaited(const struct slot *s);

/* Defined in the arena of that slot, now if it was not. false: there is no room. May take the process's lock. */
bool code_object_define(struct code_object *o, const struct slot *s);
