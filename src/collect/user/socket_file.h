/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The file of a socket of ours: who removes it and binds there next has another one, which is not ours to remove. */
#include <stdbool.h>
#include <sys/types.h>

struct spoor_socket_file {
	dev_t dev;
	ino_t ino; /* nobody else's while the socket is open; 0: there is none */
};

/* Directly after bind(). */
void spoor_socket_file_note(struct spoor_socket_file *f, const char *path);
bool spoor_socket_file_is_there(const struct spoor_socket_file *f, const char *path);
/* While the socket is open. */
void spoor_socket_file_remove(const struct spoor_socket_file *f, const char *path);
