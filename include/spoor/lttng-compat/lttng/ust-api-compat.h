/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Names of 2.12 and before are there unless LTTNG_UST_COMPAT_API_VERSION is defined as 1 or more. */
#ifndef LTTNG_UST_COMPAT_API_VERSION
#define LTTNG_UST_COMPAT_API_VERSION 0
#endif
#define LTTNG_UST_COMPAT_API(version) (LTTNG_UST_COMPAT_API_VERSION <= (version))
