# SPDX-License-Identifier: GPL-2.0-or-later
"""Sequences of system calls per thread, paths, descriptors, socket addresses, plain numbers and results against those
of `strace -ff -y`, of another run of the same deterministic command in a directory of the same name.

Threads are matched by who created them, in order. Addresses, and numbers that hang on chance, are not compared: inode
numbers of pipes and sockets, ports that the kernel chose, process ids other than through that matching. Calls that
hang on scheduling are left out by name (CHANCE), on both sides, and how many is printed."""
import re
import shutil
import subprocess
from collections import Counter

import pytest

import strace
from recording import record

CREATES = {"clone", "clone3", "fork", "vfork"}
PIDS = CREATES | {"wait4", "waitid", "getpid", "gettid", "getppid", "set_tid_address", "setsid", "getpgrp", "getpgid",
        "kill", "tgkill", "tkill"}
ADDRESSES = {"mmap", "brk", "mremap", "shmat"}
RESTARTS = {-512: "ERESTARTSYS", -513: "ERESTARTNOINTR", -514: "ERESTARTNOHAND", -516: "ERESTART_RESTARTBLOCK"}
CHANCE = {"futex", "sched_yield", "restart_syscall", "rt_sigreturn"}
RANDOM = re.compile(r"(?<=/\.git/)t\w{6}$")  # git's name for a try
# strace shows these with other arguments, or in another order, than the kernel takes them
OWN_ORDER = {"clone", "clone3", "select", "pselect6"}

SHELL = "for i in 1 2 3; do /bin/true; done; echo a | cat | wc -c; (cd /usr; pwd); x=$(echo y); exec /bin/echo $x"
PYTHON_THREADS = """
import os, threading, time
def work(i):
    fd = os.open('/etc/passwd', os.O_RDONLY); os.lseek(fd, i * 10, 0); os.read(fd, 10 + i); os.close(fd)
for i in range(5):
    t = threading.Thread(target=work, args=(i,)); t.start(); t.join(); time.sleep(0.02)
"""
PYTHON_SOCKETS = """
import os, socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('127.0.0.1', 0)); s.listen(5)
c = socket.socket(); c.connect(s.getsockname()); a, _ = s.accept(); c.send(b'xyz'); a.recv(2); c.close(); a.recv(9)
u = socket.socket(socket.AF_UNIX); u.bind('./sock'); u.listen(1)
v = socket.socket(socket.AF_UNIX); v.connect('./sock'); os.unlink('sock')
w = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); w.bind('\\0abstract-of-spoor'); w.close()
d = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); d.bind(('::1', 0)); d.sendto(b'x', ('::1', 9))
for f in (lambda: socket.socket().connect(('127.0.0.1', 1)), lambda: socket.socket(socket.AF_UNIX).connect('/no')):
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
static void use(int fd) { fcntl(fd, F_GETFD); close(fd); }
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
	write(-1, p, 4);
	bind(0, (void *)1, 16);
	connect(99, (void *)longer, 3);
	ftruncate(0, -1);
	dup3(1, 60, O_CLOEXEC);
	fcntl(60, F_GETFD);
	close_range(60, 61, 0);
	chdir("/");
	return 0;
}
"""
PROGRAMS = {"errors": ERRORS, "kinds": KINDS}
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
    "sqlite3": ["/usr/bin/sqlite3", "db", "create table t(a); insert into t values (1), (2); select * from t;"],
    "git": ["/usr/bin/git", "init", "-q", "repo"],
}


# ---- the two sides in one form: (name, arguments, result) ----

def tree(threads, created):
    """{tid: name}, the root being "0" and its second child "0.1"."""
    children = {tid: created(calls) for tid, calls in threads.items()}
    born = {c for cs in children.values() for c in cs}
    (root,) = [t for t in threads if t not in born]
    names, todo = {}, [(root, "0")]
    while todo:
        tid, name = todo.pop()
        names[tid] = name
        todo += [(c, f"{name}.{i}") for i, c in enumerate(children.get(tid, []))]
    return names


def from_strace(threads):
    def created(calls):
        return [int(r) for name, _, r in calls if name in CREATES and r.isdigit() and r != "0"]
    names = tree(threads, created)
    return {names[t]: [(n, a, strace_result(n, r, names)) for n, a, r in calls if n not in CHANCE]
            for t, calls in threads.items()}


def strace_result(name, text, names):
    m = re.match(r"\? (ERESTART\w+)", text)
    if m:
        return m[1]
    if text.startswith("?"):
        return None
    m = re.match(r"-1 (E\w+)", text)
    if m:
        return m[1]
    if name in ADDRESSES and text.startswith("0x"):
        return "address"
    value = int(text.split("<")[0].split()[0], 0)
    return known(value, names) if name in PIDS else value


def known(pid, names):
    return names.get(pid, "stranger" if pid else 0)


def from_spoor(recording):
    threads = recording.by_thread()

    def created(calls):
        return [c["ret"] for c in calls if c["event"] in CREATES and isinstance(c["ret"], int) and c["ret"] > 0]
    names = tree(threads, created)
    return {names[t]: [(c["event"], c["args"], spoor_result(c, names)) for c in calls if c["event"] not in CHANCE]
            for t, calls in threads.items()}


def spoor_result(call, names):
    if isinstance(call["ret"], str):
        return "address" if call["event"] in ADDRESSES else int(call["ret"], 16)
    if call["ret"] in RESTARTS:
        return RESTARTS[call["ret"]]
    if call["errno"]:
        return call["errno"]
    return known(call["ret"], names) if call["event"] in PIDS and call["ret"] is not None else call["ret"]


# ---- arguments ----

def plain(path):
    return RANDOM.sub("t", re.sub(r"\[\d+\]", "[N]", path))


def same_descriptor(ours, text):
    theirs = strace.descriptor(text)
    if theirs is None or theirs[0] != ours["fd"]:
        return False
    path = theirs[1]
    if path is None:
        return "path" not in ours and "socket" not in ours
    if path.startswith("socket:"):
        return "socket" in ours  # its inode is another in each run
    if "path" not in ours:
        return False
    if path.startswith("pipe:"):
        return ours["kind"] == "pipe" and ours["path"].startswith("pipe:[") and plain(ours["path"]) == plain(path)
    if ours["kind"] == "anonymous":
        return plain(path).strip("/").replace("anon_inode:", "") == plain(ours["path"]).replace("anon_inode:", "")
    return plain(ours["path"]) == plain(path)


def same_address(ours, text):
    if ours is None or isinstance(ours, str):
        return not text.startswith("{")
    family = ours["family"] if isinstance(ours["family"], str) else hex(ours["family"])
    if "data" in ours:
        return text.startswith("{sa_family=" + family)
    if not text.startswith("{sa_family=" + family):
        return False
    if ours["family"] == "AF_UNIX":
        m = re.search(r'sun_path=(@?)("(?:[^"\\]|\\.)*")', text)
        return bool(m) and m[1] + strace.unquote(m[2]).decode() == ours["path"]
    m = re.search(r'htons\((\d+)\).*"([0-9a-f.:]+)"', text)
    return bool(m) and m[2] == ours["address"] and (int(m[1]) == ours["port"] or min(int(m[1]), ours["port"]) > 1024)


def same_path(ours, text):
    theirs = strace.unquote(text)
    if theirs is None:
        return ours is None
    return ours is not None and plain(ours) == plain(theirs.decode(errors="surrogateescape"))


MODES = {"F_OK": 0, "X_OK": 1, "W_OK": 2, "R_OK": 4}


def same_mode(ours, text):
    if text.split("|")[0] in MODES:
        return int(ours, 8) == sum(MODES[m] for m in text.split("|"))
    return not re.fullmatch("0[0-7]*", text) or int(ours, 8) == int(text, 8)


def difference(name, ours, theirs):
    """What is not the same of two calls' arguments, or None."""
    for i, (arg, value) in enumerate(ours.items()):
        if name in OWN_ORDER or i >= len(theirs):
            break
        text, same = theirs[i], True
        if isinstance(value, dict) and "fd" in value:
            same = same_descriptor(value, text)
        elif isinstance(value, dict) and "family" in value:
            same = same_address(value, text)
        elif arg in ("mode", "mask") and isinstance(value, str):
            same = same_mode(value, text)
        elif isinstance(value, str) and not value.startswith("0x") or value is None and text.startswith('"'):
            same = same_path(value, text)
        elif isinstance(value, int) and re.fullmatch(r"-?\d+", text) and name not in PIDS:
            same = (value - int(text)) % 2**64 == 0
        if not same:
            return f"{arg}: Spoor {value!r}, strace {text[:200]!r}"
    return None


def same_pipes(ours, theirs):
    """Inode numbers are another run's: those of the two sides belong together one by one."""
    pairs = set()
    for thread in ours:
        for (_, a, _), (_, b, _) in zip(ours[thread], theirs[thread]):
            for value, text in zip(a.values(), b):
                if isinstance(value, dict) and value.get("kind") == "pipe":
                    pairs.add((value["path"], strace.descriptor(text)[1]))
    return len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs)


def compare(ours, theirs):
    counts = Counter()
    wrong = []
    assert ours.keys() == theirs.keys(), (sorted(ours), sorted(theirs))
    for thread in sorted(ours):
        a, b = ours[thread], theirs[thread]
        names = [c[0] for c in a], [c[0] for c in b]
        if names[0] != names[1]:
            at = next((i for i, (x, y) in enumerate(zip(*names)) if x != y), min(map(len, names)))
            wrong.append(f"thread {thread}, call {at} of {len(a)} and {len(b)}: "
                         f"{a[at - 2:at + 3]} and {b[at - 2:at + 3]}")
            continue
        for i, (x, y) in enumerate(zip(a, b)):
            counts["calls"] += 1
            if x[2] != y[2]:
                wrong.append(f"thread {thread}, call {i}: {x[0]}: result: Spoor {x[2]!r}, strace {y[2]!r} {y[1]}"[:400])
            found = difference(x[0], x[1], y[1])
            if found:
                wrong.append(f"thread {thread}, call {i}: {x[0]}: {found}")
    if not wrong and not same_pipes(ours, theirs):
        wrong.append("pipes are taken for one another")
    return counts, wrong


def fresh(tmp_path):
    """The directory in which both runs work."""
    work = tmp_path / "w"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    for name in PROGRAMS:
        shutil.copy(tmp_path / name, work)
    return work


EXIT = {"cat": 1, "exec_fails": 127}

# Whether a child ends before its parent looks is chance: one pair of runs must be the same.
ATTEMPTS = {"shell": 5, "perl": 3, "python_threads": 5}


@pytest.mark.parametrize("name", COMMANDS)
def test_like_strace(name, tmp_path):
    for program, source in PROGRAMS.items():
        subprocess.run(["gcc", "-O1", "-w", "-o", tmp_path / program, "-x", "c", "-"], input=source, text=True,
                       check=True, timeout=60)
    for attempt in range(ATTEMPTS.get(name, 1)):
        wrong = once(name, tmp_path, attempt)
        if not wrong:
            break
    assert not wrong, f"{len(wrong)} differences:\n" + "\n".join(wrong[:20])


def once(name, tmp_path, attempt):
    how = dict(stdin=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": "/nonexistent"})
    command = ["/usr/bin/setarch", "-R", *COMMANDS[name]]
    path = tmp_path / f"t{attempt}.spoor"
    with open(f"{path}.err", "w") as err:
        theirs = from_strace(strace.run(tmp_path / f"st{attempt}", command, cwd=fresh(tmp_path),
                                        stdout=subprocess.DEVNULL, stderr=err, **how))
    recording = record(path, "-m", "app", "--", *command, cwd=fresh(tmp_path), code=EXIT.get(name, 0), **how)
    chance = Counter(c["event"] for c in recording.calls if c["event"] in CHANCE)
    counts, wrong = compare(from_spoor(recording), theirs)
    recording.check()
    print(f"{name}: {len(theirs)} threads, {counts['calls']} calls compared, left out: {dict(chance)}; differences of "
          f"attempt {attempt + 1}: {wrong}")
    assert counts["calls"] > 40 and sum(chance.values()) <= 0.25 * counts["calls"]
    return wrong
