/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `spoor ust create|start|stop|end|enable|disable|snapshot|status`: asks a daemon, prints what it says. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/control/protocol.h"
#include "base/cleanup.h"
#include "base/strings.h"
#include "cmd/cmd.h"
#include "cmd/ust.h"
#include "cmd/ust_command.h"

#define NO_ANSWER "the daemon does not answer: is it stopped? What was asked may be done yet"
#define PATIENCE_S 5
#define PATIENCE_WRITING_S 10 /* for what ends with a trace on a disk, or at a relay */

static int try_connect(const char *path, unsigned patience_s)
{
	_cleanup_(spoor_closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = patience_s };

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(a.sun_path))
		return -ENAMETOOLONG;
	strcpy(a.sun_path, path);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)))
		return -errno;
	return TAKE_FD(fd);
}

static int find_daemon(const char *named, unsigned patience_s)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	char path[PATH_MAX];
	int fd = -ENOENT;

	if (!named)
		named = getenv(SPOOR_CONTROL_VARIABLE);
	if (named && *named)
		return try_connect(named, patience_s);
	if (dir && *dir) {
		snprintf(path, sizeof(path), "%s/%s", dir, SPOOR_CONTROL_USER_SOCKET);
		fd = try_connect(path, patience_s);
	}
	return fd >= 0 ? fd : try_connect(SPOOR_CONTROL_SOCKET, patience_s);
}

struct words {
	_Alignas(8) char text[SPOOR_CONTROL_MAX_SIZE];
	size_t len;
};

static int add(struct words *w, const char *word)
{
	size_t n = strlen(word) + 1;

	if (n > sizeof(w->text) - w->len)
		return -E2BIG;
	memcpy(w->text + w->len, word, n);
	w->len += n;
	return 0;
}

/* The trace's name is one of this process's directory, and the daemon has another. */
static int add_output(struct words *w, const char *name)
{
	char cwd[PATH_MAX], path[2 * PATH_MAX];
	int r = add(w, "-o");

	if (*name == '/' || !getcwd(cwd, sizeof(cwd)))
		return r ? r : add(w, name);
	snprintf(path, sizeof(path), "%s/%s", cwd, name);
	return r ? r : add(w, path);
}

/* As they were typed; parsing has put the options first. */
static int gather(int argc, char **argv, const struct spoor_ust_command *c, struct words *w)
{
	int options = optind, r = 0;

	if (options > 1 && !strcmp(argv[options - 1], "--"))
		options--;
	w->len = sizeof(struct spoor_control_head);
	for (int i = 0; i < options && !r; i++)
		r = add(w, argv[i]);
	if (!r && c->o.output[0])
		r = add_output(w, c->o.output);
	if (!r)
		r = add(w, "--");
	for (int i = optind; i < argc && !r; i++)
		r = add(w, argv[i]);
	return r;
}

static void print(const char *text, size_t len, FILE *out)
{
	char shown[SPOOR_CONTROL_MAX_SIZE * 4];

	spoor_escape_line(text, len, shown, sizeof(shown));
	fprintf(out, "%s\n", shown);
	fflush(out); /* the next may come in seconds */
}

static int exit_code(int result)
{
	if (result == -EINPROGRESS)
		return SPOOR_EXIT_ON_ITS_WAY;
	return result == -EINVAL ? SPOOR_EXIT_USAGE : SPOOR_EXIT_FAILED;
}

/* Until the last line. */
static int listen_to(int fd)
{
	for (;;) {
		_Alignas(8) char buf[SPOOR_CONTROL_MAX_SIZE];
		const struct spoor_control_text *m = (void *)buf;
		ssize_t n = recv(fd, buf, sizeof(buf), 0);
		size_t len;

		if (n < (ssize_t)sizeof(*m) || m->head.magic != SPOOR_CONTROL_MAGIC ||
		    m->head.type != SPOOR_CONTROL_TEXT || m->head.version != SPOOR_CONTROL_VERSION) {
			spoor_ust_say(n < 0 ? NO_ANSWER :
				      n     ? "the daemon is of another version" :
					      "the daemon closed the connection");
			return SPOOR_EXIT_FAILED;
		}
		len = n - sizeof(*m);
		if (m->last && m->result < 0) {
			char text[1024];

			snprintf(text, sizeof(text), "%.*s", (int)len, m->text);
			spoor_ust_say(len ? text : strerror(-m->result));
			return exit_code(m->result);
		}
		if (len)
			print(m->text, len, stdout);
		if (m->last)
			return SPOOR_EXIT_OK;
	}
}

static unsigned patience_of(const struct spoor_ust_command *c)
{
	return !strcmp(c->word, "end") || !strcmp(c->word, "snapshot") ? PATIENCE_WRITING_S : PATIENCE_S;
}

static int ask(const struct spoor_ust_command *c, struct words *w)
{
	_cleanup_(spoor_closep) int fd = find_daemon(c->socket, patience_of(c));
	struct spoor_control_head *m = (void *)w->text;

	if (fd < 0) {
		spoor_ust_say(fd == -EAGAIN ? NO_ANSWER :
			      fd == -EACCES ? "the daemon takes commands of its own user and root only" :
					      "no daemon is there; 'spoor daemon' starts one, --socket PATH names one");
		return SPOOR_EXIT_FAILED;
	}
	*m = (struct spoor_control_head){ SPOOR_CONTROL_MAGIC, SPOOR_CONTROL_VERSION, SPOOR_CONTROL_COMMAND, w->len,
					  1 };
	if (send(fd, w->text, w->len, MSG_NOSIGNAL) < 0) {
		spoor_ust_say("the daemon closed the connection");
		return SPOOR_EXIT_FAILED;
	}
	return listen_to(fd);
}

int spoor_ust_cmd_control(int argc, char **argv)
{
	static struct spoor_ust_command c;
	static struct words w;
	struct spoor_error e = { "" };
	int r = spoor_ust_command_parse(&c, argc, argv, &e);

	if (r > 0)
		return spoor_cmd_usage("ust");
	if (!r && gather(argc, argv, &c, &w))
		r = spoor_fail(&e, E2BIG, "too many words for one command");
	return r ? spoor_cmd_misuse("ust", &e) : ask(&c, &w);
}
