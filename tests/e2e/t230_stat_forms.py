# SPDX-License-Identifier: GPL-2.0-or-later
"""The forms of `spoor stat` and its targets, of real runs: trees, histograms, errors, prints one upon the other."""
import os
import re
import subprocess
import time

import pytest

from counting import total
from processes import go, ready, sleeps_in, tell, wait_for
from terminal import Terminal

NODE = re.compile(r"^ *([\d.]+) +([\d.]+) +(\d+) +(\d+) +([\d.]+) +(\d+) +(\d+) ((?:  )*)(\d+) (\S+)", re.M)


# ---- text ----

def test_tree(spoor, counted):
    """A line a process below its parent; what one did itself adds up to what the first did with its descendants."""
    script = f"{counted} threads 2 17; sh -c '{counted} threads 1 13; :'; :"
    nodes = NODE.findall(spoor("stat", "--tree", "-e", "getppid", "--", "sh", "-c", script).stderr)
    shares, _, all_calls, _, _, calls, _, indents, pids, names = zip(*nodes)
    calls = list(map(int, calls))
    assert names == ("sh", "counted", "sh", "counted") and [len(i) // 2 for i in indents] == [0, 1, 1, 2]
    assert calls[1] == 34 and calls[3] == 13 and len(set(pids)) == 4
    assert list(map(int, all_calls)) == [sum(calls), 34, calls[2] + 13, 13]
    assert round(sum(map(float, shares)), 2) == 100


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_histogram(spoor, counted, locale):
    """What stands behind the bars adds up to the calls."""
    out = spoor("stat", "--histogram", "-e", "getppid", "--", counted, "threads", 2, 1009,
                env={**os.environ, "LC_ALL": locale}).stderr
    heading, *bars = out[out.index("\ngetppid: "):].strip().splitlines()
    assert re.fullmatch(r"getppid: 2018 calls, min [\d.]+ \S+, p50 [\d.]+ \S+, p99 [\d.]+ \S+, max [\d.]+ \S+", heading)
    counts = [int(re.fullmatch(r" +[\d.]+ [num]?s [|│].*[|│] (\d+)", bar)[1]) for bar in bars]
    assert sum(counts) == 2018 and counts[0] and counts[-1]
    assert out.isascii() == (locale == "C")


def test_errors(spoor, counted):
    """Under a call its errors, most frequent first; they add up to its errors."""
    out = spoor("stat", "--errors", "-e", "openat", "--", counted, "errors", 31, 17).stderr
    (row,) = re.findall(r"^ *[\d.]+ +[\d.]+ +\S+ +\d+ +(\d+) openat", out, re.M)
    found = [(int(n), name) for n, name in re.findall(r"^ +(\d+)   (E\w+)$", out, re.M)]
    assert dict((name, n) for n, name in found).items() >= {"EISDIR": 31, "EBADF": 17, "EFAULT": 2}.items()
    assert [n for n, _ in found] == sorted((n for n, _ in found), reverse=True)
    assert sum(n for n, _ in found) == int(row)


@pytest.mark.parametrize("no_colour, coloured", [("", True), ("1", False)])
def test_colour(build, spoor, no_colour, coloured):
    """On a terminal, unless NO_COLOR is set to something."""
    terminal = Terminal(build / "spoor", "stat", "--", "true", env={"NO_COLOR": no_colour})
    try:
        code, data = terminal.finish(20)
    finally:
        terminal.close()
    assert code == 0 and b"Task: " in data and (b"\x1b[1m" in data) == coloured
    assert "\033" not in spoor("stat", "--", "true", env={**os.environ, "NO_COLOR": no_colour}).stderr


# ---- targets ----

def test_cgroup(counting_under_way, start, actor, cgroup):
    """Who is in and who comes in, with children; nobody else."""
    member, comer, other = (ready(start(actor(), "serve")) for _ in range(3))
    (cgroup / "cgroup.procs").write_text(str(member.pid))
    stat = counting_under_way("--cgroup", cgroup, "--per-process", "-e", "getppid")
    (cgroup / "cgroup.procs").write_text(str(comer.pid))
    time.sleep(0.3)
    for process in (member, comer, other):
        assert go(process) == 0
    assert stat.stop() == 0
    (c,) = stat.counters()
    counts = {t["pid"]: sum(s["calls"] for s in t["syscalls"]) for t in c.whole().tasks}
    assert counts[member.pid] == counts[comer.pid] == 404 and other.pid not in counts
    assert sorted(n for n in counts.values() if n) == [31, 31, 404, 404]


def test_all(counting_under_way, start, actor):
    """Everything on the machine but Spoor itself; of it, what is ours."""
    program = actor("quokka")
    stat = counting_under_way("-a", "--per-process", "-e", "getppid,execve")
    ours = [start(program, "marks", n) for n in (37, 41)]
    for process in ours:
        process.wait(20)
    assert stat.stop() == 0
    (c,) = stat.counters()
    found = {t["pid"]: (t["comm"], sum(s["calls"] for s in t["syscalls"] if s["name"] == "getppid"))
             for t in c.whole().tasks}
    assert [found[p.pid] for p in ours] == [("quokka", 37), ("quokka", 41)] and stat.pid not in found


# ---- one print after the other ----

def test_each_exit_with_intervals(counting_under_way, counted):
    """Ended processes, differences and the whole: each says every call, and the application keeps its name."""
    stat = counting_under_way("--each-exit", "--interval", "50ms", "--", "sh", "-c",
                              f"{counted} processes 31 7; cat; :", start=False, stdin=subprocess.PIPE)
    wait_for(lambda: stat.prints() >= 32 + 5)  # no more than 32 of processes, since sh and cat go on
    stat.process.stdin.close()
    assert stat.wait() == 0
    *spans, whole = stat.counters()
    calls = whole.whole().of("getppid")
    assert calls == 31 * 7 + 1  # sh asks once
    ended = [o for o in spans if o.all["level"] == "process"]
    deltas = [o for o in spans if o.all["level"] == "application"]
    assert len(ended) == 34 and total(ended, "getppid") == calls
    assert len(deltas) > 4 and total(deltas, "getppid") == calls
    assert len({(t["pid"], t["comm"]) for o in [*deltas, whole] for t in o.tasks}) == 1
    assert all(len(o.tasks) <= 1 for o in deltas) and whole.tasks[0]["processes"] == 34


@pytest.mark.parametrize("level", [[], ["--per-process"], ["--per-thread"]])
def test_intervals_with_execve_by_a_thread(counting_under_way, counted, start, level):
    """The thread that takes its dead leader's place brings its own counters: no call is missed, none comes twice."""
    other = start(counted, "hang", 1, 1)
    ready(other)
    worker = start("sh", "-c", "read x; exec \"$@\"", "sh", counted, "exec", 1, 1000003)
    stat = counting_under_way("-p", worker.pid, "-p", other.pid, "--interval", "10ms", *level)
    tell(worker)
    assert worker.wait(20) == 0
    assert stat.print_all().stop() == 0
    *deltas, last = stat.counters()
    assert last.whole().of("getppid") == total(deltas, "getppid") == 2 * 1000003 and len(deltas) > 10


def test_a_call_of_who_is_moved_away(counting_under_way, start, actor, cgroups, cgroup):
    """What it was in when it was moved out of the cgroup counts as a call that it left; what it calls then does not."""
    leaver, member = (ready(start(actor(), "sleep")) for _ in range(2))
    for process in (leaver, member):
        (cgroup / "cgroup.procs").write_text(str(process.pid))
        wait_for(lambda: sleeps_in(process.pid, 0))
    stat = counting_under_way("--cgroup", cgroup, "--per-process")
    (cgroups / "cgroup.procs").write_text(str(leaver.pid))
    for process in (leaver, member):
        assert go(process) == 0
    assert stat.stop() == 0
    (c,) = stat.counters()
    calls = {t["pid"]: {s["name"]: s for s in t["syscalls"]} for t in c.whole().tasks}
    read = calls[leaver.pid].pop("read")
    assert not calls[leaver.pid]  # neither its mark nor its end
    assert (read["calls"], read["entered"]) == (0, 1) and "unreturned" not in read and "in_flight" not in read
    assert read["left"]["calls"] == 1 and 0 < read["left"]["blocked_seconds"] <= read["left"]["seconds"] < 20
    read = calls[member.pid]["read"]
    assert (read["calls"], read["entered"]) == (1, 1) and "left" not in read
    assert calls[member.pid]["getppid"]["calls"] == 1
