/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* One system call as text like strace's, and as JSON. */
#include <stdio.h>

#include "trace/reader.h"

/* openat(AT_FDCWD</tmp>, "x", 0x0, 0) */
void spoor_put_call(FILE *out, const struct spoor_call *call, const struct spoor_segment *segment);
/* 3</etc/passwd>, -1 ENOENT (No such file or directory), ? ERESTARTSYS, 0x7f0012345000 */
void spoor_put_ret(FILE *out, const struct spoor_call *call, const struct spoor_segment *segment);
/* {"dfd":{"fd":-100,"path":"/tmp"},...} */
void spoor_put_args_json(FILE *out, const struct spoor_call *call, const struct spoor_segment *segment);
/* "ret":3,"ret_fd":{...},"errno":null */
void spoor_put_ret_json(FILE *out, const struct spoor_call *call, const struct spoor_segment *segment);
