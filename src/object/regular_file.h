/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Files that strangers name, or that lie where strangers serve them. */

/*
 * Opens a regular file for reading, and nothing else: a name out of a stranger's file must not block us on a FIFO or
 * open a device, which for some is an order (a watchdog, a tape). Nor may a file system that does not answer (a server
 * of NFS or FUSE that hangs): after a second, or a tenth if others do not answer either, it is given up.
 *
 * Returns the descriptor or -errno; -EINVAL: another kind of file; -ETIMEDOUT: no answer. Any thread; not in a signal
 * handler. What hangs is a thread that is left behind until it gets an answer, or the process ends.
 */
int spoor_open_regular(const char *path);
