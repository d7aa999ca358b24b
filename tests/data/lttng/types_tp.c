/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "types_point.h"

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "types_tp.h"
