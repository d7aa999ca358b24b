/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* A writer's operations on files, none of which does anything. */
#include "trace/store.h"

static int no_segment(struct spoor_store *s, unsigned part, unsigned segment)
{
	return 0;
}

static int no_metadata(struct spoor_store *s, unsigned part, unsigned segment, uint64_t offset, const void *text,
		       size_t len)
{
	return 0;
}

static int no_packet(struct spoor_store *s, unsigned part, unsigned segment, unsigned instance, uint64_t offset,
		     const struct iovec *iov, int n)
{
	return 0;
}

static int no_manifest(struct spoor_store *s, const char *text, size_t len)
{
	return 0;
}

static int no_end(struct spoor_store *s, int in_order)
{
	return 0;
}

static const struct spoor_store_ops no_store = {
	no_segment, no_metadata, no_segment, no_packet, no_manifest, no_segment, no_end,
};
