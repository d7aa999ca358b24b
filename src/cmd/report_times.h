/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * --from and --to: "1.5s" after the trace's begin, "@1763722800.5" since the epoch, "11:03:07.5" local time of its
 * first day.
 */
#include "analyze/select.h"
#include "base/error.h"
#include "trace/reader.h"

/* Sets the span of `select`; from, to: as typed, or NULL. Reads the trace's first event and rewinds. 0 or -EINVAL. */
int spoor_report_times(const char *from, const char *to, struct spoor_trace *t, struct spoor_select *select,
		       struct spoor_error *e);
