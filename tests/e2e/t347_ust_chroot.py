# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that call chroot(), where no recorder's path is: they and their children are recorded on."""
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest
import tracing

from daemons import PATIENCE, daemon  # noqa: F401
from processes import NOBODY, ready, tell, wait_for

COUNT = 300
NOBODYS = 65534
UIDS = [0, NOBODYS]


@pytest.fixture(scope="module")
def prisoner(tmp_path_factory):
    return tracing.build_program(tmp_path_factory.mktemp("bin") / "prisoner", "ust_chroot.c")


@pytest.fixture
def prison(tmp_path):
    """Where they are locked up. The recorder's path is open to everybody, as the machine's is."""
    modes = {place: place.stat().st_mode for place in (tmp_path, *tmp_path.parents)}
    closed = [place for place, mode in modes.items() if not mode & 0o001]
    for place in closed:
        place.chmod(modes[place] | 0o001)
    (tmp_path / "prison").mkdir(mode=0o755)
    yield tmp_path / "prison"
    for place in closed:
        place.chmod(modes[place])


def begin(daemon, prisoner, prison, uid):
    return daemon.program(prisoner, COUNT, prison, uid, stdin=subprocess.PIPE)


def go_round(p, times=1):
    for _ in range(times):
        tell(p, b"x")
        ready(p)


def end(daemon, p):
    def listed():
        return re.search(rf"^ *{p.pid} prisoner: ", daemon.ust("status").stdout, re.MULTILINE)

    wait_for(listed)
    p.stdin.close()
    assert p.wait(PATIENCE) == 0
    try:
        wait_for(lambda: not listed())
    finally:
        print(daemon.ust("status").stdout)
    return daemon.ust("end").stdout


def threads(rounds):
    return [0] + [10 * i + k for i in range(1, rounds + 1) for k in range(3)]


def check(daemon, rounds, name="t.spoor"):
    """Everything that they and their children wrote, once, and all of them by name."""
    assert {t: n for (_, t), n in daemon.ticks(name).items()} == {t: list(range(COUNT)) for t in threads(rounds)}
    assert {p["comm"] for p in daemon.summary["programs"]} == {"prisoner"}


@pytest.mark.parametrize("uid", UIDS)
def test_children(daemon, prisoner, prison, uid):
    daemon.ust("start", "-o", "t.spoor")
    p = begin(daemon, prisoner, prison, uid)
    go_round(p, 4)
    assert end(daemon, p).startswith(f"{13 * COUNT} events of 9 programs, 0 lost")
    check(daemon, 4)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("uid", UIDS)
def test_another_daemon(daemon, prisoner, prison, uid, number):
    """The next one finds who is locked up, and is found by the children."""
    daemon.ust("start", "-o", "t.spoor")
    p = begin(daemon, prisoner, prison, uid)
    for i in range(1, 4):
        go_round(p)
        wait_for(lambda: f"{(1 + 3 * i) * COUNT} events of {1 + 2 * i} programs" in daemon.ust("status").stdout)
        daemon.kill(number)
        daemon.start()
        assert "does not find" not in "".join(daemon.said)
        wait_for(lambda: f"{p.pid} prisoner" in daemon.ust("status").stdout)
    go_round(p)
    assert end(daemon, p).startswith(f"{13 * COUNT} events of 9 programs, 0 lost")
    check(daemon, 4)


def test_session_that_begins_later(daemon, prisoner, prison):
    """Who had found the daemon before it was locked up is found by it."""
    daemon.ust("start", "-o", "first.spoor", "-s", "first")
    p = begin(daemon, prisoner, prison, 0)
    daemon.ust("start", "-o", "t.spoor")
    go_round(p)
    daemon.ust("end", "-s", "first")
    end(daemon, p)
    check(daemon, 1, "first.spoor")
    assert sorted(t for _, t in daemon.ticks()) == threads(1)[1:]


def test_run(build, daemon, prisoner, prison):
    done = subprocess.run([build / "spoor", "ust", "run", "-o", "t.spoor", "--", prisoner, str(COUNT), prison, "0"],
                          cwd=daemon.cwd, input=b"xxx", capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0 and b"7 programs, 0 lost" in done.stderr, done.stderr
    check(daemon, 3)


STRANGER = """
import socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
    s.bind(chr(0) + sys.argv[1])
    s.listen()
    print("ready", flush=True)
    while True:
        print(s.accept()[0].recv(4096), flush=True)
"""


@contextmanager
def stranger(path):
    """Somebody else's process with the recorder's name; who comes, and what he says, is on its standard output."""
    with subprocess.Popen([*NOBODY, sys.executable, "-c", STRANGER, path], stdout=subprocess.PIPE) as p:
        try:
            yield ready(p)
        finally:
            p.kill()


def test_stranger_with_the_name(daemon, prisoner, prison):
    """It is told nothing, and obeyed by nobody; the recorder says what follows from that."""
    daemon.kill(signal.SIGTERM)
    with stranger(str(daemon.socket)) as s:
        daemon.start()
        assert "does not find this recorder" in "".join(daemon.said)
        daemon.ust("start", "-o", "t.spoor")
        p = begin(daemon, prisoner, prison, 0)
        go_round(p)
        assert s.stdout.readline() == b"b''\n"
        end(daemon, p)
    assert [t for _, t in daemon.ticks()] == [0, 10]


@pytest.mark.parametrize("what", ["socket", "cwd"])
def test_permissions_of_the_path_hold(daemon, prisoner, prison, what):
    """Of the socket, or of its directory: for who is locked up as for others."""
    place = getattr(daemon, what)
    place.chmod(place.stat().st_mode & ~0o003)
    daemon.ust("start", "-o", "t.spoor")
    p = begin(daemon, prisoner, prison, NOBODYS)
    go_round(p)
    end(daemon, p)
    assert [t for _, t in daemon.ticks()] == [0, 10]


def test_name_goes_with_the_recorder(daemon):
    def found():
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            return s.connect_ex(f"\0{daemon.socket}") == 0

    assert found()
    daemon.kill(signal.SIGTERM)
    assert not found()
