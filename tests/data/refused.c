/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls that seccomp answers: each of these is over before it has begun. `refused N`: so often each, in the process and
 * in its child. What flock is answered is wider than its result.
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ON(nr, answer) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, answer)

static struct sock_filter answers[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	ON(SYS_mkdir, SECCOMP_RET_ERRNO | 1),
	ON(SYS_openat, SECCOMP_RET_ERRNO | 13),
	ON(SYS_fsync, SECCOMP_RET_ERRNO | 0),
	ON(SYS_socket, SECCOMP_RET_ERRNO | 97),
	ON(SYS_getpgrp, SECCOMP_RET_TRAP),
	ON(SYS_getsid, SECCOMP_RET_USER_NOTIF),
	ON(SYS_flock, SECCOMP_RET_USER_NOTIF),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
static struct sock_fprog filter = { sizeof(answers) / sizeof(*answers), answers };
static volatile int listener = -1;
static int times;

static void on_sigsys(int signal)
{
	(void)signal;
}

/* Answers what the filter does not: a thread of before, to which it does not apply. */
static void *answer(void *unused)
{
	struct seccomp_notif asked;
	struct seccomp_notif_resp reply;
	int sids = 0;

	while (listener < 0)
		;
	for (int i = 0; i < 4 * times; i++) {
		memset(&asked, 0, sizeof(asked));
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked))
			break;
		reply = (struct seccomp_notif_resp){ .id = asked.id, .val = 1L << 40 };
		if (asked.data.nr == SYS_getsid)
			reply.val = 1234567 + sids++;
		ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
	}
	return unused;
}

static void ask(void)
{
	char path[] = "/nowhere/at/all"; /* of the stack: it can be read */

	for (int i = 0; i < times; i++) {
		mkdir(path, 0750);
		open(path, O_RDONLY);
		fsync(1);
		getuid(); /* nobody answers this but the kernel */
		socket(AF_INET6, SOCK_DGRAM, 0);
		getpgrp();
		getsid(0);
		flock(-7, LOCK_UN);
		getuid();
	}
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int child;

	times = argc > 1 ? atoi(argv[1]) : 1;
	signal(SIGSYS, on_sigsys);
	pthread_create(&thread, NULL, answer, NULL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
	if (listener < 0)
		return 1;
	ask();
	child = fork();
	if (!child) {
		ask();
		_exit(0);
	}
	waitpid(child, NULL, 0);
	pthread_join(thread, NULL);
	return 0;
}
