/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Where libspoor-ust.so is, for programs that are not linked with it. */

/* $SPOOR_UST_LIBRARY, beside this program (a build tree), or where it was installed. path: PATH_MAX bytes. -ENOENT. */
int spoor_ust_library(char *path);
/* Puts it in front of LD_PRELOAD of what is executed from now on. */
void spoor_ust_preload(const char *path);
