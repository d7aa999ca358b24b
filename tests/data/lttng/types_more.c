/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Another source with sites of the same provider. */
#include "types_tp.h"

void elsewhere(int n);

void elsewhere(int n)
{
	lttng_ust_tracepoint(types, first, n, 2L * n);
}
