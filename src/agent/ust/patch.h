/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Writing the one byte of sites in this process's code. All under the process's lock. */
#include "agent/core/sys.h"
#include "agent/ust/state.h"

#define SITE_OFF 0xa9
#define SITE_ON 0xe9

struct patching {
	int mem; /* /proc/self/mem; -errno: by mprotect, where that is a way */
	uint32_t written;
	bool together; /* a page's sites */
	uint32_t n;    /* of these, those not written yet */
};

/* Finds out how code can be written here, anew if a policy has come since. Not SPOOR_AGENT_UNKNOWN. */
enum spoor_agent_way patch_way(void);

/* 0; -EPERM: this process may not change code in any way: sites that ask a flag still work. */
int patch_begin(struct patching *ret);
/* 0 or -errno; -EILSEQ: there is no site at that address. Already so: 0. It may be written by patch_end() only. */
int patch_site(struct patching *p, uintptr_t code, uint8_t byte);
/* From its return on every thread runs what was written. */
void patch_end(struct patching *p);
