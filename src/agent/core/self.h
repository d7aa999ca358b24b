/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * Who this process is, as it sees itself. Where there is no /proc, as after chroot() as a rule, what does not change
 * with fork is as it was when it could be read last. Async-signal-safe; under the process's lock.
 */
#include <stdbool.h>
#include <sys/types.h>

#include "agent/core/sys.h"

/* Clock ticks since boot; 0: nobody can say. */
uint64_t self_start_time(void);
/* false: in this user namespace that number is everybody's whom it does not know. */
bool self_is_somebody(uid_t uid);
void self_comm(char to[16]);
/* The program's path, cut, with a NUL behind it. */
void self_exe(char *to, size_t size);
/* The inode of its pid namespace; 0: nobody can say. */
uint64_t self_pid_ns(void);
/* Zeroes: nobody can say. */
void self_boot_id(uint8_t id[16]);
