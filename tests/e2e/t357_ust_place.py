# SPDX-License-Identifier: GPL-2.0-or-later
"""A daemon whose directory was removed, and made anew for another one: what lies there now is the other's."""
import contextlib
import os
import signal
import socket

import pytest

from daemons import PATIENCE, Daemon, daemon, end_keeper, keeper_pid, ticker  # noqa: F401
from fakeprogram import COMMAND, message


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
