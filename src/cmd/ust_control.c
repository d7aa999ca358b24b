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
#include "base/process.h"
#include "base/strings.h"
#include "base/time.h"
#include "cmd/cmd.h"
#include "cmd/ust.h"
#include "cmd/ust_command.h"

#define NO_ANSWER "the daemon does not answer: is it stopped? What was asked may be done yet"
#define WAITS "waiting for the daemon, which is there and does not answer yet, as when its disk is slow (60 s at most)"
#define NO_ANSWER_YET "the daemon is there, and has not answered in 60 s. What was asked may be done yet"
#define PATIENCE_S 5
#define MOST_PATIENCE_S 60 /* with one that is at work */
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

/* It is there, and nobody has stopped it: it may be held up. Of another pid namespace we do not know, and believe. */
static bool is_at_work(int fd)
{
	struct ucred daemon = {};
	socklen_t len = sizeof(daemon);
	char state;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &daemon, &len) || !daemon.pid)
		return true;
	state = spoor_process_state((uint32_t)daemon.pid);
	return state && !strchr("TZX", state);
}

/* Who waits longer than usual is told so, once. -ETIMEDOUT: the daemon is at work, and takes too long. */
static ssize_t receive(int fd, void *to, size_t size, bool *told)
{
	uint64_t until = spoor_now_monotonic() + MOST_PATIENCE_S * SPOOR_NS_PER_SEC;
	ssize_t n;

	while ((n = recv(fd, to, size, 0)) < 0 && errno == EAGAIN && is_at_work(fd)) {
		if (spoor_now_monotonic() >= until)
			return -ETIMEDOUT;
		if (!*told)
			spoor_ust_say(WAITS);
		*told = true;
	}
	return n < 0 ? -errno : n;
}

static const char *what_is_wrong(ssize_t n)
{
	if (n == -ETIMEDOUT)
		return NO_ANSWER_YET;
	if (n < 0)
		return NO_ANSWER;
	return n ? "the daemon is of another version" : "the daemon closed the connection";
}

/* Until the last line. */
static int listen_to(int fd)
{
	bool told = false;

	for (;;) {
		_Alignas(8) char buf[SPOOR_CONTROL_MAX_SIZE];
		const struct spoor_control_text *m = (void *)buf;
		ssize_t n = receive(fd, buf, sizeof(buf), &told);
		size_t len;

		if (n < (ssize_t)sizeof(*m) || m->head.magic != SPOOR_CONTROL_MAGIC ||
		    m->head.type != SPOOR_CONTROL_TEXT || m->head.version != SPOOR_CONTROL_VERSION) {
			spoor_ust_say(what_is_wrong(n));
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
