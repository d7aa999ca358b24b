# SPDX-License-Identifier: GPL-2.0-or-later
"""A session with the next daemon: it goes on in the trace that it had, or says why not, and knows who came."""
import signal
import subprocess

import pytest

from daemons import PATIENCE, daemon, ticker  # noqa: F401
from processes import wait_for


def begin_and_end(daemon, ticker, number):
    assert daemon.program(ticker, 1, 4, TICKER_FIRST=str(number)).wait(PATIENCE) == 0


def by_thread(daemon, name="t.spoor"):
    return {thread: n for (_, thread), n in daemon.ticks(name).items()}


def start_and_kill(daemon, call, when):
    """A daemon that is killed before it is ready, as it makes such a call."""
    run = subprocess.run(["strace", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                          f"inject={call}:signal=KILL:when={when}", daemon.build / "spoor", "daemon", "--socket",
                          daemon.socket], cwd=daemon.cwd, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    assert run.returncode and "ready" not in run.stderr


@pytest.mark.parametrize("call, times", [("pwritev", 2), ("renameat", 3)])
def test_daemon_killed_as_it_begins_a_segment(daemon, ticker, call, times):
    """Before its checkpoint is written, or its segment's metadata, and before each has its name, or the manifest."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    begin_and_end(daemon, ticker, 0)
    for when in range(1, times + 1):
        daemon.kill()
        start_and_kill(daemon, call, when)
        begin_and_end(daemon, ticker, when)
        daemon.start()
        assert daemon.said[0] == "spoor daemon: 1 session goes on\n"
    said = daemon.ust("end").stdout
    assert said.startswith(f"{4 * times + 4} events of {times + 1} programs, 0 lost;"), said
    assert said.endswith(f" in {daemon.cwd}/t.spoor\n"), said
    assert by_thread(daemon) == {i: list(range(4)) for i in range(times + 1)}


def test_another_trace(daemon, ticker):
    """Where the one that it had cannot be gone on with: that is said until it ends, also by the next daemons."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    daemon.kill()
    (daemon.cwd / "t.spoor/manifest").write_text("{")
    daemon.start()
    why = f"{daemon.cwd}/t.spoor: cannot go on with it: its manifest is damaged, or of another kind"
    assert daemon.said[0] == ("spoor ust: session 'default' could not go on in the trace that it had, and began "
                              f"{daemon.cwd}/t-2.spoor: {why}\n")
    told = f"it could not go on in the trace that it had, and began this one: {why}"
    for _ in range(2):
        assert f"to {daemon.cwd}/t-2.spoor\n  {told}\n" in daemon.ust("status").stdout
        daemon.kill()
        daemon.start()
        assert not any("could not go on" in line for line in daemon.said)
    begin_and_end(daemon, ticker, 0)
    said = daemon.ust("end").stdout.splitlines()
    assert said[0].startswith("4 events of 1 program, 0 lost;") and said[1:] == [told]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_programs_that_come_again_count_once(daemon, ticker, number):
    """Those that have ended, those that come to each daemon, and one that comes to the last."""
    daemon.ust("start", "-o", "t.spoor", "-e", "mi:typo")
    daemon.finish(daemon.program(ticker, 1, 0, 100))
    stay = [daemon.program(ticker, 1, 0, 100) for _ in range(3)]
    for i in range(3):
        wait_for(lambda: all(f"{p.pid} ticker" in daemon.ust("status").stdout for p in stay))
        daemon.ust("enable", f"mi:typo{i}", "-a")
        daemon.kill(number)
        daemon.start()
    stay.append(daemon.program(ticker, 1, 0, 100))
    wait_for(lambda: all(f"{p.pid} ticker" in daemon.ust("status").stdout for p in stay))
    said = daemon.ust("end").stdout
    assert "5 programs came, and no event" in said, said
