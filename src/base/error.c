/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define RAISE "(ulimit -n)" /* said once, also where an error is passed on */

int spoor_fail(struct spoor_error *e, int err, const char *fmt, ...)
{
	if (e) {
		va_list ap;
		int n;

		va_start(ap, fmt);
		n = vsnprintf(e->text, sizeof(e->text), fmt, ap);
		va_end(ap);
		if (err == EMFILE && n >= 0 && (size_t)n < sizeof(e->text) && !strstr(e->text, RAISE))
			snprintf(e->text + n, sizeof(e->text) - n, "; allow more " RAISE);
	}
	return -err;
}

const char *spoor_error_text(struct spoor_error *e, int r)
{
	if (!e->text[0])
		spoor_fail(e, -r, "%s", strerror(-r));
	return e->text;
}
