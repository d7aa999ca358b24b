# SPDX-License-Identifier: GPL-2.0-or-later
"""The network, the relay, the daemon break as they like, and a disk is full: every event exactly once."""
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import threading
import time

import pytest
from daemons import all_of_two_threads, counters, exactly, stop_and_start, ticker  # noqa: F401 (fixtures)
from processes import go, wait_for
from relaying import Relay, Sender, finish, proxy, relay, sender, there, written  # noqa: F401 (fixtures)

CUTS = int(os.environ.get("SPOOR_TEST_CUTS", "60"))
KILLS = int(os.environ.get("SPOOR_TEST_KILLS", "12"))


def under_load(s, ticker, pause, *options):  # noqa: F811
    """A session that goes to the relay, and a program whose three threads write all the time."""
    s.ust("start", "-o", "t.spoor", "--buffers", "16M", *options)
    counter = counters(s.cwd / "counter", 3)
    return s.program(ticker, 3, 0, pause, TICKER_COUNTER=str(counter)), counter


def check_end(s, relay, program, counter):
    """The program is killed under load: each of its events is at the relay, once."""
    s.finish(program)
    assert ", 0 lost" in finish(s, relay)
    exactly(there(s, relay), counter)


def test_cuts(relay, sender, proxy, ticker):  # noqa: F811
    """The connection is cut at random bytes, again and again: each event exactly once."""
    p = proxy()
    s = sender("cut", p.url)
    program, counter = under_load(s, ticker, 20, "--rotate", "1M")
    rng = random.Random(7)
    while p.cuts < CUTS:
        p.cut_after = rng.choice([1, 300, 3000, 30000, 100000]) + rng.randrange(1000)
        wait_for(lambda: p.cut_after is None, 30)
    check_end(s, relay, program, counter)
    manifest = json.loads((relay.directory / "cut/t.spoor/manifest").read_text())
    # Who was welcome sends more than a greeting, if there is time for it; who was not has not been answered.
    welcome = [sum(c[0] > 1000 for c in p.carried), sum(c[1] > 0 for c in p.carried)]
    assert CUTS / 2 < welcome[0] <= manifest["counters"]["relay_reconnects"] + 1 <= welcome[1]
    assert s.summary["relay"]["reconnects"] == manifest["counters"]["relay_reconnects"]


def test_relay_killed(relay, sender, ticker):  # noqa: F811
    """The relay is killed and started again under load: each event exactly once; its trace goes on as one."""
    s = sender("host")
    program, counter = under_load(s, ticker, 20, "--rotate", "1M")
    rng = random.Random(3)
    for _ in range(KILLS):
        time.sleep(rng.uniform(0, 0.1))
        relay.kill()
        time.sleep(rng.uniform(0, 0.05))
        relay.start()
    check_end(s, relay, program, counter)
    assert not list(relay.directory.rglob("t-2.spoor"))


def test_relay_killed_before_it_is_heard(relay, sender, proxy, ticker):  # noqa: F811
    """What it has written and its sender does not know of comes again, to the same place."""
    p = proxy()
    s = sender("host", p.url)
    program, counter = under_load(s, ticker, 20)
    for _ in range(2):
        for p.holds in (), (1,):  # who was welcome sends more than a greeting
            before = p.passed
            wait_for(lambda: p.passed > before + 500_000)
        relay.kill()
        p.cut()
        p.holds = ()
        relay.start()
    check_end(s, relay, program, counter)


def test_daemon_killed_with_much_on_the_way(relay, sender, proxy, ticker):  # noqa: F811
    """What the relay does not have is in the programs' buffers still."""
    p = proxy()
    s = sender("host", p.url)
    program, counter = under_load(s, ticker, 20)
    for _ in range(2):
        p.holds = (0, 1)
        wait_for(lambda: float(re.search(r"; ([\d.]+) MB wait;", s.status())[1]) > 1)
        s.kill()
        p.cut()
        p.holds = ()
        s.start()
    wait_for(lambda: f"{program.pid} ticker" in s.status())
    check_end(s, relay, program, counter)


def test_daemon_killed_with_more_at_the_relay_than_it_knows(relay, sender, proxy, ticker):  # noqa: F811
    """As much as it may have: the next daemon, which may have less, takes nothing of that from buffers once more."""
    n, least = 10_500_000, 28 * 10_000_000
    p = proxy()
    s = sender("host", p.url, "--relay-memory", "600M")
    s.ust("start", "-o", "t.spoor", "-e", "zoo:tick", "--buffers", "600M")
    wait_for(lambda: (relay.directory / "host/t.spoor/manifest").exists())
    p.holds = (1,)
    program = s.program(ticker, 1, n, stdin=subprocess.PIPE, TICKER_WAITS="1")
    go(program)
    wait_for(lambda: sum(written(relay.directory, "lane*")) > least, 60)
    s.kill()
    p.cut()
    p.holds = ()
    s.options = s.options[:-2]
    s.start()
    assert f"{n} events of 1 program, 0 lost" in finish(s, relay)
    run = subprocess.run([s.build / "spoor", "report", relay.directory / "host/t.spoor"], capture_output=True,
                         text=True)
    assert f"User events: {n:,}," in run.stdout, run.stdout


def test_daemon_killed(relay, sender, ticker):  # noqa: F811
    """The same with the daemon, and with both: the relay tells the next one what is there."""
    s = sender("host")
    program, counter = under_load(s, ticker, 50)
    rng = random.Random(5)
    for turn in range(KILLS):
        time.sleep(rng.uniform(0, 0.12))
        s.kill()
        if turn % 3 == 2:
            relay.kill()
            relay.start()
        s.start()
    wait_for(lambda: f"{program.pid} ticker" in s.status())
    check_end(s, relay, program, counter)
    assert not list(relay.directory.rglob("t-2.spoor"))


def test_daemon_stopped_in_order(relay, sender, ticker):  # noqa: F811
    s = sender("host")
    s.ust("start", "-o", "t.spoor")
    program = s.program(ticker, 2, 0, 200)
    stop_and_start(s, program)
    s.finish(program)
    assert ", 0 lost" in finish(s, relay)
    all_of_two_threads(there(s, relay), program)


def test_full_disk(build, tmp_path, ticker):  # noqa: F811
    """The relay's disk is full: it says so, senders wait; when there is room all is there, once."""
    where = tmp_path / "small"
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", where], check=True)
    try:
        r = Relay(build, where / "relayed").start()
        r.log = tmp_path / "relay.log"
        r.kill(signal.SIGTERM)
        r.start()
        (where / "filler").write_bytes(bytes(2_600_000))
        s = Sender(build, tmp_path, "host", r.url).start()
        try:
            s.ust("start", "-o", "t.spoor", "-e", "zoo:tick", "--buffers", "8M")
            p = s.program(ticker, 1, 30_011)
            p.wait(20)
            wait_for(lambda: "No space left" in r.said())
            wait_for(lambda: "cannot write: No space left" in s.status())
            wait_for(lambda: "cannot write" in s.said())
            (where / "filler").unlink()
            wait_for(lambda: "can write again" in r.said())
            assert "0 lost" in finish(s, r)
            assert there(s, r) == {(p.pid, 0): list(range(30_011))}
        finally:
            s.close()
            r.kill(signal.SIGTERM)
    finally:
        subprocess.run(["umount", where], check=True)


def fill(path):
    with open(path, "wb", buffering=0) as f, contextlib.suppress(OSError):
        while f.write(bytes(4096)):
            pass


@pytest.fixture
def small(tmp_path):
    """A file system of 3 MB."""
    where = tmp_path / "small"
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", where], check=True)
    yield where
    subprocess.run(["umount", where], check=True)


@pytest.mark.parametrize("killed", ["relay", "daemon, too"])
def test_relay_begins_on_a_full_disk(build, tmp_path, ticker, small, killed):  # noqa: F811
    """Who comes to it waits, as who is there already: it is no reason to refuse a session for good."""
    r = Relay(build, small / "relayed")
    r.log = tmp_path / "relay.log"
    r.start()
    s = Sender(build, tmp_path, "host", r.url).start()
    try:
        s.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
        first = s.program(ticker, 1, 5003)
        first.wait(20)
        wait_for(lambda: "5003 events" in s.status() and "; 0.0 MB wait" in s.status())
        fill(small / "filler")
        second = s.program(ticker, 1, 3001)
        second.wait(20)
        if "daemon" in killed:
            s.kill()
        r.kill()
        before = len(r.said())
        r.start()
        comes = threading.Thread(target=s.start if "daemon" in killed else lambda: None)
        comes.start()
        wait_for(lambda: "cannot write: No space left" in r.said()[before:])
        if "daemon" not in killed:
            wait_for(lambda: "the relay cannot write: No space left" in s.status())
        (small / "filler").unlink()
        wait_for(lambda: "can write again" in r.said()[before:])
        comes.join()
        assert ", 0 lost" in finish(s, r)
        assert there(s, r) == {(first.pid, 0): list(range(5003)), (second.pid, 0): list(range(3001))}
    finally:
        s.close()
        r.kill(signal.SIGTERM)


def test_session_begins_on_a_full_disk(build, tmp_path, ticker, small):  # noqa: F811
    """It waits, too, which who begins it is told; that it is tried more than once leaves nothing behind."""
    r = Relay(build, small / "relayed")
    r.log = tmp_path / "relay.log"
    r.start()
    s = Sender(build, tmp_path, "host", r.url).start()
    try:
        fill(small / "filler")
        said = s.ust("start", "-o", "t.spoor", "-e", "zoo:tick").stdout
        assert re.search("the relay does not take it yet: .*(No space left|the relay does not answer)", said)
        wait_for(lambda: "No space left" in s.status())
        p = s.program(ticker, 1, 3001)
        p.wait(20)
        time.sleep(2.5)
        (small / "filler").unlink()
        assert ", 0 lost" in finish(s, r)
        assert there(s, r) == {(p.pid, 0): list(range(3001))}
        assert [path.name for path in (r.directory / "host").iterdir()] == ["t.spoor"]
    finally:
        s.close()
        r.kill(signal.SIGTERM)


def test_sender_stays_away(build, tmp_path, ticker):  # noqa: F811
    """A trace whose sender never comes back has not ended in order, and is said to have not."""
    r = Relay(build, tmp_path / "relayed", "--patience", "1s").start()
    s = Sender(build, tmp_path, "host", r.url).start()
    try:
        s.ust("start", "-o", "t.spoor")
        s.program(ticker, 1, 1009).wait(20)
        wait_for(lambda: (r.directory / "host/t.spoor/manifest").exists() and
                 sum(written(r.directory, "lane*")) > 10000)
        s.kill()
        wait_for(lambda: "does not come back" in r.said())
        assert len(s.ticks(r.directory / "host/t.spoor")) == 1
        assert s.summary["ended"] is False
        wait_for(lambda: "The recording was cut off" in subprocess.run(
            [build / "spoor", "report", r.directory / "host/t.spoor"], capture_output=True, text=True).stdout)
    finally:
        s.close()
        r.kill(signal.SIGTERM)
