/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "present/stat_sites.h"

#include "analyze/callsites.h"
#include "present/present.h"

static char *label(void *p, pid_t pid, uint32_t stack)
{
	struct spoor_stat_sites *s = p;

	if (s->chains)
		return spoor_chain_label(s->symbols, s->segment, (uint32_t)pid, stack);
	return spoor_site_label(s->symbols, s->segment, (uint32_t)pid, stack);
}

static void frames(void *p, FILE *out, pid_t pid, uint32_t stack)
{
	struct spoor_stat_sites *s = p;

	spoor_put_frames_json(out, s->symbols, s->segment, (uint32_t)pid, stack);
}

void spoor_stat_sites_use(struct spoor_stat_view *v, struct spoor_stat_sites *sites)
{
	v->site = label;
	v->site_json = frames;
	v->p = sites;
}
