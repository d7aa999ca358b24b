/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a recorder's messages do (agent/control/control.h): one session at a time, in one output. */
#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>

#include "agent/control/control.h"
#include "agent/core/output.h"
#include "agent/core/process.h"
#include "agent/core/reserve.h"
#include "agent/ust/filter.h"
#include "agent/ust/sites.h"

#define DEFAULT_BUFFERS (4 << 20)

static struct arena_wish wish;
static struct output *output; /* NULL: no arena yet */
static bool waits;            /* it is made with the first site */

int spoor_agent_lock(bool wait)
{
	return outputs_lock(wait) ? 0 : wait ? -EDEADLK : -EBUSY;
}

void spoor_agent_unlock(void)
{
	process_unlock();
}

int spoor_agent_setup(const struct spoor_control_setup *s)
{
	uint32_t i;

	spoor_agent_end();
	memset(&wish, 0, sizeof(wish));
	wish.size = s->buffers ?: DEFAULT_BUFFERS;
	wish.n_channels = s->n_channels;
	for (i = 0; i < s->n_channels; i++) {
		const struct spoor_control_channel *from = &s->channels[i];
		struct arena_channel_wish *to = &wish.channels[i];

		memcpy(to->name, from->name, sizeof(to->name));
		to->mode = from->mode;
		to->packet_size = from->packet_size;
		to->share = from->share;
		to->block_us = from->block_us;
		to->contexts = from->contexts;
	}
	return 0;
}

/* n: of sites. Says so if not all of those that should be can be on. */
static int say_stuck(int n, char *text, unsigned size)
{
	static const char why[] = "code may not be written in this process: sites without a flag stay off; built with "
				  "-DSPOOR_FLAG_SITES they could be switched";
	unsigned stuck;

	sites_count(&stuck);
	if (stuck && n && sizeof(why) <= size)
		memcpy(text, why, sizeof(why));
	return n;
}

int spoor_agent_rule(const struct spoor_control_rule *r, char *text, unsigned size)
{
	const struct filter *filter = NULL;
	int n;

	if (r->channel >= wish.n_channels)
		return -EINVAL;
	n = r->filter[0] ? filter_compile(r->filter, &filter, text, size) : 0;
	if (n)
		return n;
	n = sites_rule(&(struct rule_wish){ r->pattern, r->level == 255 ? UINT32_MAX : r->level, r->kind,
					    r->enable ? r->channel : -1, filter });
	return r->enable ? say_stuck(n, text, size) : n;
}

static int make_output(void)
{
	int r = reserve_init();

	sites_count(&wish.n_stuck);
	if (!r)
		r = output_open(&wish, &output);
	if (r)
		return r;
	return spoor_control_offer(output->made.fd, output->made.arena->uuid);
}

int spoor_agent_record(bool on, char *text, unsigned size)
{
	int r = 0;

	waits = on && !output && !sites_count(&wish.n_stuck);
	if (waits)
		return wish.n_channels ? 0 : -EINVAL;
	if (on && !output) {
		if (!wish.n_channels)
			return -EINVAL;
		sys3(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
		r = make_output();
		if (!output)
			return r;
	}
	r = sites_record(on, on ? output->first_slot : 0);
	return on ? say_stuck(r, text, size) : r;
}

void spoor_agent_objects(void)
{
	char text[240];

	if (waits)
		spoor_agent_record(true, text, sizeof(text));
}

void spoor_agent_end(void)
{
	waits = false;
	sites_record(false, 0);
	sites_forget_rules();
	if (output)
		output_close(output);
	output = NULL;
}

unsigned spoor_agent_sites(__u32 *ret_stuck)
{
	return sites_count(ret_stuck);
}

int spoor_agent_arena(int *ret_fd, __u8 ret_uuid[16])
{
	int fd = output ? output_fd(output) : -ENOENT;

	if (fd < 0)
		return -ENOENT;
	memcpy(ret_uuid, output->made.arena->uuid, 16);
	*ret_fd = fd;
	return 0;
}
