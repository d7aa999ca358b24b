/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Two providers in one source, of both styles. */
#include "types_point.h"

#define TRACEPOINT_CREATE_PROBES
#define TRACEPOINT_DEFINE
#include "old_tp.h"
#include "types_tp.h"
