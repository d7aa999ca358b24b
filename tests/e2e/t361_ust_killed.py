# SPDX-License-Identifier: GPL-2.0-or-later
"""Daemons and programs are stopped and killed at random moments: every event is there once, or counted."""
import json
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
import tracing
from daemons import Daemon, all_of_two_threads, counters, daemon, exactly, stop_and_start, ticker  # noqa: F401
from fakeprogram import Arena, Program, event_class, field
from processes import children, wait_for

KILLS = int(os.environ.get("SPOOR_TEST_KILLS", "1000"))


def test_sigterm_and_on(daemon, ticker):
    """A daemon that is stopped and started again under a session: nothing is lost, nothing is there twice."""
    daemon.ust("start", "-o", "t.spoor")
    p = daemon.program(ticker, 2, 0, 200)
    stop_and_start(daemon, p)
    daemon.finish(p)
    assert ", 0 lost" in daemon.ust("end").stdout
    all_of_two_threads(daemon.ticks(), p)


def test_daemon_killed(daemon, ticker, tmp_path):
    """SIGKILL of the daemon at random moments: every event exactly once."""
    daemon.ust("start", "-o", "t.spoor")
    counter = counters(tmp_path / "counter", 3)
    p = daemon.program(ticker, 3, 0, 500, TICKER_COUNTER=str(counter))
    random.seed(KILLS)
    for _ in range(KILLS):
        time.sleep(random.uniform(0.0, 0.01))
        daemon.kill()
        daemon.start()
    wait_for(lambda: f"{p.pid} ticker" in daemon.ust("status").stdout)
    daemon.finish(p)
    assert ", 0 lost" in daemon.ust("end").stdout
    exactly(daemon.ticks(), counter)


def kill_many(ticker, tmp_path, env):
    """Programs at random moments of short lives, from before their main() on, a few at once. Their counters."""
    random.seed(7)
    counter, alive, killed, turn = counters(tmp_path / "counter", 2 * 4 * KILLS), [], 0, 0
    while killed < KILLS or alive:
        if killed < KILLS:
            more = {"TICKER_COUNTER": str(counter), "TICKER_FIRST": str(2 * turn)}
            p = subprocess.Popen([ticker, "2", "200", "7"], env=env | more, stdout=subprocess.DEVNULL)
            alive.append((time.monotonic() + random.uniform(0, 0.02), p))
            alive.sort(key=lambda a: a[0])
            turn += 1
            assert turn < 4 * KILLS
        while alive and (len(alive) > 3 or killed >= KILLS):
            at, p = alive.pop(0)
            time.sleep(max(0, at - time.monotonic()))
            p.kill()
            killed += p.wait() == -signal.SIGKILL
    return counter


def test_programs_killed(daemon, ticker, tmp_path):
    """SIGKILL of programs at random moments: the daemon has each event that was committed."""
    daemon.ust("start", "-o", "t.spoor", "--buffers", "256k")
    counter = kill_many(ticker, tmp_path, daemon.environment())
    assert ", 0 lost" in daemon.ust("end").stdout
    assert exactly(daemon.ticks(), counter) > KILLS


def test_programs_killed_alone(build, ticker, tmp_path):
    """The same without a daemon, from the files that they leave."""
    left = tmp_path / "left"
    counter = kill_many(ticker, tmp_path, tracing.environment(build, left, SPOOR_UST_BUFFERS="256K"))
    said = subprocess.run([build / "spoor", "ust", "recover", left, "-o", tmp_path / "t.spoor"], capture_output=True,
                          text=True)
    assert said.returncode == 0 and "ended by a crash" in said.stdout, said
    assert exactly(Daemon(build, tmp_path).ticks(), counter) > KILLS


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_losses_are_told_once(daemon, ticker, number):
    """What programs discarded before their daemon went away is not told again by the next one."""
    daemon.ust("start", "-o", "t.spoor", "--buffers", "64k", "-e", "zoo:tick")
    p = daemon.program(ticker, 1, 3_000_000, 0)
    for _ in range(3):
        time.sleep(0.03)
        daemon.kill(number)
        daemon.start()
    p.wait(30)
    wait_for(lambda: not daemon.lines(p.pid))
    daemon.ust("end")
    written = len(daemon.ticks()[p.pid, 0])
    assert written < 3_000_000
    assert daemon.summary["discarded"] == 3_000_000 - written


LOST, LOST_LARGE, SHARED, CHILDREN = 1024 + 64, 1024 + 72, 1024 + 96, 1024 + 120  # in the arena
GONE = 64  # in a packet's header


def offered(daemon, arena):
    p = Program(str(daemon.socket))
    p.setup()
    p.offer(arena)
    return p, arena


def with_losses(mode, lost):
    """An arena with an event in it, whose program says that it has lost so many."""
    a = Arena(mode=("discard", "overwrite").index(mode))
    a.open(0)
    a.event(0, 1)
    a.put(LOST, "<Q", lost)
    return a


def scribble(arena, what, value):
    arena.put(arena.header(0) + GONE if what == GONE else what, "<Q", value)


@pytest.mark.parametrize("mode, again", [("discard", False), ("discard", True), ("overwrite", False)])
def test_counts_that_cannot_be(daemon, mode, again):
    """What a program says that it lost counts as far as that can be, everywhere alike; and whose buffer it is is told.
    Others' losses, and what it had lost before, and what is lost in spite of other garbage, are in the sum."""
    garbage = [(LOST, 1 << 63), (LOST, (1 << 64) - 1), (LOST_LARGE, 0x7f1234567890), (LOST, 2)]
    garbage += [(GONE, 1 << 63), (GONE, 0x7f1234567890)] if mode == "overwrite" else []
    daemon.ust("start", "-o", "t.spoor", "--mode", mode)
    kept = [offered(daemon, with_losses(mode, 5)) for _ in range(len(garbage) + 2)]
    n = len(kept)
    wait_for(lambda: f", {5 * n} lost" in daemon.ust("status").stdout)
    for (_, arena), (what, value) in zip(kept, garbage):
        scribble(arena, what, value)
    kept[-1][1].event(0, 1, number=99)
    kept[-1][1].put(LOST, "<Q", 107)
    said = daemon.ust("status").stdout
    assert f", {5 * n + 102} lost" in said and "overwritten" not in said, said
    for (_, arena), (what, value) in zip(kept, garbage):
        scribble(arena, what, 9)  # it is not believed again
    if again:
        daemon.kill(signal.SIGTERM)
        for (_, arena), (what, value) in zip(kept, garbage):
            scribble(arena, what, value)
        daemon.start()
        kept = [offered(daemon, arena) for _, arena in kept]
        wait_for(lambda: daemon.ust("status").stdout.count(" fake: ") == n)
    said = daemon.ust("end").stdout
    assert f" events of {n} programs, {5 * n + 102} lost; " in said and "overwritten" not in said, said
    me = f"fake[{os.getpid()}]"
    assert re.search(rf"^{re.escape(', '.join([me] * 3))} and {n - 4} more wrote what made no sense into their own "
                     r"buffers, in \d+ places; what that hid is lost$", said, re.MULTILINE), said
    daemon.events()
    summary = daemon.summary
    assert summary["discarded"] == 5 * n + 102 and not summary["overwritten"], summary
    assert sorted(p["lost"] for p in summary["programs"]) == [5] * (n - 1) + [107]
    assert [p["malformed"] > 0 for p in summary["programs"]].count(True) == n - 1


def test_count_of_shared_packets_that_cannot_be(daemon):
    """It is as it was, and told as garbage; what was lost is believed as ever."""
    daemon.ust("start", "-o", "t.spoor")
    _kept, arena = offered(daemon, with_losses("discard", 5))
    arena.put(SHARED, "<Q", 13)
    wait_for(lambda: ", 13 in shared packets" in daemon.ust("status").stdout)
    for value in 1 << 60, 11, 17:
        arena.put(SHARED, "<Q", value)
        said = daemon.ust("status").stdout
        assert ", 13 in shared packets, some made no sense" in said, said
    arena.put(LOST, "<Q", 107)
    said = daemon.ust("end").stdout
    assert ", 107 lost; " in said and "wrote what made no sense" in said, said


@pytest.mark.parametrize("what, value", [(LOST, 1 << 48), (LOST_LARGE, 1 << 48), (CHILDREN, 0xffffffff),
                                         (CHILDREN, 1 << 60)])
def test_counts_of_a_file_that_cannot_be(spoor, tmp_path, what, value):
    """Its program ran since this boot, and not longer than it has been since the file was made."""
    arena = with_losses("discard", 5 if what == CHILDREN else 0)
    for number, told in (7, True), (value, False):
        arena.put(what, "<Q", number)
        (tmp_path / "x.arena").write_bytes(arena.map[:])
        run = spoor("ust", "recover", "-o", f"{told}.spoor", "x.arena")
        said = run.stdout + run.stderr
        assert run.returncode == 0 and said.startswith("1 event of 1 program"), run
        assert ("7 child processes" in said or ", 7 lost" in said) == told and str(value) not in said, said
        assert ("wrote what made no sense into its own buffer, in 1 place" in said) != told, said
        assert (", 5 lost" in said) == (what == CHILDREN), said


UNDESCRIBED = "events have no description that makes sense"


def senseless():
    """Whose class 2 is of an array of no elements."""
    arena = Arena()
    arena.define(event_class(2, "senseless", field("none", 1, 4, shape=1, count=0)))
    arena.open(0)
    return arena


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_class_that_makes_no_sense_over_daemons(daemon, number):
    """Each of its events is counted once, whichever daemon found it, and told of by the trace that goes on, too."""
    daemon.ust("start", "-o", "t.spoor")
    arena = senseless()

    def write(n):
        for _ in range(n):
            arena.event(0, 0, number=2)
            arena.event(0, n)
    write(11)
    kept = offered(daemon, arena)
    wait_for(lambda: f"11 {UNDESCRIBED}" in daemon.ust("status").stdout)
    wait_for(lambda: [daemon.events(), daemon.summary["lost_undescribed"] == 11][1])
    daemon.kill(number)
    write(5)
    daemon.start()
    kept = kept, offered(daemon, arena)
    wait_for(lambda: f"16 {UNDESCRIBED}" in daemon.ust("status").stdout)
    write(3)
    said = daemon.ust("end").stdout
    assert "19 events of 1 program, 19 lost" in said and f"of what is lost, 19 {UNDESCRIBED}" in said, said
    daemon.events()
    assert daemon.summary["lost_undescribed"] == daemon.summary["discarded"] == 19
    assert daemon.summary["user_events"] == 19


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_but_a_class_that_makes_no_sense_over_daemons(daemon, number):
    """No packet of the trace can tell of its events yet."""
    daemon.ust("start", "-o", "t.spoor")
    arena = senseless()
    for _ in range(11):
        arena.event(0, 0, number=2)
    kept = offered(daemon, arena)
    wait_for(lambda: f"11 {UNDESCRIBED}" in daemon.ust("status").stdout)
    daemon.kill(number)
    arena.event(0, 0, number=2)
    daemon.start()
    kept = kept, offered(daemon, arena)
    wait_for(lambda: f"12 {UNDESCRIBED}" in daemon.ust("status").stdout)
    arena.event(0, 1)
    said = daemon.ust("end").stdout
    assert "1 event of 1 program, 12 lost" in said and f"of what is lost, 12 {UNDESCRIBED}" in said, said
    daemon.events()
    assert daemon.summary["lost_undescribed"] == daemon.summary["discarded"] == 12


def test_command_killed(build, ticker, tmp_path):
    """SIGKILL of the command of `run`."""
    counter = counters(tmp_path / "counter", 2)
    p = subprocess.Popen([build / "spoor", "ust", "run", "-o", tmp_path / "t.spoor", "--", ticker, "2", "0", "7"],
                         env=os.environ | {"TICKER_COUNTER": str(counter)}, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL)
    assert p.stdout.readline() == b"ready\n"
    time.sleep(0.05)
    os.kill(children(p.pid)[0], signal.SIGKILL)
    assert p.wait(20) == 137
    exactly(Daemon(build, tmp_path).ticks(), counter)


def test_dead_program_of_a_dead_daemon(daemon, ticker):
    """What a fake program's buffer holds when the daemon comes back is taken, what was written is not taken again."""
    daemon.ust("start", "-o", "t.spoor", "-e", "*")
    program = Program(str(daemon.socket))
    session, _ = program.setup()
    arena = Arena()
    program.offer(arena)
    arena.open(0)
    for n in range(50):
        arena.event(0, n)
    time.sleep(0.4)
    daemon.kill()
    # as if it had been killed before it noted what it had written
    arena.put(arena.header(0) + 24, "<Q", 0)
    for n in range(50, 80):
        arena.event(0, n)
    daemon.start()
    again = Program(str(daemon.socket))
    assert again.setup()[0] == session
    again.offer(arena)
    time.sleep(0.3)
    arena.end()
    daemon.ust("end")
    run = subprocess.run([daemon.build / "spoor", "report", "--format", "json", "t.spoor"], cwd=daemon.cwd,
                         capture_output=True, text=True)
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert [e["fields"]["n"] for e in found if e.get("event") == "fake:count"] == list(range(80))


def test_both_killed(daemon, ticker, tmp_path):
    """The daemon first, then the program, which nobody sees end: the next daemon has what it left."""
    daemon.ust("start", "-o", "t.spoor")
    counter = counters(tmp_path / "counter", 2 * (KILLS // 50))
    random.seed(5)
    for turn in range(KILLS // 50):
        p = daemon.program(ticker, 2, 0, 50, TICKER_COUNTER=str(counter), TICKER_FIRST=str(2 * turn))
        wait_for(lambda: f"{p.pid} ticker" in daemon.ust("status").stdout)
        time.sleep(random.uniform(0.0, 0.1))
        daemon.kill()
        time.sleep(random.uniform(0, 0.05))
        p.kill()
        p.wait()
        daemon.start()
    time.sleep(0.3)
    assert ", 0 lost" in daemon.ust("end").stdout
    exactly(daemon.ticks(), counter)
    daemon.kill(signal.SIGTERM)
    wait_for(lambda: not Path(f"{daemon.socket}.keeper").exists())  # it held nothing any more
    daemon.start()
