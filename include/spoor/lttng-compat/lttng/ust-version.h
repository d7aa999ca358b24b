/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* The version whose grammar these headers know; SPOOR_LTTNG_COMPAT tells them from LTTng-UST's own. */
#define SPOOR_LTTNG_COMPAT 1
#define LTTNG_UST_MAJOR_VERSION 2
#define LTTNG_UST_MINOR_VERSION 13
#define LTTNG_UST_PATCHLEVEL_VERSION 5
#define LTTNG_UST_VERSION "2.13.5"
