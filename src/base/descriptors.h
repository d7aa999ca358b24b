/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once
/* Peers and files cost descriptors, and there may be thousands. Of the process: for its first thread. */

void spoor_descriptors_raise(void);   /* as many as the system allows */
void spoor_descriptors_restore(void); /* as it was before: for what a child executes */
