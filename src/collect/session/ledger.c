/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/session/ledger.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* Address space: what is not written takes no memory. Of as many objects as there may be, with paths as they are. */
#define SIZE (16UL << 20)

struct spoor_ledger {
	uint64_t used;
	uint8_t definitions[SIZE - sizeof(uint64_t)];
};
_Static_assert(sizeof(struct spoor_ledger) == SIZE, "");

int spoor_ledger_new(struct spoor_ledger **ret)
{
	void *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	*ret = p;
	return 0;
}

void spoor_ledger_free(struct spoor_ledger *l)
{
	if (l)
		munmap(l, SIZE);
}

void spoor_ledger_note(struct spoor_ledger *l, const struct spoor_object *def)
{
	size_t size = spoor_event_size(def);

	if (size > sizeof(l->definitions) - l->used)
		return;
	memcpy(l->definitions + l->used, def, size);
	__atomic_store_n(&l->used, l->used + size, __ATOMIC_RELEASE); /* we may be killed at any moment */
}

void spoor_ledger_each(const struct spoor_ledger *l, void (*each)(void *ctx, const struct spoor_object *def),
		       void *ctx)
{
	uint64_t used = __atomic_load_n(&l->used, __ATOMIC_ACQUIRE);

	for (uint64_t at = 0; at < used;) {
		const struct spoor_object *def = (const void *)(l->definitions + at);

		each(ctx, def);
		at += spoor_event_size(def);
	}
}
