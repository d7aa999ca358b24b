# SPDX-License-Identifier: GPL-2.0-or-later
"""What another user has made beside the socket, in a directory like /tmp, before the daemon is started. As root."""
import contextlib
import os
import socket

import pytest

from daemons import PATIENCE, Daemon, end_keeper, ticker  # noqa: F401 (fixtures)

STRANGER = 12346


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
