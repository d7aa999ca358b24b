# SPDX-License-Identifier: GPL-2.0-or-later
"""What another user has made where we make files, in a directory like /tmp. As root."""
import contextlib
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest

import tracing
from daemons import PATIENCE, Daemon, end_keeper, keeper_pid, open_place, ticker  # noqa: F401 (fixtures)
from processes import has_ended, lingering, wait_for

USER, STRANGER = 12345, 12346


@contextlib.contextmanager
def stranger():
    """What is done is another user's."""
    os.setegid(STRANGER)
    os.seteuid(STRANGER)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def place(build, tmp_path, monkeypatch):
    """A daemon that is not started yet, in a directory where everybody makes files, and removes none of others."""
    tmp_path.chmod(0o1777)
    monkeypatch.chdir(tmp_path)  # what it is in is root's alone
    d = Daemon(build, tmp_path)
    yield d
    if d.process and d.process.poll() is None:
        d.kill()
    end_keeper(f"{d.socket}.keeper")


def test_strangers_keeper(place, ticker):  # noqa: F811
    """He is told nothing, which is said; and what programs leave is held by one of the daemon's own."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        with stranger():
            s.bind("ust.sock.keeper")
            s.listen(8)
        place.start()
        (said,) = [line for line in place.said if "another user listened there" in line]
        assert "ust.sock.keeper" in said
        s.settimeout(PATIENCE)
        peer, _ = s.accept()
        assert peer.recv(8192) == b""
        s.settimeout(0)
        with pytest.raises(BlockingIOError):
            s.accept()
    place.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    place.kill()
    assert place.program(ticker, 1, 5).wait(PATIENCE) == 0
    place.start()
    assert not [line for line in place.said if "another user" in line]
    assert place.ust("end").stdout.startswith("5 events of 1 program, 0 lost")


def test_strangers_keeper_that_stays(build, open_place):  # noqa: F811
    """Who is not root cannot remove it: that is said once, however often it is tried again."""
    open_place.chmod(0o1777)
    shutil.copy(build / "spoor", open_place)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        with stranger():
            s.bind(str(open_place / "ust.sock.keeper"))
            (open_place / "ust.sock.keeper").chmod(0o777)
            s.listen(8)
        s.settimeout(PATIENCE)
        d = subprocess.Popen([open_place / "spoor", "daemon", "--socket", open_place / "ust.sock"], cwd=open_place,
                             user=USER, group=USER, extra_groups=[], stderr=subprocess.PIPE, text=True)
        for _ in range(3):
            s.accept()[0].close()
        d.terminate()
        said = d.communicate(timeout=PATIENCE)[1]
    assert said.count("another user listened there") == 1 and said.count("is lost: no connection") == 1, said


def test_strangers_socket_that_lingers(place, ticker):  # noqa: F811
    """What lies in a connection is closed with it: nobody waits for that, neither the daemon nor its keeper."""
    place.start().ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    place.process.send_signal(signal.SIGSTOP)
    fd, end = lingering()
    with fd, end, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        with stranger():
            s.connect("ust.sock")
            s.send(b"rubbish")
            socket.send_fds(s, [b"and this"], [fd.fileno()])
        fd.close()
        place.process.send_signal(signal.SIGCONT)
        s.settimeout(60)
        with pytest.raises(ConnectionResetError):
            s.recv(1)
        subprocess.run([place.build / "spoor", "ust", "status", "--socket", place.socket], timeout=60, check=True)
        place.kill()
        assert place.program(ticker, 1, 5).wait(60) == 0
        place.start()
        assert place.ust("end").stdout.startswith("5 events of 1 program, 0 lost")


def test_strangers_socket_that_lingers_unheard(place):
    """Nor with whom nobody has let in: a daemon that is killed leaves him to its keeper, which ends then."""
    place.start()
    keeper = keeper_pid("ust.sock.keeper")
    place.process.send_signal(signal.SIGSTOP)
    fd, end = lingering()
    with fd, end, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        with stranger():
            s.connect("ust.sock")
            socket.send_fds(s, [b"rubbish"], [fd.fileno()])
        fd.close()
        place.kill()
        wait_for(lambda: has_ended(keeper), 60)


def refused(place, *words):
    run = subprocess.run([place.build / "spoor", "daemon", "--socket", place.socket], cwd=place.cwd, text=True,
                         capture_output=True, timeout=PATIENCE)
    assert run.returncode == 1 and all(word in run.stderr for word in ("ust.sock.state: ", *words)), run


def left_state(place):
    """What a daemon leaves that is killed, of a session that writes t.spoor; both are removed."""
    place.start().ust("start", "-o", "t.spoor")
    place.kill()
    state = Path("ust.sock.state")
    text = state.read_text()
    state.unlink()
    shutil.rmtree("t.spoor")
    return state, text


@pytest.mark.parametrize("how", ["file", "link", "pipe"])
def test_strangers_state(place, how):
    """It begins no trace, whose place it would have chosen; a pipe keeps nobody waiting."""
    state, text = left_state(place)
    with stranger():
        if how == "pipe":
            os.mkfifo(state)
        elif how == "file":
            state.write_text(text)
        else:
            state.symlink_to("other")
    if how == "link":  # root's own, for another daemon
        Path("other").write_text(text)
    refused(place, "it is another user's")
    assert not Path("t.spoor").exists()
    state.unlink()
    place.start().ust("start", "-o", "t.spoor")


def test_strangers_new_state(place):
    """A file that lies where the state is written first does not come to be the state, with its owner."""
    place.start()
    with stranger():
        new = Path("ust.sock.state.new")
        new.write_text("")
        new.chmod(0o666)
    place.ust("start", "-o", "t.spoor")
    st = Path("ust.sock.state").stat()
    assert (st.st_uid, st.st_mode & 0o777) == (0, 0o600)
    assert not new.exists()


@pytest.mark.parametrize("how", ["file", "pipe", "socket", "link"])
def test_strangers_spill(build, ticker, open_place, how):  # noqa: F811
    """Where a program alone would write full packets: it is written to by nobody, and a pipe keeps nobody waiting."""
    open_place.chmod(0o1777)
    env = tracing.environment(build, open_place, SPOOR_UST_BUFFERS="64k") | {"TICKER_WAITS": "1"}
    p = subprocess.Popen([ticker, "1", "20000"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    wait_for(lambda: list(open_place.glob("*.arena")))
    (arena,) = open_place.glob("*.arena")
    spill = arena.with_suffix(".spill")
    with stranger():
        if how == "pipe":
            os.mkfifo(spill)
        elif how == "socket":
            os.mknod(spill, stat.S_IFSOCK | 0o666)
        elif how == "link":
            spill.symlink_to(spill)  # nobody gets to its end
        else:
            spill.write_text("")
            spill.chmod(0o666)
    try:
        p.communicate(b"x", timeout=60)
    finally:
        p.kill()
    assert p.returncode == 0 and (how == "link" or not spill.stat().st_size)
    run = subprocess.run([build / "spoor", "ust", "recover", arena, "-o", open_place / "t.spoor"], text=True,
                         capture_output=True, timeout=PATIENCE)
    events, lost = re.match(r"(\d+) events of 1 program in .*, (\d+) lost", run.stdout).groups()
    assert int(events) + int(lost) == 22000, run
