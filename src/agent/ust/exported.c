/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent/ust/exported.h"

#include <dlfcn.h>
#include <link.h>

#include "agent/core/reserve.h"
#include "agent/core/sys.h"
#include "agent/ust/note.h"
#include "agent/ust/probes.h"

const struct spoor_agent_calls own_calls = {
	.object_in = agent_object_in,
	.object_out = agent_object_out,
	.probe_register = probe_register,
	.probe_unregister = probe_unregister,
	.probe_synchronize = probe_synchronize,
	.marker_register = probe_register_marker,
	.marker_unregister = probe_unregister_marker,
	.thread_init = reserve_share_thread,
};

static const struct spoor_agent_calls *serving; /* NULL: not looked for yet */

static void look_at(const void *note)
{
	const struct spoor_agent_state *s = note_agent(note);

	if (s && __atomic_load_n(&s->serves, __ATOMIC_ACQUIRE))
		__atomic_store_n(&serving, s->calls, __ATOMIC_RELEASE);
}

/* Copies begin one after the other, under the loader's lock. */
static const struct spoor_agent_calls *calls(void)
{
	const struct spoor_agent_calls *c = __atomic_load_n(&serving, __ATOMIC_ACQUIRE);

	if (c)
		return c;
	notes_each(look_at);
	if (!serving) {
		__atomic_store_n(&spoor_agent_state.serves, 1, __ATOMIC_RELEASE);
		__atomic_store_n(&serving, &own_calls, __ATOMIC_RELEASE);
	}
	return serving;
}

bool agent_serves(void)
{
	return calls() == &own_calls;
}

/* Programs that are linked statically have neither. */
extern __typeof__(dladdr1) dladdr1 __attribute__((weak));
extern __typeof__(dlopen) dlopen __attribute__((weak));

void agent_stay(void)
{
	struct link_map *map = NULL;
	Dl_info info;

	if (!dladdr1 || !dlopen || !dladdr1(&spoor_agent_state, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
		return;
	if (map->l_name && map->l_name[0]) /* the program itself has none */
		dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

EXPORT void spoor_ust_object_in(const void *note)
{
	calls()->object_in(note);
}

EXPORT void spoor_ust_object_out(const void *note)
{
	calls()->object_out(note);
}

EXPORT int spoor_probe_register(const struct spoor_desc *desc, const char *file, uint32_t line, void (*probe)(void),
				void *data)
{
	return calls()->probe_register(desc, file, line, probe, data);
}

EXPORT int spoor_probe_unregister(const struct spoor_desc *desc, const char *file, uint32_t line, void (*probe)(void),
				  void *data)
{
	return calls()->probe_unregister(desc, file, line, probe, data);
}

EXPORT void spoor_probe_synchronize(void)
{
	calls()->probe_synchronize();
}

EXPORT int spoor_marker_register(const char *name, const char *format, marker_probe_func *probe, void *data)
{
	return calls()->marker_register(name, format, probe, data);
}

EXPORT int spoor_marker_unregister(const char *name, marker_probe_func *probe, void *data)
{
	return calls()->marker_unregister(name, probe, data);
}

#undef spoor_thread_init /* programs' way to it */
EXPORT void spoor_thread_init(void)
{
	calls()->thread_init();
}
