/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel side of a recording. One collector a file; a new one is one more line here. */
#include "collect/kernel/syscalls.bpf.h"
#include "collect/kernel/processes.bpf.h"
#include "collect/kernel/attach.bpf.h"

char LICENSE[] SEC("license") = "GPL";
