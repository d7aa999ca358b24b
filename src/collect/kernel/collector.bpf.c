/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel side of a recording. One collector a file; a new one is one more line here. */
#define SPOOR_THREAD_STATE "collect/kernel/recorded_thread.bpf.h"
#include "collect/kernel/syscalls.bpf.h"
#include "collect/kernel/recorded.bpf.h"
#include "collect/kernel/processes.bpf.h"
#include "collect/kernel/attach.bpf.h"

char LICENSE[] SEC("license") = "GPL";
