# SPDX-License-Identifier: GPL-2.0-or-later
"""A daemon whose directory was removed, and made anew for another one: what lies there is that one's. Or is full."""
import contextlib
import os
import re
import signal
import socket
import subprocess

import pytest

from daemons import PATIENCE, Daemon, daemon, end_keeper, keeper_pid, ticker  # noqa: F401
from fakeprogram import COMMAND, message
from processes import wait_for


@contextlib.contextmanager
def another(daemon):
    """A daemon at the same path, after what lay there was removed."""
    keeper = keeper_pid(f"{daemon.socket}.keeper")
    for path in daemon.cwd.glob("ust.sock*"):
        path.unlink()
    other = Daemon(daemon.build, daemon.cwd).start()
    try:
        yield other
    finally:
        other.kill()
        end_keeper(f"{other.socket}.keeper")
        with contextlib.suppress(ProcessLookupError):
            os.kill(keeper, signal.SIGKILL)  # nobody finds it any more


def files(daemon):
    return {p.name: p.lstat().st_ino for p in daemon.cwd.glob("ust.sock*")}


@pytest.mark.parametrize("session", ["goes on", "none", "ends"])
def test_files_of_another_daemon(daemon, ticker, session):
    """Neither by a command, of one who has been connected, nor at its end; and the other one can rely on them."""
    if session != "none":
        daemon.ust("start", "-o", "old.spoor", "-e", "zoo:tick")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.settimeout(PATIENCE)
        client.connect(str(daemon.socket))
        with another(daemon) as other:
            other.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
            found = files(other)
            assert {f"ust.sock{end}" for end in ("", ".keeper", ".sessions", ".state", ".waiting")} == set(found)
            if session == "ends":
                client.send(message(COMMAND, b"end"))
                assert b"0 events of 0 programs" in client.recv(4096)
            daemon.kill(signal.SIGTERM)
            assert files(other) == found
            assert ("do not survive this one" in daemon.process.stderr.read()) == (session == "goes on")
            other.kill()
            assert daemon.program(ticker, 1, 4).wait(PATIENCE) == 0
            other.start()
            assert other.ust("end").stdout.startswith("4 events of 1 program, 0 lost")


@pytest.fixture
def full(tmp_path):
    """full(path) -> a file system at that path, and a file that fills it."""
    made = []

    def fill(where):
        fd = os.open(where / "filler", os.O_WRONLY | os.O_CREAT)
        with contextlib.suppress(OSError):
            while os.write(fd, bytes(4096)):
                pass
        os.close(fd)
        return where / "filler"

    def mount(where):
        where.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "spoor-test", where], check=True)
        made.append(where)
        return fill
    yield mount
    for where in made:
        subprocess.run(["umount", "--lazy", where], check=True)


def test_full_directory(build, ticker, tmp_path, full):
    """A session records all the same, and its command says what is missing; that is made good when there is room."""
    place = tmp_path / "full"
    fill = full(place)
    daemon = Daemon(build, place).start()
    try:
        filler = fill(place)
        run = daemon.ust("start", "-o", tmp_path / "t.spoor", "-e", "zoo:tick")
        assert run.stdout.startswith(f"{daemon.socket}.state: cannot be written: No space left on device; the "
                                     "sessions do not survive this daemon, as long as that is so\n")
        filler.unlink()
        wait_for((place / "ust.sock.state").exists)
        daemon.kill()
        assert daemon.program(ticker, 1, 4).wait(PATIENCE) == 0
        daemon.start()
        assert daemon.ust("end").stdout.startswith("4 events of 1 program, 0 lost")
    finally:
        daemon.kill()
        end_keeper(f"{daemon.socket}.keeper")


def test_end_of_a_session_that_failed(daemon, ticker, tmp_path, full):
    """Its disk is full: `end` says so, and what that cost; the session has ended for the next daemon, too."""
    fill = full(tmp_path / "full")
    daemon.ust("start", "-o", tmp_path / "full/t.spoor", "-e", "zoo:tick")
    fill(tmp_path / "full")
    for _ in range(30):  # their definitions do not fit in what is left of a page
        assert daemon.program(ticker, 1, 4).wait(PATIENCE) == 0
    wait_for(lambda: re.search("session default: failed.* 0 events of 30 programs, 120 lost",
                               daemon.ust("status").stdout, re.S))
    run = daemon.ust("end", check=False)
    assert run.returncode == 1 and "No space left on device" in run.stderr
    assert run.stdout.startswith("0 events of 30 programs, 120 lost; "), run
    daemon.kill()
    assert daemon.start().ust("status").stdout == "no session\n"
