/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* By this name the first user-space tracer had it (spoor/declare.h). */
#include <spoor/tracepoint.h>
