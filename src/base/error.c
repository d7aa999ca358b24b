/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/error.h"

#include <stdio.h>

int spoor_fail(struct spoor_error *e, int err, const char *fmt, ...)
{
	if (e) {
		va_list ap;

		va_start(ap, fmt);
		vsnprintf(e->text, sizeof(e->text), fmt, ap);
		va_end(ap);
	}
	return -err;
}
