/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/user/socket_file.h"

#include <sys/stat.h>
#include <unistd.h>

void spoor_socket_file_note(struct spoor_socket_file *f, const char *path)
{
	struct stat st = {};

	if (lstat(path, &st))
		st.st_ino = 0;
	*f = (struct spoor_socket_file){ st.st_dev, st.st_ino };
}

bool spoor_socket_file_is_there(const struct spoor_socket_file *f, const char *path)
{
	struct spoor_socket_file now;

	spoor_socket_file_note(&now, path);
	return f->ino && now.ino == f->ino && now.dev == f->dev;
}

void spoor_socket_file_remove(const struct spoor_socket_file *f, const char *path)
{
	if (spoor_socket_file_is_there(f, path))
		unlink(path);
}
