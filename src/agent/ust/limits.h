/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/*
 * What may be asked of a recording, by an option of `spoor ust` as by the environment of a program that records alone:
 * the same limits, and the same words where they are not kept.
 */
#define UST_BUFFERS 4194304        /* bytes a process, where nobody says how many */
#define UST_LEAST_BUFFERS 65536
#define UST_MOST_BUFFERS (2ULL << 30)
#define UST_LEAST_MAX_SIZE 4194304 /* bytes on disk */
#define UST_MOST_BLOCK_US 60000000
#define UST_MOST_FILTER 499 /* characters */

#define UST_FEW_BUFFERS "a size of at least 64k, such as 64M" /* as options say it */
#define UST_SMALL_MAX_SIZE "a size of at least 4M, such as 64M"
#define UST_LONG_FILTER "longer than 499 characters"
#define UST_NOT_BUFFERS "at most 2G a program"
#define UST_NOT_BLOCK "from 1us to 60s"
#define UST_NOT_MODE "discard, overwrite, block, or block=TIME"
