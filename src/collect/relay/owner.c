/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "collect/relay/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/relay/protocol.h"
#include "trace/store.h"

#define FILE_NAME SPOOR_STORE_OWNER
#define FIRST "spoor-relay 1"

static void to_hex(const uint8_t *bytes, char *text)
{
	for (int i = 0; i < 16; i++)
		sprintf(text + 2 * i, "%02x", bytes[i]);
}

static bool from_hex(const char *text, uint8_t *bytes)
{
	unsigned v;

	if (strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32)
		return false;
	for (int i = 0; i < 16; i++) {
		if (sscanf(text + 2 * i, "%2x", &v) != 1)
			return false;
		bytes[i] = v;
	}
	return true;
}

int relay_owner_read(int dir_fd, struct relay_owner *ret)
{
	_cleanup_(spoor_closep) int fd = openat(dir_fd, FILE_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char text[512] = "", token[33], incarnation[33];
	struct relay_owner o = {};
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return -EBADMSG;
	if (sscanf(text, FIRST "\ntoken %32s\nincarnation %32s\npeer %64s\nparts %u\nwindow %" SCNu64 "\n", token,
		   incarnation, o.peer, &o.parts, &o.window) < 4 || /* older relays wrote no window */
	    !from_hex(token, o.token) ||
	    !from_hex(incarnation, o.incarnation) || !o.parts || o.parts > 3 || o.window > SPOOR_RELAY_WINDOW)
		return -EBADMSG;
	*ret = o;
	return 0;
}

int relay_owner_write(int dir_fd, const struct relay_owner *o)
{
	_cleanup_(spoor_closep) int fd =
		openat(dir_fd, FILE_NAME ".new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	char text[512], token[33], incarnation[33];
	int n;

	if (fd < 0)
		return -errno;
	to_hex(o->token, token);
	to_hex(o->incarnation, incarnation);
	n = snprintf(text, sizeof(text), FIRST "\ntoken %s\nincarnation %s\npeer %s\nparts %u\nwindow %" PRIu64 "\n",
		     token, incarnation, o->peer, o->parts, o->window);
	errno = ENOSPC;
	if (write(fd, text, n) != n || renameat(dir_fd, FILE_NAME ".new", dir_fd, FILE_NAME) < 0) {
		int err = errno;

		unlinkat(dir_fd, FILE_NAME ".new", 0);
		return -err;
	}
	return 0;
}
