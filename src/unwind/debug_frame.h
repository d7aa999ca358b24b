/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * An object's .debug_frame, unpacked where it is compressed: by SHF_COMPRESSED (gABI chapter 4, "Section Compression":
 * zlib, zstd), or as .zdebug_frame, which is what binutils made of it before there was that ("ZLIB", its size in 8
 * bytes, the higher first). Input is untrusted.
 */
#include "unwind/elf_view.h"

/*
 * Returns 0, -ENOENT, -ENOMEM, or -EBADMSG. *ret_unpacked: what *ret points to if that is not the image; free() it
 * afterwards. Else NULL.
 */
int spoor_debug_frame(const struct spoor_elf_view *elf, struct spoor_view_range *ret, void **ret_unpacked);
