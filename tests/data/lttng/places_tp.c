/* SPDX-License-Identifier: GPL-2.0-or-later */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "places_tp.h"
