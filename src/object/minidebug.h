/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* .gnu_debugdata ("MiniDebugInfo"): an xz-compressed ELF file with the symbols that stripping took away. */
#include "object/image.h"

/* The unpacked file; caller frees. -ENOENT: there is none; -EBADMSG: damaged; -EFBIG: beyond our limit. */
int spoor_minidebug_unpack(const struct spoor_elf *elf, void **ret, size_t *ret_size);
