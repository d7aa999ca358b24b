/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/process.h"
#include "agent/core/sanitizers.h"
#include "agent/ust/patch.h"
#include "agent/ust/probes.h"
#include "agent/ust/rcu.h"
#include "agent/ust/sites.h"

/* Of a tracepoint: class is set. Of markers: those of that name, and format unless NULL; also of objects to come. */
struct registration {
	struct registration *next;
	const struct class *class;
	struct spoor_probe probe;
	const char *name, *format;
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

/* Arrays for all classes of r before any is seen: a registration holds for all of them or for none. */
static int collect_for(const struct registration *r)
{
	struct class *c;

	for (c = classes(); c; c = c->next)
		if (is_for(r, c) && collect(c, &c->other_probes))
			return -ENOMEM;
	return 0;
}

/* Under both locks. What was is freed by free_others(). */
static void publish(struct class *c)
{
	struct spoor_probe *before = (struct spoor_probe *)c->probes, *all = c->other_probes;

	if (!all && !before)
		return;
	c->other_probes = NULL; /* a child that is forked in between must not free what it uses */
	__atomic_store_n(&c->probes, all, __ATOMIC_RELEASE); /* rcu_assign_pointer knows no const */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	c->other_probes = before;
	sites_refresh(c);
}

void probe_synchronize(void)
{
	rcu_wait();
	sanitizers_acquire(no_probes);
}

/* Outside of the process's lock: a probe that we wait for may be in a program that waits for it. */
static void free_others(void)
{
	bool waited = rcu_wait();
	struct class *c;

	sanitizers_acquire(no_probes);
	for (c = classes(); c; c = c->next) {
		if (waited)
			free(c->other_probes);
		c->other_probes = NULL;
	}
}

static bool same(const struct registration *a, const struct registration *b)
{
	return a->class == b->class && a->probe.function == b->probe.function && a->probe.data == b->probe.data &&
	       !strcmp(a->name, b->name);
}

/* -EPERM: it has sites, and in this process none can be switched on. */
static int may_run(const struct registration *r)
{
	struct class *c;
	int ret = 0;

	if (patch_way() != SPOOR_AGENT_REFUSED)
		return 0;
	for (c = classes(); c; c = c->next) {
		int n = is_for(r, c) ? sites_of(c) : 0;

		if (n > 0)
			return 0;
		ret = ret ?: n;
	}
	return ret;
}

/* A copy that stays. */
static struct registration *keep_registration(const struct registration *r)
{
	size_t n = strlen(r->name) + 1;
	struct registration *copy = calloc(1, sizeof(*copy) + n + (r->format ? strlen(r->format) + 1 : 0));
	char *text = (char *)(copy + 1);

	if (!copy)
		return NULL;
	*copy = *r;
	copy->name = memcpy(text, r->name, n);
	if (r->format)
		copy->format = strcpy(text + n, r->format);
	return copy;
}

static int add(const struct registration *r)
{
	struct registration **at;
	struct class *c;
	int ret = may_run(r);

	for (at = &registrations; *at; at = &(*at)->next)
		if (same(*at, r))
			return -EEXIST;
	if (ret)
		return ret;
	*at = keep_registration(r);
	if (!*at)
		return -ENOMEM;
	if (collect_for(r)) {
		free(*at);
		*at = NULL;
		return -ENOMEM;
	}
	for (c = classes(); c; c = c->next)
		if (is_for(r, c))
			publish(c);
	return 0;
}

static void nothing(void)
{
}

/* Where there is no memory for an array without it: those that run through this one find it or find nothing. */
static void silence(const struct class *c, const struct spoor_probe *probe)
{
	struct spoor_probe *p = (struct spoor_probe *)c->probes;

	for (; p && p->function; p++)
		if (p->function == probe->function && p->data == probe->data)
			__atomic_store_n(&p->function, nothing, __ATOMIC_RELAXED);
}

/* Takes no memory that it would need: who gives a probe up could do nothing about that. */
static int drop(const struct registration *r)
{
	struct registration **at, *found;
	struct class *c;

	for (at = &registrations; *at; at = &(*at)->next)
		if (same(*at, r))
			break;
	found = *at;
	if (!found)
		return -ENOENT;
	*at = found->next;
	for (c = classes(); c; c = c->next) {
		if (!is_for(found, c))
			continue;
		if (collect(c, &c->other_probes))
			silence(c, &found->probe);
		else
			publish(c);
	}
	free(found);
	return 0;
}

static int change_locked(struct registration *r, const struct spoor_desc *desc, const char *file, uint32_t line,
			 bool in)
{
	r->class = desc ? class_of(desc, file, line) : NULL;
	if (desc && !r->class)
		return in ? -ENOMEM : -ENOENT;
	sites_resolve();
	return in ? add(r) : drop(r);
}

static int change(struct registration *r, const struct spoor_desc *desc, const char *file, uint32_t line, bool in)
{
	int ret = -EDEADLK;

	sanitizers_release(&registrations);
	/* Who holds the lock waits for probes, so none may wait for the lock, nor for itself. */
	if (rcu_reading() || !tid_lock(&process->probes_lock))
		return ret;
	sanitizers_acquire(&process->probes_lock);
	if (outputs_lock(true)) {
		rcu_use();
		ret = change_locked(r, desc, file, line, in);
		process_unlock();
	}
	free_others();
	sanitizers_release(&process->probes_lock);
	tid_unlock(&process->probes_lock);
	return ret;
}

static int change_tracepoint(const struct spoor_desc *desc, const char *file, uint32_t line, void (*probe)(void),
			     void *data, bool in)
{
	struct registration r = { .probe = { probe, data }, .name = "" };

	return change(&r, desc, file, line, in);
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
	struct registration r = { .probe = { (void (*)(void))probe, data }, .name = name, .format = format };

	return change(&r, NULL, NULL, 0, in);
}

int probe_register_marker(const char *name, const char *format, marker_probe_func *probe, void *data)
{
	return change_marker(name, format, probe, data, true);
}

int probe_unregister_marker(const char *name, marker_probe_func *probe, void *data)
{
	return change_marker(name, NULL, probe, data, false);
}
