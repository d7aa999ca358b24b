/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Where a relay is: tcp://HOST:PORT, tls://HOST:PORT; [ADDRESS] for IPv6; PORT may be left out. */
#include <stdbool.h>

#include "base/error.h"

struct spoor_endpoint {
	bool tls;
	char host[256], port[6];
};

/* -EINVAL. Without TLS only a loopback address is one: -EPERM. */
int spoor_endpoint_parse(const char *text, struct spoor_endpoint *ret, struct spoor_error *e);
