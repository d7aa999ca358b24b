/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bytes of hostile senders, and of hostile relays: whatever comes, what was checked keeps to its bounds; what is
 * carried out stays inside the trace's directory; a digest makes a writer or is refused.
 */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collect/relay/owner.h"
#include "collect/relay/traces.h"
#include "trace/digest.h"
#include "trace/writer.h"

#include "../unit/no_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char root[64];

static int drop(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void begin(void)
{
	snprintf(root, sizeof(root), "/dev/shm/fuzz_relay-%d", getpid());
	if (mkdir(root, 0700) && errno != EEXIST)
		abort();
}

static void end(void)
{
	nftw(root, drop, 16, FTW_DEPTH | FTW_PHYS);
}

static int note(const struct spoor_packet_source *source, void *p)
{
	return 0;
}

/* ---- messages ---- */

static struct relay_trace *say_hello(struct relay_traces *all, const struct spoor_relay_hello *h)
{
	struct relay_trace *t = NULL;
	void *digest = NULL;
	size_t len;
	struct spoor_error e;

	if (strchr(h->host, '/') || strchr(h->name, '/') || h->host[0] == '.' || h->name[0] == '.')
		abort();
	if (relay_traces_take(all, h, "-", &t, &digest, &len, &e))
		return NULL;
	if (digest && spoor_digest_sources(digest, len, note, NULL))
		abort(); /* our own */
	free(digest);
	t->client = t;
	return t;
}

static void speak(const uint8_t *data, size_t size)
{
	struct relay_traces all;
	struct relay_trace *t = NULL;
	static _Alignas(8) uint8_t message[SPOOR_RELAY_MOST + 1];

	begin();
	if (relay_traces_open(root, &all, NULL))
		abort();
	for (size_t at = 0; size - at >= sizeof(struct spoor_relay_head);) {
		const struct spoor_relay_head *h = (void *)message;
		int n = spoor_relay_size(data + at);

		if (n < 0 || (size_t)n > size - at || (size_t)n > sizeof(message))
			break;
		memcpy(message, data + at, n);
		at += n;
		if (spoor_relay_check(message, n))
			break;
		if (h->type == SPOOR_RELAY_HELLO)
			t = say_hello(&all, (void *)message);
		else if (h->type >= SPOOR_RELAY_SEGMENT && (!t || relay_trace_apply(t, (void *)message) == -EBADMSG))
			break;
	}
	relay_traces_close(&all);
	end();
}

/* ---- digests ---- */

static void go_on(const uint8_t *data, size_t size)
{
	static const uint8_t boot_id[16] = { 1 };
	uint8_t *aligned = malloc(size + 1);
	struct spoor_store store = { .ops = &no_store, .host = "h", .digest = aligned, .digest_len = size };
	struct spoor_writer_options o = {
		.path = "x", .n_lanes = 64, .resume = 1, .store = &store, .boot_id = boot_id
	};
	struct spoor_writer *w;

	if (!aligned)
		abort();
	memcpy(aligned, data, size);
	spoor_digest_sources(aligned, size, note, NULL);
	if (!spoor_writer_open(&o, &w, NULL))
		spoor_writer_close(w, NULL);
	free(aligned);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] == 'D')
		go_on(data + 1, size - 1);
	else
		speak(data + 1, size - 1);
	return 0;
}
