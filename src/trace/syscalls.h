/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The system call table: names, arguments, classes. Generated from src/trace/syscalls.tbl. */
#include <stdint.h>

#include "trace/record.h"

enum spoor_arg_kind {
	SPOOR_ARG_INT,      /* signed decimal */
	SPOOR_ARG_UINT,     /* unsigned decimal (sizes, counts, offsets) */
	SPOOR_ARG_HEX,      /* flags, masks */
	SPOOR_ARG_OCT,      /* file modes */
	SPOOR_ARG_PTR,      /* user address, not followed */
	SPOOR_ARG_FD,       /* file descriptor */
	SPOOR_ARG_DIRFD,    /* one of a directory, or AT_FDCWD */
	SPOOR_ARG_PATH,     /* user address of a path string that the kernel reads */
	SPOOR_ARG_SOCKADDR_IN,  /* user address of a sockaddr that the kernel reads; its length is the next argument */
	SPOOR_ARG_SOCKADDR_OUT, /* one that it writes if the call succeeds; the next argument is its length's address */
	SPOOR_ARG_BUF_IN,   /* user address of bytes that the kernel reads (write, send); length: the next argument */
	SPOOR_ARG_BUF_OUT,  /* user address of bytes that the kernel writes (read, recv); length: the return value */
	SPOOR_ARG_PID,
	SPOOR_ARG_SIGNAL,
};

enum spoor_syscall_class {
	SPOOR_CLASS_FILE = 1, SPOOR_CLASS_NETWORK = 2, SPOOR_CLASS_PROCESS = 4, SPOOR_CLASS_DESC = 8,
	SPOOR_CLASS_MEMORY = 16, SPOOR_CLASS_SIGNAL = 32, SPOOR_CLASS_IPC = 64,
};

enum spoor_syscall_flag {
	SPOOR_SYSCALL_RET_FD = 1,   /* returns a new descriptor, always or as ret_when says */
	SPOOR_SYSCALL_RET_PTR = 2,  /* returns an address: shown in hex, errors are -4095..-1 */
	SPOOR_SYSCALL_NORETURN = 4, /* exit, exit_group */
	SPOOR_SYSCALL_RET_LONG = 8, /* the result takes 8 bytes of the event; else 4 */
};

struct spoor_syscall_arg {
	const char *name;
	const char *type; /* the kernel's C type, e.g. "const char *" */
	uint8_t kind;     /* enum spoor_arg_kind */
	uint8_t width;    /* 4 or 8: bytes in the event; if 4, readers extend the sign of INT, FD, DIRFD, PID */
};

struct spoor_syscall_info {
	const char *name; /* NULL: no such number */
	uint8_t n_args;
	uint8_t flags;
	uint16_t classes;
	struct spoor_syscall_arg args[6];
	const struct spoor_ret_when *ret_when; /* of RET_FD; NULL: always */
};

/* id: event id 0..1023 (i386 from 512). Never NULL; name is NULL for unknown numbers. */
const struct spoor_syscall_info *spoor_syscall_info(unsigned id);
/* Bytes of its event in front of the arguments. */
static inline uint32_t spoor_syscall_fixed(unsigned id)
{
	const struct spoor_syscall_info *info = spoor_syscall_info(id);

	return SPOOR_SYSCALL_FIXED + (!info->name || info->flags & SPOOR_SYSCALL_RET_LONG ? 4 : 0);
}

/* Its event id by the table: a SYSCALL_OTHER has that of its number, and keeps its own if the table has no such. */
unsigned spoor_syscall_id(const struct spoor_event_header *h);
/* The result in the event of a call that has ended (also SYSCALL_OTHER). */
int64_t spoor_syscall_ret(const struct spoor_event_header *h);
/* x86-64 number of a name, or -ENOENT. i386: the event id (>= 512) of the i386 call of that name. */
int spoor_syscall_by_name(const char *name);
int spoor_syscall_by_name_i386(const char *name);
/* "ENOENT" for 2; also the kernel-internal ERESTARTSYS (512) ...; NULL if unknown. */
const char *spoor_errno_name(int err);
int spoor_errno_by_name(const char *name); /* or -ENOENT */
