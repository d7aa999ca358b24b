/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel side of counting: `spoor stat`. */
#define SPOOR_THREAD_STATE "collect/kernel/counted_thread.bpf.h"
#include "collect/kernel/counting.bpf.h"
#include "collect/kernel/counted.bpf.h"
#include "collect/kernel/counted_read.bpf.h"
#include "collect/kernel/processes.bpf.h"
#include "collect/kernel/attach.bpf.h"

char LICENSE[] SEC("license") = "GPL";
