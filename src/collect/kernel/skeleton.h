/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The generated skeletons of the collectors, with the names that the kernel gives to fixed-width types. */
#include <stdbool.h>
#include <linux/types.h>

#include "collect/kernel/control.h"
#include "collect/kernel/counter.h"

typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;

#include "collect/kernel/collector.skel.h"
#include "collect/kernel/counter.skel.h"
