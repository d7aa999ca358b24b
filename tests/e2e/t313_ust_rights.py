# SPDX-License-Identifier: GPL-2.0-or-later
"""Who may record whom: users' own daemons, setuid programs, strangers. As root, acting as others."""
import contextlib
import fcntl
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import termios
import time

import fakeprogram
import pytest
import tracing
from daemons import PATIENCE, Daemon, daemon, end_keeper, in_a_row, open_place as place, ticker  # noqa: F401
from fakeprogram import COMMAND, Arena, Program, event_class, message
from processes import ready, tell, wait_for

USER, STRANGER = 12345, 12346
SAYS_STRANGER = 8  # a flag of HELLO


@pytest.fixture
def linked(build, place):
    """The ticker, linked with the library, from where all users can read both."""
    shutil.copy(tracing.agent(build), place)
    return tracing.build_program(place / "ticker", "ust_ticker.c", "-Wl,--no-as-needed", place / "libspoor-ust.so.0",
                                 f"-Wl,-rpath,{place}")


def as_user(uid, *argv, **how):
    return subprocess.Popen([str(a) for a in argv], user=uid, group=uid, extra_groups=[], **how)


def listen(path, uid):
    """A socket as that user's recorder would have it; SO_PEERCRED of who listens is the user's."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.setblocking(False)
    os.setegid(uid)
    os.seteuid(uid)
    try:
        s.bind(str(path))
        s.listen(5)
    finally:
        os.seteuid(0)
        os.setegid(0)
    path.chmod(0o777)
    return s


def comes(s, path, uid, program):
    """A program that obeys; who does not may say that, without a name, and no more."""
    env = {"SPOOR_UST_SOCKET": str(path), "PATH": os.environ["PATH"]}
    p = as_user(uid, program, 1, 10, env=env, stdout=subprocess.DEVNULL)
    assert p.wait(20) == 0  # what it said waits in the socket
    try:
        peer, _ = s.accept()
        said = peer.recv(8192)
        stranger = said and struct.unpack_from("<I", said, 20)[0] & SAYS_STRANGER
        if stranger:
            assert said[48:] == bytes(272) and peer.recv(8192) == b""
        peer.close()
        return bool(said) and not stranger
    except BlockingIOError:
        return False


def test_setuid_program_obeys_no_stranger(place, linked):
    """A user's recorder gets his own programs, not those that run with root's rights for him."""
    s = listen(place / "mine", USER)
    assert comes(s, place / "mine", USER, linked)
    setuid = place / "setuid"
    shutil.copy(linked, setuid)
    setuid.chmod(0o4755)
    assert not comes(s, place / "mine", USER, setuid)


def test_strangers_recorder_is_not_trusted(place, linked):
    s = listen(place / "mine", USER)
    assert not comes(s, place / "mine", STRANGER, linked)
    assert not comes(s, place / "mine", 0, linked)


def test_users_daemon(build, place, linked):
    """Without any privilege; and no other user gives it commands."""
    shutil.copy(build / "spoor", place)
    env = {"XDG_RUNTIME_DIR": str(place), "PATH": os.environ["PATH"]}
    spoor = place / "spoor"
    d = as_user(USER, spoor, "daemon", env=env, cwd=place, stderr=subprocess.PIPE, text=True)
    try:
        assert "ready" in d.stderr.readline()

        def ust(uid, *words):
            p = as_user(uid, spoor, "ust", *words, env=env, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                        text=True)
            out, err = p.communicate(timeout=20)
            return p.returncode, out + err
        assert ust(USER, "start", "-o", "t.spoor")[0] == 0
        code, said = ust(STRANGER, "status")
        assert code == 1 and ("own user" in said or "no daemon" in said), said
        assert as_user(USER, linked, 2, 503, env=env, stdout=subprocess.DEVNULL).wait(20) == 0
        code, said = ust(USER, "end")
        assert code == 0 and "1108 events of 1 program, 0 lost" in said, said
    finally:
        d.terminate()
        d.wait(10)


def test_who_may_not_be_looked_into(build, place):
    """A user's daemon cannot know whether the library is in it, and says that."""
    shutil.copy(build / "spoor", place)
    shutil.copy(tracing.agent(build), place)
    (place / "hidden.c").write_text("#include <sys/prctl.h>\nstatic __attribute__((constructor)) void hide(void)\n"
                                    "{\n\tprctl(PR_SET_DUMPABLE, 0, 0, 0, 0);\n}\n")
    program = tracing.build_program(place / "ticker", "ust_ticker.c", place / "hidden.c", "-Wl,--no-as-needed",
                                    place / "libspoor-ust.so.0", f"-Wl,-rpath,{place}")
    env = {"XDG_RUNTIME_DIR": str(place), "PATH": os.environ["PATH"]}
    p = ready(as_user(USER, program, 1, 0, 500, env=env, stdout=subprocess.PIPE))
    d = as_user(USER, place / "spoor", "daemon", env=env, cwd=place, stderr=subprocess.PIPE, text=True)
    try:
        assert "ready" in d.stderr.readline()
        run = as_user(USER, place / "spoor", "ust", "start", "-o", "t.spoor", p.pid, env=env, cwd=place,
                      stderr=subprocess.PIPE, text=True)
        assert f"{p.pid}: the daemon may not look into it: run it as root" in run.communicate(timeout=20)[1]
    finally:
        for process in (p, d):
            process.terminate()
            process.wait(10)


@pytest.mark.parametrize("what", ["large thread-local variables", "no more threads"])
def test_programs_whose_listener_has_no_room(build, place, what):
    """It is given more, or the recorder calls the program, as it calls who has none."""
    large = "large" in what
    shutil.copy(tracing.agent(build), place)
    (place / "large.c").write_text(f"_Thread_local char large[{400_000 if large else 8}] = {{1}};\n")
    program = tracing.build_program(place / "ticker", "ust_ticker.c", place / "large.c", "-Wl,--no-as-needed",
                                    place / "libspoor-ust.so.0", f"-Wl,-rpath,{place}")
    d = Daemon(build, place).start()
    try:
        d.ust("start", "-o", "t.spoor", "-e", "zoo:rare")
        limit = [] if large else ["prlimit", "--nproc=1:1"]
        p = ready(as_user(USER, *limit, program, 1, 0, 500, env=d.environment(preload=False), stdout=subprocess.PIPE))
        d.running.append(p)
        assert len(os.listdir(f"/proc/{p.pid}/task")) == (2 if large else 1)
        assert d.ust("enable", "zoo:tick", "-a").stdout == "1 program, 1 site\n"

        def count():
            return int(re.search(rf"{p.pid} ticker: (\d+) event", d.ust("status").stdout)[1])
        wait_for(lambda: count() > 100)
        assert "1 program" in d.ust("stop", "-a").stdout
        before = count()
        time.sleep(0.2)
        assert count() == before
        assert ", 0 lost" in d.ust("end").stdout
        assert in_a_row(d.ticks()[p.pid, 0])
    finally:
        for p in d.running:
            p.kill()
            p.wait()
        d.kill(signal.SIGTERM)


def strangers_commands(path):
    """A connection of his, by which he has sent as many commands as fit, and reads no answer."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)  # more than fit into what is there for answers
    os.seteuid(STRANGER)
    try:
        s.connect(path)
    finally:
        os.seteuid(0)
    s.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            s.send(message(COMMAND, b"status"))
    return s


def is_heard(s):
    """What it has sent is read, or thrown away."""
    return not struct.unpack("i", fcntl.ioctl(s, termios.TIOCOUTQ, bytes(4)))[0]


def answers(s):
    """Before it is hung up, of which it hears as well as that what it sent was not read."""
    got = []
    s.settimeout(PATIENCE)
    while True:
        try:
            got.append(s.recv(8192))
        except ConnectionResetError:
            continue
        if not got[-1]:
            return got[:-1]


def test_strangers_who_read_no_refusals(daemon, monkeypatch):
    """Nobody waits for them: each is refused once, and hung up."""
    daemon.cwd.chmod(0o711)
    monkeypatch.chdir(daemon.cwd)  # what it is in is root's alone
    daemon.process.send_signal(signal.SIGSTOP)
    strangers = [strangers_commands(daemon.socket.name) for _ in range(40)]
    began = time.monotonic()
    daemon.process.send_signal(signal.SIGCONT)
    wait_for(lambda: all(is_heard(s) for s in strangers), PATIENCE)
    assert daemon.ust("status").stdout == "no session\n"
    assert time.monotonic() - began < 10  # half a second for each
    for s in strangers:
        (refusal,) = answers(s)
        assert b"only the recorder's user and root may give commands" in refusal
        s.close()


PLACES = 30
HALF = 15


ENDLESS = r"""
#define _GNU_SOURCE
#include <linux/prctl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Its environment is a terabyte of nothing, as it may say, and as it looks it may be the library's. */
int main(void)
{
	const size_t size = 1UL << 40;
	char *nothing = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct prctl_mm_map m = { .exe_fd = -1 };
	unsigned long brk = (unsigned long)sbrk(0), at = (unsigned long)nothing;
	int fd = memfd_create("spoor-ust", 0);

	signal(SIGURG, (void (*)(int))main);
	m.start_code = m.start_data = m.end_data = (unsigned long)main;
	m.end_code = m.start_code + 1;
	m.start_brk = m.brk = brk;
	m.start_stack = m.arg_start = m.arg_end = m.env_start = at;
	m.env_end = at + size;
	if (nothing == MAP_FAILED || ftruncate(fd, 4096) ||
	    mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ||
	    prctl(PR_SET_MM, PR_SET_MM_MAP, &m, sizeof(m), 0))
		return perror("mm"), 1;
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
"""


def test_environment_without_an_end(daemon, place):
    """Of a program that another user has made, in which is looked which recorder it obeys."""
    (place / "endless.c").write_text(ENDLESS)
    subprocess.run(["gcc", "-o", place / "endless", place / "endless.c"], check=True)
    p = as_user(STRANGER, place / "endless", stdout=subprocess.PIPE)
    try:
        assert p.stdout.readline() == b"ready\n"
        assert daemon.ust("start", "-o", "t.spoor", "-e", "no:one").returncode == 0
    finally:
        p.kill()
        p.wait()


def test_no_user_keeps_others_out(build, place, linked):
    """One has half of the places. His programs beyond them are undisturbed: who lives is recorded when there is room,
    from its first event on; who has ended by then is counted."""
    d = Daemon(build, place).start()
    env = d.environment(preload=False)
    begun = []

    def begin(uid):
        begun.append(ready(as_user(uid, linked, 1, 0, 1000, env=env, stdout=subprocess.PIPE)))
        return begun[-1].pid

    def is_recorded(pid):
        return f"{pid} ticker: " in d.ust("status").stdout

    def end(n):
        begun[n].kill()
        begun[n].wait()
    try:
        resource.prlimit(d.process.pid, resource.RLIMIT_NOFILE, (3 * PLACES, 3 * PLACES))
        d.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
        first = [begin(USER) for _ in range(HALF)]
        wait_for(lambda: all(is_recorded(pid) for pid in first))
        ended, lives = begin(USER), begin(USER)
        others = [begin(STRANGER), begin(0)]
        wait_for(lambda: all(is_recorded(pid) for pid in others))
        assert not is_recorded(ended) and not is_recorded(lives)
        assert "  2 programs found no room" in d.ust("status").stdout
        end(HALF)
        for n in range(3):  # the others have taken two of those that were free
            end(n)
        wait_for(lambda: is_recorded(lives))
        for n in range(len(begun)):
            end(n)
        said = d.ust("end").stdout
        assert "2 programs found no room" in said, said
        ticks = {pid: numbers for (pid, _), numbers in d.ticks().items()}
        assert ticks.keys() == {*first, lives, *others}
        assert all(numbers[0] == 0 and in_a_row(numbers) for numbers in ticks.values())
        assert d.summary["programs_turned_away"] == 2
        d.kill(signal.SIGTERM)
        assert d.process.stderr.read().count(f"user {USER} has as many connections as one user may have") == 1
    finally:
        for n in range(len(begun)):
            end(n)
        d.kill()
        end_keeper(f"{d.socket}.keeper")


def test_large_buffers_of_another_user(build, place, linked):
    """As large as the session asks for."""
    d = Daemon(build, place).start()
    try:
        d.ust("start", "-o", "t.spoor", "-e", "zoo:tick", "--buffers", "300M")
        env = d.environment(preload=False)
        assert as_user(USER, linked, 1, 10, env=env, stdout=subprocess.DEVNULL).wait(PATIENCE) == 0
        assert d.ust("end").stdout.startswith("10 events of 1 program, 0 lost")
    finally:
        d.kill()
        end_keeper(f"{d.socket}.keeper")


def test_no_more_buffers_than_asked_for(daemon, monkeypatch):
    """For each, and be it empty, the recorder needs memory: of another user's program it takes as many, and as large
    ones, as the session wants."""
    daemon.cwd.chmod(0o711)
    monkeypatch.chdir(daemon.cwd)  # what it is in is root's alone
    daemon.ust("start", "-o", "t.spoor")

    def come():
        os.seteuid(STRANGER)
        try:
            p = Program(daemon.socket.name)
        finally:
            os.seteuid(0)
        p.setup()
        return p
    large, many = come(), come()
    large.offer(Arena(packets=10000, packet_size=4096))
    assert large.receive()[0] == 0
    with contextlib.suppress(OSError):
        for _ in range(9):
            many.offer(Arena(packets=2))
    assert many.receive()[0] == 0
    daemon.ust("end")
    daemon.kill(signal.SIGTERM)
    assert "larger than the session asked for" in daemon.process.stderr.read()


def test_kinds_of_events_are_for_all(daemon, monkeypatch, ticker):  # noqa: F811
    """There are numbers for some thirty thousand in a session: another user's programs do not take all of them."""
    daemon.cwd.chmod(0o711)
    monkeypatch.chdir(daemon.cwd)  # what it is in is root's alone
    monkeypatch.setattr(fakeprogram, "DEFS_SIZE", 2 << 20)
    daemon.ust("start", "-o", "t.spoor")
    come = []
    for n in range(4):
        os.seteuid(STRANGER)
        try:
            p, arena = Program(daemon.socket.name), Arena(packets=2)
        finally:
            os.seteuid(0)
        p.setup()
        for i in range(2, 8192):
            arena.define(event_class(i, f"e{n}_{i}"))
        p.offer(arena)
        come.append(p)
    assert daemon.program(ticker, 1, 5).wait(PATIENCE) == 0
    assert re.match(r"6 events of \d programs?, 0 lost", daemon.ust("end").stdout)


def test_alone_as_user(build, place, linked):
    """A user records, lists and recovers without root."""
    shutil.copy(build / "spoor", place)
    out = place / "d"
    out.mkdir()
    out.chmod(0o777)
    env = {"SPOOR_UST_OUTPUT": str(out), "PATH": os.environ["PATH"]}
    assert as_user(USER, linked, 1, 100, env=env, stdout=subprocess.DEVNULL).wait(20) == 0
    p = as_user(USER, place / "spoor", "ust", "recover", out, "-o", place / "t.spoor", stdout=subprocess.PIPE,
                text=True)
    assert "110 events of 1 program" in p.communicate(timeout=20)[0]
    p = as_user(USER, linked, 1, 0, 1000, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    time.sleep(0.1)
    listing = as_user(USER, place / "spoor", "ust", "list", p.pid, stdout=subprocess.PIPE, text=True)
    assert "zoo:tick off" in listing.communicate(timeout=20)[0]
    p.kill()
    p.wait()


OTHERS = 100000  # the first user of a container's, as rootless ones have it


def in_other_user_namespace(daemon, users, program, *args):
    """As its root, who is user OTHERS here. users: as in uid_map; a program that has begun."""
    enter = ["setpriv", f"--reuid={OTHERS}", f"--regid={OTHERS}", "--clear-groups", "unshare", "--user", "sh", "-c"]
    p = daemon.program(*enter, 'echo ready; read go; exec "$0" "$@"', program, *args, stdin=subprocess.PIPE)
    with open(f"/proc/{p.pid}/uid_map", "w") as f:
        f.write(users)
    tell(p)
    return ready(p)


@pytest.fixture
def machines(build, place):
    d = Daemon(build, place)
    yield d.start()
    for p in d.running:
        p.kill()
        p.wait()
    d.kill()
    end_keeper(f"{d.socket}.keeper")


NEITHER = "seen from there (a user namespace?) this recorder's user is neither root nor the program's own"


def test_user_namespace_without_the_recorders_user(machines, linked):
    """What does not obey him is counted, once, with the reason; whose root he is is recorded."""
    machines.environment = lambda *_: os.environ | {"SPOOR_UST_SOCKET": str(machines.socket)}
    machines.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    stays = in_other_user_namespace(machines, f"0 {OTHERS} 65536\n", linked, 1, 0, 1000)
    line = f"1 program that came is not recorded: {NEITHER}"
    wait_for(lambda: line in machines.ust("status").stdout)
    machines.ust("enable", "-a", "zoo:tick")  # for which it is called once more
    machines.kill(signal.SIGKILL)
    machines.start()
    knows = in_other_user_namespace(machines, f"0 0 1\n1 {OTHERS} 65535\n", linked, 1, 5)
    assert knows.wait(20) == 0 and stays.poll() is None
    said = machines.ust("end").stdout
    assert said.startswith("5 events of 1 program") and line in said, said
    assert [len(n) for n in machines.ticks().values()] == [5] and machines.summary["programs_not_recorded"] == 1


@pytest.mark.parametrize("killed", [False, True])
def test_user_namespaces_of_programs_that_have_ended(machines, linked, killed):
    """Who did not obey is counted also where nobody could look at him while he lived, and no daemon was there."""
    machines.environment = lambda *_: os.environ | {"SPOOR_UST_SOCKET": str(machines.socket)}
    machines.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    if killed:
        machines.kill(signal.SIGKILL)
    else:
        machines.process.send_signal(signal.SIGSTOP)
    for _ in range(3):
        assert in_other_user_namespace(machines, f"0 {OTHERS} 65536\n", linked, 1, 5).wait(20) == 0
    if killed:
        machines.start()
    else:
        machines.process.send_signal(signal.SIGCONT)
    said = machines.ust("end").stdout
    assert said.startswith("0 events of 0 programs") and f"3 programs that came are not recorded: {NEITHER}" in said
    assert machines.ticks() == {} and machines.summary["programs_not_recorded"] == 3


def test_user_namespace_that_knows_nobody(machines, linked):
    """There everybody has the number of nobody, the program and whoever listens: it obeys none of them."""
    machines.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    env = {"SPOOR_UST_SOCKET": str(machines.socket), "PATH": os.environ["PATH"]}
    assert as_user(OTHERS, "unshare", "--user", linked, 1, 5, env=env, stdout=subprocess.DEVNULL).wait(20) == 0
    assert as_user(65534, linked, 1, 5, env=env, stdout=subprocess.DEVNULL).wait(20) == 0
    said = machines.ust("end").stdout
    assert said.startswith("5 events of 1 program") and f"1 program that came is not recorded: {NEITHER}" in said, said
