/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/process.h"
#include "agent/core/sanitizers.h"
#include "agent/ust/probes.h"
#include "agent/ust/rcu.h"
#include "agent/ust/sites.h"

/* Of a tracepoint: class is set. Of markers: those of that name, and format unless NULL; also of objects to come. */
struct registration {
	struct registration *next;
	const struct class *class;
	struct spoor_probe probe;
	const char *format;
	char name[];
};

static struct registration *registrations;
static const struct spoor_probe no_probes[1];

const struct spoor_probe *probes_begin(struct spoor_tracepoint *tp)
{
	const struct class *c = tp->agent;
	const struct spoor_probe *p;

	rcu_read_begin();
	sanitizers_acquire(&registrations);
	p = rcu_dereference(c->probes);
	return p ?: no_probes;
}

void probes_end(void)
{
	sanitizers_release(no_probes);
	rcu_read_end();
}

bool probes_any(void)
{
	return registrations;
}

static bool is_for(const struct registration *r, const struct class *c)
{
	if (r->class)
		return r->class == c;
	if (c->kind != SPOOR_DESC_MARKER || strcmp(c->name, r->name))
		return false;
	return !r->format || !strcmp(c->format, r->format);
}

/* The array of those registered for c, in the order of registering; NULL for none. -ENOMEM leaves things alone. */
static int collect(const struct class *c, struct spoor_probe **ret)
{
	struct spoor_probe *all = NULL;
	struct registration *r;
	size_t n = 0;

	for (r = registrations; r; r = r->next)
		n += is_for(r, c);
	if (n) {
		all = calloc(n + 1, sizeof(*all));
		if (!all)
			return -ENOMEM;
		for (n = 0, r = registrations; r; r = r->next)
			if (is_for(r, c))
				all[n++] = r->probe;
	}
	*ret = all;
	return 0;
}

void probes_attach(struct class *c)
{
	struct spoor_probe *all = NULL;

	if (!registrations || collect(c, &all))
		return;
	__atomic_store_n(&c->probes, all, __ATOMIC_RELEASE); /* rcu_assign_pointer knows no const */
}

/* Under both locks. */
static void publish(struct class *c)
{
	struct spoor_probe *all;

	if (collect(c, &all) || (!all && !c->probes))
		return;
	c->old_probes = (struct spoor_probe *)c->probes;
	__atomic_store_n(&c->probes, all, __ATOMIC_RELEASE); /* rcu_assign_pointer knows no const */
	sites_refresh(c);
}

static void publish_for(const struct registration *r)
{
	struct class *c;

	sites_resolve();
	for (c = classes(); c; c = c->next)
		if (is_for(r, c))
			publish(c);
}

void probe_synchronize(void)
{
	rcu_wait();
	sanitizers_acquire(no_probes);
}

/* Outside of the process's lock: a probe that we wait for may be in a program that waits for it. */
static void free_old(void)
{
	bool waited = rcu_wait();
	struct class *c;

	sanitizers_acquire(no_probes);
	for (c = classes(); c; c = c->next) {
		if (waited)
			free(c->old_probes);
		c->old_probes = NULL;
	}
}

static bool same(const struct registration *a, const struct registration *b)
{
	return a->class == b->class && a->probe.function == b->probe.function && a->probe.data == b->probe.data &&
	       !strcmp(a->name, b->name);
}

static int add(struct registration *r)
{
	struct registration **at;

	for (at = &registrations; *at; at = &(*at)->next)
		if (same(*at, r))
			return -EEXIST;
	*at = r;
	publish_for(r);
	return 0;
}

static int drop(const struct registration *r)
{
	struct registration **at, *found;

	for (at = &registrations; *at; at = &(*at)->next)
		if (same(*at, r))
			break;
	found = *at;
	if (!found)
		return -ENOENT;
	*at = found->next;
	publish_for(found);
	free(found);
	return 0;
}

static struct registration *make(const char *name, const char *format)
{
	size_t n = strlen(name) + 1;
	struct registration *r = calloc(1, sizeof(*r) + n + (format ? strlen(format) + 1 : 0));

	if (!r)
		return NULL;
	memcpy(r->name, name, n);
	if (format)
		r->format = strcpy(r->name + n, format);
	return r;
}

/* Takes r over. */
static int change(struct registration *r, const struct spoor_desc *desc, const char *file, uint32_t line, bool in)
{
	int ret = -EDEADLK;

	sanitizers_release(&registrations);
	/* Who holds the lock waits for probes, so none may wait for the lock, nor for itself. */
	if (rcu_reading() || !tid_lock(&process->probes_lock)) {
		free(r);
		return ret;
	}
	if (outputs_lock(true)) {
		rcu_use();
		r->class = desc ? class_of(desc, file, line) : NULL;
		ret = desc && !r->class ? -ENOMEM : in ? add(r) : drop(r);
		process_unlock();
	}
	if (ret || !in)
		free(r);
	if (!ret)
		free_old();
	tid_unlock(&process->probes_lock);
	return ret;
}

static int change_tracepoint(const struct spoor_desc *desc, const char *file, uint32_t line, void (*probe)(void),
			     void *data, bool in)
{
	struct registration *r = make("", NULL);

	if (!r)
		return -ENOMEM;
	r->probe = (struct spoor_probe){ probe, data };
	return change(r, desc, file, line, in);
}

int probe_register(const struct spoor_desc *desc, const char *file, uint32_t line, void (*probe)(void), void *data)
{
	return change_tracepoint(desc, file, line, probe, data, true);
}

int probe_unregister(const struct spoor_desc *desc, const char *file, uint32_t line, void (*probe)(void), void *data)
{
	return change_tracepoint(desc, file, line, probe, data, false);
}

static int change_marker(const char *name, const char *format, marker_probe_func *probe, void *data, bool in)
{
	struct registration *r = make(name, format);

	if (!r)
		return -ENOMEM;
	r->probe = (struct spoor_probe){ (void (*)(void))probe, data };
	return change(r, NULL, NULL, 0, in);
}

int probe_register_marker(const char *name, const char *format, marker_probe_func *probe, void *data)
{
	return change_marker(name, format, probe, data, true);
}

int probe_unregister_marker(const char *name, marker_probe_func *probe, void *data)
{
	return change_marker(name, NULL, probe, data, false);
}
