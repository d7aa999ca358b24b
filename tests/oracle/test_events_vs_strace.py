# SPDX-License-Identifier: GPL-2.0-or-later
"""Sequences of system calls per thread, paths, descriptors, socket addresses, flags, addresses of memory, numbers and
results against those of `strace -ff -y -X raw`, of another run of the same deterministic command in a directory of the
same name, without randomized addresses (likeness.py)."""
import shutil
import subprocess
from collections import Counter

import pytest

import strace
from likeness import CHANCE, compare, compare_sockets, from_spoor, from_strace
from recording import SOURCE, record

# Who ends first is certain: each lives on for a while after the one before has let go of the pipe.
SHELL = ("for i in 1 2 3; do /bin/true; done; echo a | (cat; sleep 0.2) | (wc -c; sleep 0.2); (cd /usr; pwd); "
         "x=$(echo y); exec /bin/echo $x")
# A thread is joined before it has ended for the kernel: that is waited for at the word that the kernel then clears, the
# tid in glibc's struct pthread, since with it the stack can be had again.
PYTHON_THREADS = """
import ctypes, os, threading
syscall = ctypes.CDLL(None).syscall
def work(i):
    fd = os.open('/etc/passwd', os.O_RDONLY); os.lseek(fd, i * 10, 0); os.read(fd, 10 + i); os.close(fd)
for i in range(5):
    t = threading.Thread(target=work, args=(i,)); t.start(); t.join(); word = t.ident + 0x2d0
    while (tid := ctypes.c_int.from_address(word).value): syscall(202, ctypes.c_void_p(word), 0, tid, None)
"""
PYTHON_SOCKETS = """
import os, socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('127.0.0.1', 0)); s.listen(5)
c = socket.socket(); c.connect(s.getsockname()); a, _ = s.accept(); c.send(b'xyz'); a.recv(2); c.close(); a.recv(9)
u = socket.socket(socket.AF_UNIX); u.bind('./sock'); u.listen(1)
v = socket.socket(socket.AF_UNIX); v.connect('./sock'); os.unlink('sock')
w = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); w.bind('\\0abstract-of-spoor'); w.close()
d = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); d.bind(('::1', 0)); d.sendto(b'x', ('::1', 9))
for f in (lambda: socket.socket().connect(('127.0.0.1', 1)), lambda: d.connect(('fe80::1', 9, 0, 1)),
          lambda: socket.socket(socket.AF_UNIX).connect('/no')):
    try: f()
    except OSError: pass
r, w = os.pipe(); os.write(w, b'12345'); os.read(r, 3); os.dup2(r, 50); os.close(50)
m = os.memfd_create('piece'); os.write(m, b'x'); os.close(m)
a, b = socket.socketpair(); a.send(b'1'); b.recv(1)
import select; e = select.epoll(); e.register(a.fileno()); e.close()
"""
# What is opened lies where what was closed lay; directories above are renamed; pipes are told apart.
KINDS = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>
static void use(int fd)
{
	fcntl(fd, F_GETFD);
	close(fcntl(fd, F_DUPFD, 40));
	close(fcntl(fd, F_DUPFD_CLOEXEC, 50));
	fcntl(fd, F_GETFL);
	close(fd);
}
int main(void)
{
	sigset_t set;
	int p[2], q[2];
	sigemptyset(&set);
	for (int i = 0; i < 3; i++) {
		use(epoll_create1(0));
		use(eventfd(0, 0));
		use(timerfd_create(CLOCK_MONOTONIC, 0));
		use(signalfd(-1, &set, 0));
		use(inotify_init());
		use(syscall(SYS_pidfd_open, 1, 0));
		use(open("/proc/self/ns/net", O_RDONLY));
		use(open("/proc/self/ns/mnt", O_RDONLY));
	}
	mkdir("ra", 0755);
	mkdir("ra/b", 0755);
	use(open("ra/b/f", O_CREAT | O_RDWR, 0644));
	chdir("ra/b");
	use(openat(AT_FDCWD, "f", O_RDONLY));
	rename("../../ra", "../../rz");
	use(openat(AT_FDCWD, "f", O_RDONLY));
	chdir("../..");
	use(open("rz/b/f", O_RDONLY));
	for (int i = 0; i < 3; i++) {
		pipe(p);
		pipe(q);
		write(p[1], "abc", 3);
		write(q[1], "abc", 3);
		close(p[0]), close(p[1]);
		use(q[0]), use(q[1]);
	}
	return 0;
}
"""
PERL = """
pipe R, W; $p = fork; if (!$p) { close R; syswrite W, 'from the child'; exit 7; } close W; sysread R, $x, 5;
waitpid $p, 0; opendir D, '/etc/apt'; @f = sort readdir D; -e "/etc/apt/$_" for @f; mkdir 'd'; rename 'd', 'e';
symlink 'e', 'l'; readlink 'l';
chmod 0700, 'e'; unlink 'l', 'nothing'; rmdir 'e'; open F, '>', "odd \\\\ \\"name\\"\\n"; print F 'x'; close F;
kill 0, $$;
"""
ERRORS = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
int main(void)
{
	char longer[5000];
	int d = open("/etc", O_RDONLY | O_DIRECTORY), p[2];
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	openat(d, "passwd", O_RDONLY);
	openat(d, "nothing", O_RDONLY);
	openat(77, "nothing", O_RDONLY);
	openat(-100, "/etc/passwd/x", O_RDONLY);
	open((void *)1, O_RDONLY);
	open("", O_RDONLY);
	longer[300] = 0;
	open(longer, O_RDONLY);
	mkdirat(-100, "a", 0755);
	symlinkat("target", -100, "a/link");
	linkat(-100, "a/link", -100, "a/other", 0);
	renameat2(-100, "a/link", -100, "a/other", RENAME_NOREPLACE);
	unlinkat(-100, "a/link", 0);
	unlinkat(-100, "a/other", AT_REMOVEDIR);
	unlink("a/other");
	fchdir(d);
	access("passwd", R_OK);
	close(d);
	fchdir(d);
	read(99, p, 4);
	read(-100, p, 4);
	write(-1, p, 4);
	bind(0, (void *)1, 16);
	connect(99, (void *)longer, 3);
	ftruncate(0, -1);
	dup3(1, 60, O_CLOEXEC);
	fcntl(60, F_GETFD);
	fcntl(60, F_DUPFD, 1 << 30);
	fcntl(77, F_DUPFD, 0);
	fcntl(77, F_DUPFD_CLOEXEC, 0);
	close_range(60, 61, 0);
	chdir("/");
	return 0;
}
"""
PROGRAMS = {"errors": ERRORS, "kinds": KINDS, "refused": (SOURCE / "tests/data/refused.c").read_text()}
COMMANDS = {
    "ls": ["/usr/bin/ls", "-l", "/etc/apt"],
    "cat": ["/usr/bin/cat", "/etc/passwd", "/nonexistent"],
    "shell": ["/bin/sh", "-c", SHELL],
    "bash": ["/bin/bash", "-c",
             "cd /usr; read x </etc/passwd; [ -e lib ] && echo $x >/dev/null; type ls; exec ls -d ."],
    "exec_chain": ["/usr/bin/env", "A=1", "/usr/bin/nice", "-n1", "/usr/bin/env", "B=2", "sh", "-c", "exec true"],
    "exec_fails": ["/usr/bin/env", "PATH=/usr/bin:/bin", "no-such-program"],
    "python_threads": ["/usr/bin/python3", "-I", "-S", "-c", PYTHON_THREADS],
    "python_sockets": ["/usr/bin/python3", "-I", "-S", "-c", PYTHON_SOCKETS],
    "perl": ["/usr/bin/perl", "-e", PERL],
    "errors": ["./errors"],
    "kinds": ["./kinds"],
    "refused": ["./refused", "7"],
    "sqlite3": ["/usr/bin/sqlite3", "db", "create table t(a); insert into t values (1), (2); select * from t;"],
    "git": ["/usr/bin/git", "init", "-q", "repo"],
}


def fresh(tmp_path):
    """The directory in which both runs work."""
    work = tmp_path / "w"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    for name in PROGRAMS:
        shutil.copy(tmp_path / name, work)
    return work


EXIT = {"cat": 1, "exec_fails": 127}


@pytest.fixture
def runs(tmp_path):
    """(by_strace(name), by_spoor(name)), each in a fresh directory, with the same addresses."""
    how = dict(stdin=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": "/nonexistent"})
    for program, source in PROGRAMS.items():
        subprocess.run(["gcc", "-O1", "-w", "-o", tmp_path / program, "-x", "c", "-"], input=source, text=True,
                       check=True, timeout=60)

    def by_strace(name, descriptors="-y"):
        with open(tmp_path / "t.spoor.err", "w") as err:  # by the name of the recording's
            return from_strace(strace.run(tmp_path / f"st{descriptors}", COMMANDS[name], descriptors,
                                          cwd=fresh(tmp_path), stdout=subprocess.DEVNULL, stderr=err, **how))

    def by_spoor(name):
        return record(tmp_path / "t.spoor", "-m", "app", "--", *COMMANDS[name], prefix=strace.CALM,
                      cwd=fresh(tmp_path), code=EXIT.get(name, 0), **how)
    return by_strace, by_spoor


@pytest.mark.parametrize("name", COMMANDS)
def test_like_strace(name, runs):
    by_strace, by_spoor = runs
    theirs, recording = by_strace(name), by_spoor(name)
    recording.check()
    chance = Counter(c["event"] for c in recording.calls if c["event"] in CHANCE)
    counts, wrong = compare(from_spoor(recording), theirs)
    print(f"{name}: {len(theirs)} threads; compared {dict(counts)}; left out: {dict(chance)}")
    assert not wrong, f"{len(wrong)} differences:\n" + "\n".join(wrong[:20])
    assert counts["calls"] > 40 and counts["numbers"] > counts["calls"] / 2 and counts["paths"] > 5
    assert counts["descriptors"] > 10 and sum(chance.values()) <= 0.25 * counts["calls"]


def test_sockets(runs):
    """Both ends of each, whenever strace knows them."""
    by_strace, by_spoor = runs
    counts, wrong = compare_sockets(from_spoor(by_spoor("python_sockets")), by_strace("python_sockets", "-yy"))
    print(dict(counts))
    assert not wrong, f"{len(wrong)} differences:\n" + "\n".join(wrong[:20])
    assert counts["sockets"] > 40 and counts["sockets' addresses"] > 15 and counts["sockets' names"] > 3
