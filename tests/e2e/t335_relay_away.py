# SPDX-License-Identifier: GPL-2.0-or-later
"""A session ends while its relay is away: who ends it hears so, and nobody else waits for that."""
import signal
import socket
import subprocess

import pytest

from daemons import ticker  # noqa: F401 (fixtures)
from processes import wait_for
from relaying import Sender, relay, sender, there  # noqa: F401 (fixtures)

COUNT = 1009
AWAY = ["refuses", "stops", "swallows"]


class Away:
    """A relay that is not there, for a while, in one of these ways; and how it comes back."""
    def __init__(self, relay, how):  # noqa: F811
        self.relay, self.how, self.hole = relay, how, None
        if how == "stops":
            relay.process.send_signal(signal.SIGSTOP)
            return
        relay.kill()
        if how == "swallows":  # connections are made, and nothing comes back
            self.hole = socket.create_server(("127.0.0.1", relay.port))

    def back(self):
        if self.how == "stops":
            self.relay.process.send_signal(signal.SIGCONT)
            return
        if self.hole:
            self.hole.close()
        self.relay.start()


@pytest.fixture(params=AWAY)
def away(relay, request):  # noqa: F811
    gone = []

    def go():
        gone.append(Away(relay, request.param))
        return gone[0]
    yield go
    if gone and relay.process.poll() is None:
        relay.process.send_signal(signal.SIGCONT)


def begin_end(s, *words):
    """`spoor ust end` that has begun to wait."""
    p = subprocess.Popen([s.build / "spoor", "ust", "end", "--socket", s.socket, *words], cwd=s.cwd, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert "waiting for the relay" in p.stdout.readline()
    return p


def recorded(s, ticker, away):  # noqa: F811
    """A session whose program wrote and ended, with a relay that went before. The program's number, and the relay."""
    s.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    gone = away()
    p = s.program(ticker, 1, COUNT)
    p.wait(20)
    return p, gone


def test_end_says_that_it_is_on_its_way(relay, sender, ticker, away):  # noqa: F811
    """Not that it is there. It comes there when the relay does, and is whole."""
    s = sender("host")
    p, gone = recorded(s, ticker, away)
    run = s.ust("end", check=False)
    assert run.returncode == 3, run
    assert f"{COUNT} events of 1 program, 0 lost" in run.stdout and " for host/t.spoor at tcp://" in run.stdout
    (last,) = run.stderr.splitlines()
    assert " kB of it are on the way to " + relay.url in last and "the daemon goes on sending" in last
    status = s.status()
    assert "no session" in status and "ended, and on its way to the relay: host/t.spoor; " in status
    gone.back()
    wait_for(lambda: "complete" in relay.said(), 60)
    wait_for(lambda: "on its way" not in s.status())
    assert there(s, relay) == {(p.pid, 0): list(range(COUNT))}


def while_ending(s, do):
    """What is done, wholly, while a session ends: a slow machine has more than one chance."""
    for turn in range(10):
        name = f"turn{turn}"
        s.ust("start", "-s", name, "-o", f"{name}.spoor", "-e", "no:event")
        p = begin_end(s, "-s", name)
        found = do(name)
        in_time = p.poll() is None
        p.communicate(timeout=30)
        if in_time:
            return found
    pytest.fail("nothing is answered before a session has ended")


@pytest.mark.parametrize("away", ["swallows"], indirect=True)
def test_nobody_else_waits(relay, sender, ticker, away):  # noqa: F811
    """While a session ends, commands are answered and programs that come are recorded by another one."""
    s = sender("host")
    s.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    gone = away()
    status, *refused = while_ending(s, lambda name: [
        s.ust("status", "-s", name), s.ust("end", "-s", name, check=False),
        s.ust("start", "-s", name, "-o", "again.spoor", check=False)])
    assert ": ending, to host/turn" in status.stdout
    assert all(run.returncode == 1 and "is being ended" in run.stderr for run in refused), refused

    def come(_):
        p = s.program(ticker, 1, 0, 1000)
        wait_for(lambda: f"{p.pid} ticker: " in s.ust("status", "-s", "default").stdout)
        return p
    p = while_ending(s, come)
    gone.back()
    s.finish(p)
    assert ", 0 lost" in s.end()
    wait_for(lambda: "host/t.spoor (" in relay.said() and "complete" in relay.said(), 60)
    numbers = there(s, relay)[p.pid, 0]
    assert numbers and numbers == list(range(len(numbers)))


def test_relay_comes_in_time(relay, sender, ticker, away):  # noqa: F811
    """The end waits for it some seconds, and is then one as ever."""
    s = sender("host")
    p, gone = recorded(s, ticker, away)
    end = begin_end(s)
    gone.back()
    said, errors = end.communicate(timeout=30)
    assert end.returncode in (0, 3), errors  # a slow machine's relay is late
    assert (f"MB in host/t.spoor at {relay.url}" in said and not errors) == (end.returncode == 0)
    wait_for(lambda: "complete" in relay.said(), 60)
    assert there(s, relay) == {(p.pid, 0): list(range(COUNT))}


@pytest.mark.parametrize("away", AWAY[:1], indirect=True)
def test_daemon_stopped_meanwhile(relay, sender, ticker, away):  # noqa: F811
    """Who waits for the end hears that there was none; the next daemon has the session, with all that it had."""
    s = sender("host")
    gone = away()
    for _ in range(10):  # a slow machine has more than one chance
        s.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
        p = s.program(ticker, 1, COUNT)
        p.wait(20)
        end = begin_end(s)
        s.kill(signal.SIGTERM)
        errors = end.communicate(timeout=30)[1]
        if end.returncode != 3:
            break
        s.start()
    assert end.returncode == 1 and "session 'default' is stopped, and stays for the next daemon" in errors
    gone.back()
    s.start()
    assert "session default: stopped" in s.status()
    wait_for(lambda: f"{COUNT} events of 1 program" in s.status())
    assert f"{COUNT} events of 1 program, 0 lost" in s.end()
    wait_for(lambda: "complete" in relay.said(), 60)
    assert there(s, relay) == {(p.pid, 0): list(range(COUNT))}


def test_refused_for_good(build, tmp_path):  # noqa: F811
    """A relay that will never take it is a failure, with its reason, and no trace on its way."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        s = Sender(build, tmp_path, "host", f"tcp://127.0.0.1:{other.getsockname()[1]}").start()
        try:
            s.ust("start", "-o", "t.spoor")
            c, _ = other.accept()
            c.recv(4096)
            text = b"SPOORREL\x09\0\0\0" + bytes(4)
            c.sendall((16 + len(text)).to_bytes(4, "little") + b"\x02" + bytes(11) + text)
            wait_for(lambda: "speaks version 9" in s.status())
            run = s.ust("end", check=False)
            assert run.returncode == 1 and "speaks version 9" in run.stderr, run
            assert "on its way" not in s.status()
        finally:
            s.close()


def test_relay_with_another_directory(relay, sender, ticker, tmp_path):  # noqa: F811
    """The trace is not there: the session fails, and one line says why, and what to do."""
    s = sender("host")
    s.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    p = s.program(ticker, 1, 0, 5)
    wait_for(lambda: (relay.directory / "host/t.spoor").exists())
    relay.kill()
    relay.directory = tmp_path / "other"
    relay.start()
    wait_for(lambda: "it failed" in s.status())
    status = s.status()
    assert status.startswith("session default: failed, to host/t.spoor at ") and "relay:" not in status, status
    assert [line for line in status.splitlines() if "failed:" in line] == [
        "  it failed: the relay refuses: t.spoor is not in its directory: it was removed, or the relay was started with"
        " another directory; what comes now is not recorded: `spoor ust end -s default`, and start a new one"]
    run = s.ust("end", check=False)
    assert run.returncode == 1 and "is not in its directory" in run.stderr, run
    s.ust("start", "-o", "new.spoor", "-e", "zoo:tick")
    s.finish(p)
    assert ", 0 lost" in s.end()
    wait_for(lambda: "complete" in relay.said())
    assert there(s, relay, "new.spoor")
