# SPDX-License-Identifier: GPL-2.0-or-later
"""A session with the next daemon: it goes on in the trace that it had, or says why not, and knows who came, and how."""
import contextlib
import json
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest
import tracing

from daemons import PATIENCE, behind, counters, daemon, in_a_row, ticker  # noqa: F401
from fakeprogram import Arena, Program
from processes import children, wait_for


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
    assert daemon.said[0] == ("spoor daemon: session 'default' could not go on in the trace that it had, and began "
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


def is_recorded(daemon, p):
    """More of it is there than was."""
    def events():
        return int(re.search(r"(\d+) events?,", daemon.line(p.pid))[1])

    before = events()
    wait_for(lambda: events() > before + 20)


def next_daemon(daemon, number, *programs):
    daemon.kill(number)
    daemon.start()
    wait_for(lambda: all(daemon.line(p.pid) for p in programs))


def test_daemon_killed_as_a_program_is_gone(daemon, ticker):
    """How that ended is in the trace, or told by the next daemon, which counts nothing twice."""
    pids = set()
    for i in range(4):
        if i:
            daemon.start()
        else:
            daemon.ust("start", "-o", "t.spoor")
        counter = counters(daemon.cwd / f"counter{i}", 1)
        p = daemon.program(ticker, 1, 0, 1000, TICKER_COUNTER=counter)
        wait_for(lambda: behind(counter)[0])
        daemon.finish(p)
        daemon.kill()
        pids.add(p.pid)
    daemon.start()
    said = daemon.ust("end").stdout
    assert said.startswith(f"{len(daemon.events())} events of 4 programs, 0 lost"), said
    assert {(p["pid"], p["state"]) for p in daemon.summary["programs"]} == {(pid, "crashed") for pid in pids}


def scribble(p, at, text):
    """Into its buffer, as a program would that writes where it should not. text None: over all that is behind."""
    first, last = next(line.split()[0].split("-") for line in open(f"/proc/{p.pid}/maps")
                       if "memfd:" in line and " rw-s " in line)
    with open(f"/proc/{p.pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(int(first, 16) + at)
        memory.write(text or b"\xff" * (int(last, 16) - memory.tell()))


def damaged_in_state(daemon):
    return json.loads((daemon.cwd / "ust.sock.state").read_text())["sessions"][0]["damaged"]["programs"]


def say_damaged(daemon, p, name="ticker"):
    """`end` and the report do, once."""
    _, said = daemon.ust("end").stdout.splitlines()
    report = subprocess.run([daemon.build / "spoor", "report", "t.spoor"], cwd=daemon.cwd, capture_output=True,
                            text=True, timeout=PATIENCE)
    assert re.fullmatch(rf"{re.escape(name)}\[{p.pid}] wrote what made no sense into its own buffer, in \d+ places?; "
                        "what that hid is lost", said)
    assert report.stdout.count("Damaged: ") == report.stdout.count(f"Damaged: ticker[{p.pid}] wrote what") == 1
    daemon.events()
    assert [(k["pid"], k["comm"], k["state"]) for k in daemon.summary["programs"]] == [(p.pid, "ticker", "damaged")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_damaged_programs_of_the_daemon_before(daemon, ticker, number):
    daemon.ust("start", "-o", "t.spoor", "--buffers", "256k")
    counter = counters(daemon.cwd / "counter", 1)
    p = daemon.program(ticker, 1, 0, 1000, TICKER_COUNTER=counter)
    wait_for(lambda: behind(counter)[0] > 10)
    daemon.process.send_signal(signal.SIGSTOP)
    before, = behind(counter)
    wait_for(lambda: behind(counter)[0] > before + 10)
    scribble(p, 64 << 10, None)
    p.kill()
    daemon.process.send_signal(signal.SIGCONT)
    daemon.finish(p)
    wait_for(lambda: damaged_in_state(daemon))
    for _ in range(2):
        daemon.kill(number)
        daemon.start()
    say_damaged(daemon, p)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("lives", [True, False], ids=["lives", "ended"])
def test_program_whose_buffer_the_next_daemon_cannot_read(daemon, ticker, number, lives):
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    counter = counters(daemon.cwd / "counter", 1)
    p = daemon.program(ticker, 1, 0, 1000, TICKER_COUNTER=counter)
    wait_for(lambda: daemon.so_far())
    scribble(p, 0, b"x" * 64)
    for _ in range(2):
        daemon.kill(number)
        if not lives:
            p.kill()
            p.wait()
        daemon.start()
        wait_for(lambda: damaged_in_state(daemon))
    p.kill()
    p.wait()
    say_damaged(daemon, p, "ticker" if lives else "?")  # whose name was in there


def test_ever_more_damaged_buffers(daemon):
    """Who offers one after the other is counted; a thousand are told apart, or he would fill all there is."""
    threading.Thread(target=daemon.process.stderr.read, daemon=True).start()  # it warns of each
    daemon.ust("start", "-o", "t.spoor")
    for _ in range(1009):
        p, a = Program(str(daemon.socket)), Arena(packets=1, packet_size=4096)
        p.setup()
        a.map[:64] = b"x" * 64
        p.offer(a)
        while p.receive()[0]:
            pass
        p.sock.close()
        os.close(a.fd)
    wait_for(lambda: damaged_in_state(daemon) >= 1000)
    assert len(json.loads((daemon.cwd / "ust.sock.state").read_text())["sessions"][0]["damaged"]["arenas"]) == 1000
    assert "and 1006 more" in daemon.ust("end").stdout
    daemon.events()
    assert len(daemon.summary["programs"]) == 1000


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_single_programs_stay_stopped(daemon, ticker, number):
    """One that was stopped alone is, with the next daemons, too; and its number's next owner is another."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    stopped, other = (daemon.program(ticker, 1, 0, 500, TICKER_FIRST=str(i)) for i in range(2))
    is_recorded(daemon, stopped)
    daemon.ust("stop", stopped.pid)
    for _ in range(2):
        assert " lost, stopped, " in daemon.line(stopped.pid) and "stopped" not in daemon.line(other.pid)
        next_daemon(daemon, number, stopped, other)
        is_recorded(daemon, other)
    assert " 0 events, 0 lost, stopped" in daemon.line(stopped.pid)
    assert daemon.line(stopped.pid).endswith(", events counted since this daemon began")
    daemon.kill()
    state = daemon.cwd / "ust.sock.state"
    saved = json.loads(state.read_text())
    saved["sessions"][0]["singles"][0]["process"][1] -= 1  # as if it had begun before
    state.write_text(json.dumps(saved))
    daemon.start()
    wait_for(lambda: daemon.line(stopped.pid))
    is_recorded(daemon, stopped)
    assert json.loads(state.read_text())["sessions"][0]["singles"] == []
    assert ", 0 lost" in daemon.ust("end").stdout
    numbers = by_thread(daemon)
    assert in_a_row(numbers[1])
    assert sum(b != a + 1 for a, b in zip(numbers[0], numbers[0][1:])) == 1, numbers[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_single_programs_stay_started(daemon, ticker, number):
    """One that was started alone, and one whose rules are its own; not others, nor those that come."""
    daemon.ust("create", "-o", "t.spoor", "-e", "zoo:tick")
    counter = counters(daemon.cwd / "counter", 2)
    started, other = (daemon.program(ticker, 1, 0, 500, TICKER_FIRST=str(i), TICKER_COUNTER=counter) for i in range(2))
    daemon.ust("start", started.pid)
    daemon.ust("enable", "zoo:rare", started.pid)
    daemon.ust("disable", "zoo:tick", started.pid)
    after = behind(counter)[0]
    for i in range(2):
        is_recorded(daemon, started)
        assert "session default: recording single processes, " in daemon.ust("status").stdout
        next_daemon(daemon, number, started, other)
        daemon.program(ticker, 1, 4, 0, TICKER_FIRST=str(2 + i)).wait(PATIENCE)
    assert ", recording" in daemon.line(started.pid) and ", recording" not in daemon.line(other.pid)
    is_recorded(daemon, started)
    daemon.ust("stop", "-a")
    assert "session default: stopped, " in daemon.ust("status").stdout
    assert ", 0 lost" in daemon.ust("end").stdout
    events = daemon.events()
    assert {e["pid"] for e in events} == {started.pid}
    rare = [e["fields"]["n"] for e in events if e["event"] == "zoo:rare"]
    assert rare == list(range(rare[0], rare[-1] + 1, 10))
    assert by_thread(daemon)[0][-1] <= after  # that of the tick that was under way


AGAIN = r"""
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "spoor/tracepoint.h"

SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int thread, unsigned long n), TP_ARGS(thread, n),
		 TP_FIELDS(spoor_int(int, thread, thread), spoor_int(unsigned long, n, n)))

int main(int argc, char **argv)
{
	int number = argc > 1 ? atoi(argv[1]) : 0;
	struct pollfd more = { .events = POLLIN };
	char next[16], byte;

	for (unsigned long n = 0;; n++) {
		spoor_trace(zoo, tick, number, n);
		if (n == 10 && puts("ready"))
			fflush(stdout);
		if (poll(&more, 1, 1) > 0 && read(0, &byte, 1) == 1) {
			snprintf(next, sizeof(next), "%d", number + 1);
			execl("/proc/self/exe", argv[0], next, NULL);
		}
	}
}
"""


def test_single_programs_that_execute(daemon, tmp_path):
    """What a process executes is stopped as it was, or started, from its first event on."""
    def execute():
        p.stdin.write(b"x")
        p.stdin.flush()
        assert p.stdout.readline() == b"ready\n"

    (tmp_path / "again.c").write_text(AGAIN)
    program = tracing.build_program(tmp_path / "again", tmp_path / "again.c")
    daemon.ust("start", "-o", "t.spoor")
    p = daemon.program(program, stdin=subprocess.PIPE)
    daemon.ust("stop", p.pid)
    execute()
    wait_for(lambda: " 0 events, 0 lost, stopped" in daemon.line(p.pid))
    daemon.ust("stop", "-a")
    daemon.ust("start", p.pid)
    execute()
    wait_for(lambda: ", recording" in daemon.line(p.pid))
    daemon.ust("end")
    numbers = by_thread(daemon)
    assert numbers[0][0] == 0 and (1 not in numbers or numbers[1][0] > 10)
    assert numbers[2][0] == 0 and in_a_row(numbers[2])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_how_programs_joined(daemon, ticker, number):
    """From their begin on, or while they ran: status says it, with the next daemon, too."""
    met = daemon.program(ticker, 1, 0, 500)
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    first = daemon.program(ticker, 1, 0, 500, TICKER_FIRST="1")
    forked = daemon.program(ticker, 1, 0, 500, "fork", TICKER_FIRST="2")
    child, = wait_for(lambda: children(forked.pid))
    try:
        for _ in range(2):
            wait_for(lambda: daemon.ust("status").stdout.count(" ticker: ") == 4)
            assert ", joined while it ran, " in daemon.line(met.pid)
            assert daemon.ust("status").stdout.count(", joined ") == 1
            next_daemon(daemon, number, met, first, forked)
    finally:
        os.kill(child, signal.SIGKILL)


def count_all(daemon, name, said):
    """Events in the trace, and those that `spoor ust` and the report say are lost."""
    there = len(daemon.events(name))
    events, lost = map(int, re.match(r"\s*(?:so far: )?(\d+) events of \d+ programs?, (\d+) lost;", said).groups())
    assert events == there, (events, there, lost)
    return there + lost


def leave_room(directory, room):
    """A file beside takes all but so many bytes, or what others leave of them meanwhile."""
    space = os.statvfs(directory)
    with contextlib.suppress(OSError):
        (directory / "filler").write_bytes(bytes(max(0, space.f_bavail * space.f_frsize - room)))


def test_full_disk(daemon, ticker, tmp_path):
    """Daemons that end and are killed as the disk is full, and as it has room again: each event is there, or lost."""
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6M", "none", small], check=True)
    try:
        daemon.ust("start", "-o", small / "t.spoor")
        written = 0
        for i, number in enumerate([signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGKILL]):
            leave_room(small, 300_000)
            p = daemon.program(ticker, 2, 40_000, TICKER_FIRST=str(2 * i))
            wait_for(lambda: "No space left" in daemon.ust("status").stdout)
            daemon.kill(number)
            if i % 2:
                (small / "filler").unlink()
            p.wait(PATIENCE)
            daemon.start()
            written += 2 * 44_000
            (small / "filler").unlink(missing_ok=True)
        wait_for(lambda: not daemon.lines(p.pid))
        so_far = next(line for line in daemon.ust("status").stdout.splitlines() if "so far" in line)
        assert count_all(daemon, small / "t.spoor", so_far) == written
        said = daemon.ust("end", check=False).stdout
        assert count_all(daemon, small / "t.spoor", said) == written
        assert len(daemon.events(small / "t.spoor")) + daemon.summary["discarded"] == written
        assert daemon.summary["lost_writing"] > 0
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)


@pytest.mark.parametrize("room", [True, False], ids=["room again", "none"])
def test_disk_that_was_full(daemon, ticker, tmp_path, room):
    """Once there is room the session goes on, and ends in order: what is missing is counted. Else it was cut off."""
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6M", "none", small], check=True)
    try:
        daemon.ust("start", "-o", small / "t.spoor", "--buffers", "256k")
        counter = counters(tmp_path / "counter", 1)
        p = daemon.program(ticker, 1, 0, 1000, TICKER_COUNTER=counter)
        wait_for(lambda: daemon.so_far(small / "t.spoor"))
        leave_room(small, 0)
        wait_for(lambda: "  it failed: " in daemon.ust("status").stdout)
        if room:
            (small / "filler").unlink()
            wait_for(lambda: "\n  writing failed for a while: " in daemon.ust("status").stdout)
            assert "session default: recording, to " in daemon.ust("status").stdout
            wait_for(lambda: json.loads(Path(f"{daemon.socket}.state").read_text())["sessions"][0]["failed_once"])
            daemon.kill()
            daemon.start()
        daemon.finish(p)
        end = daemon.ust("end", check=False)
        assert (end.returncode == 0) == ("\nwriting failed for a while: " in end.stdout) == room, end
        numbers = [e["fields"]["n"] for e in daemon.events(small / "t.spoor") if e["event"] == "zoo:tick"]
        assert daemon.summary["lost_writing"] > 0 and daemon.summary["ended"] == room
        assert not room or behind(counter)[0] - 1 <= numbers[-1] <= behind(counter)[0]
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)


def test_no_room_to_go_on(daemon, ticker, tmp_path):
    """The next daemon does not begin, nor another trace; once there is room it goes on, and has all of it."""
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6M", "none", small], check=True)
    try:
        daemon.ust("start", "-o", small / "t.spoor", "-e", "zoo:tick")
        begin_and_end(daemon, ticker, 0)
        daemon.kill()
        leave_room(small, 0)
        begin_and_end(daemon, ticker, 1)
        run = subprocess.run([daemon.build / "spoor", "daemon", "--socket", daemon.socket], cwd=daemon.cwd,
                             stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        assert run.returncode == 1 and re.match(rf"spoor daemon: {small}/t.spoor: .*No space left", run.stderr)
        assert sorted(os.listdir(small)) == ["filler", "t.spoor"]
        (small / "filler").unlink()
        daemon.start()
        assert daemon.ust("end").stdout.startswith("8 events of 2 programs, 0 lost;")
        assert by_thread(daemon, small / "t.spoor") == {i: list(range(4)) for i in range(2)}
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)


def test_many_rules(daemon, ticker):
    """More than a socket holds by itself: the next daemon tells them to a program that has no listener, too."""
    counter = counters(daemon.cwd / "counter", 1)
    p = daemon.program(ticker, 1, 0, 1000, TICKER_COUNTER=counter)
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    for k in range(6):
        daemon.ust("enable", "-a", *(f"none:{k}_{i}" for i in range(60)))
    daemon.kill()
    daemon.start()
    wait_for(lambda: f"{p.pid} ticker: " in daemon.ust("status").stdout)
    before, = behind(counter)
    assert daemon.ust("disable", "-a", "zoo:tick").stdout == "1 program, 1 site\n"
    after, = behind(counter)
    wait_for(lambda: behind(counter)[0] > after + 20)  # it goes on, and is not recorded
    daemon.finish(p)
    said, numbers = daemon.ust("end").stdout, by_thread(daemon)[0]
    assert said.startswith(f"{len(numbers)} events of 1 program, 0 lost")
    assert in_a_row(numbers) and before - 1 <= numbers[-1] <= after
