# SPDX-License-Identifier: GPL-2.0-or-later
"""`spoor stat`: every call of known workloads is counted, whatever becomes of its thread."""
import os
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from counting import total
from processes import children, ready, tell, wait_for, wait_until_all_pause


@pytest.mark.parametrize("threads, calls", [(1, 1009), (2, 1009), (100, 101), (5000, 13)])
def test_threads(count, counted, threads, calls):
    done, (c,) = count("--", counted, "threads", threads, calls)
    assert done.returncode == 0, done.stderr
    assert c.whole().of("getppid") == threads * calls
    assert c.threads() == threads + 1 and len(c.tasks) == 1
    assert c.of("exit") == threads and c.of("exit_group") == 1  # each counts as one although it never returns


def test_threads_alone(count, counted):
    """One thread's table, live ones too, adds up to the process's."""
    _, (c,) = count("--per-thread", "--", counted, "threads", 3, 17)
    assert c.whole().of("getppid") == 51


@pytest.mark.parametrize("how, code, expected", [
    ("segv", 128 + signal.SIGSEGV, 10 * 101),
    ("group", 7, 10 * 101),
    ("leader", 0, 10 * 101),
    ("exec", 0, 10 * 101 + 101),
])
def test_ends(count, counted, how, code, expected):
    done, (c,) = count("--", counted, how, 10, 101)
    assert done.returncode == code
    assert c.whole().of("getppid") == expected
    assert c.threads() == (12 if how == "exec" else 11)


def test_sigkill(counting_under_way, counted, start):
    target = start(counted, "hang", 10, 101)
    wait_until_all_pause(ready(target).pid)
    stat = counting_under_way("-p", target.pid)
    target.kill()
    assert stat.wait() == 0
    (c,) = stat.counters()
    assert c.whole().of("pause") == 11 and c.threads() == 11
    assert [s["errnos"] for s in c.tasks[0]["syscalls"] if s["name"] == "pause"] == [{"ERESTARTNOHAND": 11}]


def test_sigkill_of_a_command(counting_under_way, counted, tmp_path):
    stat = counting_under_way("--", counted, "hang", 10, 101)
    wait_for(lambda: b"ready" in stat.stderr.read_bytes())
    (child,) = [pid for pid in children(stat.pid) if os.readlink(f"/proc/{pid}/exe") == str(counted)]
    wait_until_all_pause(child)
    os.kill(child, signal.SIGKILL)
    assert stat.wait() == 128 + signal.SIGKILL
    (c,) = stat.counters()
    assert c.whole().of("getppid") == 1010 and c.of("pause") == 11


def test_processes(count, counted):
    _, (c,) = count("--", counted, "processes", 101, 7)
    assert c.whole().of("getppid") == 707 and c.threads() == 102
    _, (c,) = count("--per-process", "--", counted, "processes", 101, 7)
    assert sorted(t["syscalls"] and sum(s["calls"] for s in t["syscalls"] if s["name"] == "getppid")
                  for t in c.whole().tasks) == [0] + 101 * [7]
    _, (c,) = count("--no-follow", "--", counted, "processes", 101, 7)
    assert c.whole().of("getppid") == 0 and c.of("wait4") == 101


def test_processes_are_counted(count, counted):
    """A process whose threads all end at the same time is one."""
    _, (c,) = count("--", "sh", "-c", 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do "$@"; done; :',
                    "sh", counted, "group", 16, 1)
    assert c.whole().tasks[0]["processes"] == 21
    _, (c,) = count("--", counted, "processes", 101, 1)
    assert c.whole().tasks[0]["processes"] == 102


def test_many_ended_processes(count, counted):
    """Some thousands of ended processes stay apart, older ones are thrown together; no call is missing."""
    _, (c,) = count("--per-process", "-e", "getppid", "--", counted, "processes", 4500, 1)
    assert c.whole().of("getppid") == 4500 and c.threads() == 4501
    (together,) = [t for t in c.tasks if t["processes"] > 1]
    assert 4500 - 4096 <= together["processes"] <= 4501 - 4095 and len(c.tasks) <= 4098


def test_each_exit(count, counted):
    _, (*ended, c) = count("--each-exit", "--", counted, "processes", 31, 7)
    assert len(ended) == 32
    assert [e.of("getppid") for e in ended] == 31 * [7] + [0]  # in the order of their ends
    assert len({e.tasks[0]["pid"] for e in ended}) == 32
    assert c.whole().of("getppid") == 217


LEVELS = pytest.mark.parametrize("level", [[], ["--per-process"], ["--per-thread"]], ids=lambda l: " ".join(l) or "all")
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}


@LEVELS
def test_storm(counting_under_way, counted, level):
    """Threads are born and die at tens of thousands a second, and the counters are looked at meanwhile."""
    stat = counting_under_way("--interval", "20ms", *level, "--", counted, "storm", 1000, 3, start=False, **PIPES)
    threads = int(stat.process.stdout.readline())
    stat.print_all().process.stdin.close()
    assert stat.wait() == 0
    *deltas, c = stat.counters()
    assert c.whole().of("getppid") == 3 * threads and c.threads() == threads + 1
    assert total(deltas, "getppid") == 3 * threads and len(deltas) > 10


@LEVELS
def test_kills(counting_under_way, counted, level):
    """Processes are born and killed; what the prints show adds up to what was called, to the call."""
    stat = counting_under_way("--interval", "10ms", *level, "--", counted, "kills", 41, 3, start=False, **PIPES)
    for _ in range(7):
        tell(stat.process)
        ready(stat.process, b"done")
        stat.print_all()
    stat.process.stdin.close()
    assert stat.wait() == 0
    *deltas, c = stat.counters()
    assert c.whole().of("getppid") == 7 * 41 * 4 * 3 and c.threads() == 7 * 41 * 4 + 1
    assert total(deltas, "getppid") == 7 * 41 * 4 * 3


def test_of_one_moment(count, counted):
    """Of calls made by turns no print shows two more of one than of the other, those in flight included."""
    _, (*deltas, c) = count("--interval", "10ms", "--", counted, "alternate", 1500, 40)
    returned = Counter()
    for d in deltas:
        in_flight = Counter()
        for task in d.tasks:
            for call in task["syscalls"]:
                returned[call["name"]] += call["calls"]
                in_flight[call["name"]] += (call.get("in_flight") or {}).get("calls", 0)
        ahead = returned["getppid"] - returned["getuid"]
        assert ahead in (0, 1)
        assert ahead + in_flight["getppid"] - in_flight["getuid"] in (0, 1)
    assert len(deltas) > 20 and returned["getppid"] > 10000


@LEVELS
def test_exec_by_threads(counting_under_way, counted, level):
    """A thread takes over its leader's ids: what it and the leader had counted is neither lost nor counted twice."""
    stat = counting_under_way("--interval", "5ms", *level, "--", counted, "chain", 100, 1009, start=False, **PIPES)
    assert stat.process.stdout.readline() == b"last\n"
    stat.print_all().process.stdin.close()
    assert stat.wait() == 0
    *deltas, c = stat.counters()
    for name in ("getppid", "getuid"):
        assert c.whole().of(name) == total(deltas, name) == 100 * 1009


def test_interval(counting_under_way, counted, start):
    """No call is missed between two prints."""
    target = start(counted, "hang", 1, 1)
    ready(target)
    worker = start("sh", "-c", "read x; exec \"$@\"", "sh", counted, "threads", 2, 1500007)
    stat = counting_under_way("-p", worker.pid, "-p", target.pid, "--interval", "10ms")
    tell(worker)
    assert worker.wait(30) == 0
    assert stat.print_all().stop() == 0
    *deltas, last = stat.counters()
    assert last.whole().of("getppid") == total(deltas, "getppid") == 3000014 and len(deltas) > 10


def test_end_within_an_interval(counting_under_way, counted, start):
    """What came since the last print is one more interval: they add up to the whole."""
    worker = start("sh", "-c", "read x; exec \"$@\"", "sh", counted, "threads", 2, 15007)
    stat = counting_under_way("-p", worker.pid, "--interval", "1h")
    tell(worker)
    assert worker.wait(30) == 0
    stat.stop()
    *deltas, last = stat.counters()
    assert len(deltas) == 1 and last.whole().of("getppid") == total(deltas, "getppid") == 30014


def test_int80(count, counted):
    _, (c,) = count("--", counted, "int80", 13, 17)
    assert c.whole().of("getppid", abi="i386") == 13 and c.of("getppid") == 17


def test_numbers_beyond_the_table(count, counted):
    _, (c,) = count("--", counted, "unknown", 13, 17)
    assert c.whole().of("unknown") == 13 and c.of("unknown", "errors") == 13 and c.of("getppid") == 17


def test_errnos(count, counted):
    _, (c,) = count("-e", "openat", "--", counted, "errors", 31, 17)
    (call,) = c.whole().tasks[0]["syscalls"]
    assert call["errnos"].items() >= {"EBADF": 17, "EFAULT": 2, "EISDIR": 31}.items()
    assert call["errnos"]["ENOENT"] >= 31 and set(call["errnos"]) == {"ENOENT", "EBADF", "EFAULT", "EISDIR"}


SLOTS = 56  # of a thread: so many different calls, those that it made first


def without_slot(command, tmp_path):
    """How many calls of a program of one thread find no slot, by strace's account of them."""
    subprocess.run(["strace", "-o", tmp_path / "strace", *command], check=True, timeout=60)
    names = re.findall(r"^(\w+)\(", (tmp_path / "strace").read_text(), re.M)
    names.remove("exit_group")  # which never returns
    kept = set(list(dict.fromkeys(names))[:SLOTS])
    return sum(name not in kept for name in names)


def test_more_calls_than_slots(count, counted, tmp_path):
    """What finds no slot in its thread is in its process's counters all the same."""
    command = [counted, "many", "200", "5"]
    _, (c,) = count("--", *command)
    calls = Counter(s["calls"] for s in c.whole().tasks[0]["syscalls"])
    assert sum(n for times, n in calls.items() if times >= 5) == 200 + (c.of("mmap") >= 5)  # ld.so's
    assert c.tasks[0]["overflow"] == without_slot(command, tmp_path) > 700


def test_overflow_of_live_threads(counting_under_way, spoor, counted, start):
    """Each thread's table says how many of its calls stand with the process; none is missing, none there twice."""
    target = start("sh", "-c", "read x; exec \"$@\"", "sh", counted, "crowd", 3, 5)
    stat = counting_under_way("-p", target.pid, "--per-thread")
    tell(target)
    ready(target)
    assert stat.stop() == 0
    (c,) = stat.counters()
    crowd = [t for t in c.whole().tasks if t["tid"] not in (0, t["pid"])]
    (rest,) = [t for t in c.tasks if not t["tid"]]
    calls = {t["tid"]: sum(s["calls"] for s in t["syscalls"]) for t in c.tasks}
    # A thread begins with rseq, set_robust_list and one of the two hundred, rt_sigprocmask; after those it waits at a
    # barrier, by futex or not.
    missed = 5 * (200 - (SLOTS - 2))
    assert len(crowd) == 3 and [calls[t["tid"]] for t in crowd] == 3 * [2 + 1 + 5 * (SLOTS - 2)]
    assert sum(t["overflow"] - missed for t in crowd) == sum(s["calls"] for s in rest["syscalls"]
                                                             if s["name"] == "futex")
    assert all(0 <= t["overflow"] - missed <= 3 for t in crowd) and rest["overflow"] == 0
    assert calls[0] == sum(t["overflow"] for t in c.tasks)
    of_name = Counter()
    for task in [*crowd, rest]:
        for call in task["syscalls"]:
            of_name[call["name"]] += call["calls"]
    assert Counter(n for n in of_name.values() if n > 3) == {15: 199, 18: 1}


def test_overflow_is_said(spoor, counted):
    said = spoor("stat", "--", counted, "many", 200, 5).stderr
    assert re.search(r"^\d{3} calls found no slot in the thread: they stand with the process\.$", said, re.M)


def test_long_histogram(count, counted):
    """More calls in one bucket than its eight bits hold."""
    _, (c,) = count("-e", "getppid", "--", counted, "threads", 2, 300007)
    assert c.whole().of("getppid") == 600014
    (call,) = c.tasks[0]["syscalls"]
    assert max(call["histogram"]) > 1 << 17


def test_filter(count, counted):
    _, (c,) = count("-e", "getppid", "--", counted, "threads", 2, 7)
    assert set(c.whole().returned()) == {("getppid", None)} and c.of("getppid") == 14
    _, (c,) = count("-e", "!getppid", "--", counted, "threads", 2, 7)
    assert ("getppid", None) not in c.returned() and c.of("execve") == 1


def stolen(cpu):
    """What the host has taken of a CPU: s, in hundredths."""
    (line,) = [line for line in Path("/proc/stat").read_text().splitlines() if line.startswith(f"cpu{cpu} ")]
    return int(line.split()[8]) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a spinner"])
def test_on_the_cpu(count, counted, start, beside):
    """Calls that compute, alone and with half a CPU: on it as long as the scheduler says, blocked for the rest."""
    cpu = min(os.sched_getaffinity(0))
    if beside:
        start("taskset", "-c", cpu, "sh", "-c", "while :; do :; done")
    before = stolen(cpu)
    done, (c,) = count("-e", "readv", "--", "taskset", "-c", cpu, counted, "busy", 997, 16)
    passed, ran = (int(ns) / 1e9 for ns in done.stdout.split())
    on_cpu, blocked = (c.whole().of("readv", key) for key in ("on_cpu_seconds", "blocked_seconds"))
    assert c.of("readv") == 997 and c.of("readv", "seconds") <= passed
    # Between the calls the program runs for some us. What the host steals is no time of the thread for the scheduler;
    # how much that was is known to a hundredth of a second at either end.
    assert 0.99 * ran <= on_cpu <= ran + stolen(cpu) - before + 0.02
    assert blocked <= passed - 0.99 * ran and (not beside or blocked > 0.3 * c.of("readv", "seconds"))


def test_blocked(count, counted):
    """Calls that sleep are blocked as long as they were told to, on the CPU not longer than the scheduler says."""
    cpu = min(os.sched_getaffinity(0))
    before = stolen(cpu)
    done, (c,) = count("-e", "clock_nanosleep", "--", "taskset", "-c", cpu, counted, "asleep", 23, 10)
    passed, ran = (int(ns) / 1e9 for ns in done.stdout.split())
    assert c.whole().of("clock_nanosleep") == 23 and 0.23 <= c.of("clock_nanosleep", "seconds") <= passed
    ran += stolen(cpu) - before + 0.02
    assert 0 < c.of("clock_nanosleep", "on_cpu_seconds") <= ran
    assert c.of("clock_nanosleep", "blocked_seconds") >= 0.23 - ran


def test_no_blocked(count):
    _, (c,) = count("--no-blocked", "--", "true")
    assert c.whole().of("execve") == 1
    assert not [s for s in c.tasks[0]["syscalls"] if {"blocked_seconds", "on_cpu_seconds"} & set(s)]


def test_output_and_exit_code(spoor, tmp_path):
    """The target's own output is untouched; the table is on stderr, its percentages add up to 100."""
    done = spoor("stat", "--", "sh", "-c", "echo hello; exit 3")
    assert done.returncode == 3 and done.stdout == "hello\n"
    rows = re.findall(r"^ *([\d.]+) +[\d.]+ +\S+ +\d+", done.stderr, re.M)
    assert rows[-1] == "100.00" and round(sum(map(float, rows[:-1])), 2) == 100
    done = spoor("stat", "-o", "table", "--", "true")
    assert done.returncode == 0 and done.stderr == "" and "execve" in (tmp_path / "table").read_text()
    done = spoor("stat", "-o", "/nowhere/table", "--", "true")
    assert done.returncode == 125 and "/nowhere/table" in done.stderr


def test_sorted(spoor, counted):
    def names(*how):
        out = spoor("stat", *how, "--", counted, "errors", 31, 17).stderr
        return re.findall(r"^ *[\d.]+ +[\d.]+ +\S+ +(\d+) +(\d+)? +(\w+)", out, re.M)[:-1]
    assert [n for _, _, n in names("-S", "name")] == sorted(n for _, _, n in names("-S", "name"))
    calls = [int(n) for n, _, _ in names("-S", "calls")]
    assert calls == sorted(calls, reverse=True)
    assert names("-S", "errors")[0][2] == "openat"


@pytest.mark.parametrize("args, said", [
    ([], "nothing to count"),
    (["-S", "size", "--", "true"], "time, calls, errors, max or name"),
    (["--by", "name", "--", "true"], "--by name"),
    (["-m", "lib", "--", "true"], "--by site"),
    (["--by", "site", "-m", "custom", "--", "true"], "custom"),
    (["--per-thread", "--tree", "--", "true"], "one of them"),
    (["--interval", "0", "--", "true"], "--interval"),
    (["--format", "xml", "--", "true"], "text or json"),
    (["--watch", "--format", "json", "--", "true"], "--watch"),
    (["--tree", "--histogram", "--", "true"], "--tree"),
    (["--tree", "--errors", "--", "true"], "--tree"),
    (["--tree", "--by", "site", "--", "true"], "--tree"),
])
def test_usage(spoor, args, said):
    done = spoor("stat", *args)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1


def test_no_such_target(spoor):
    assert spoor("stat", "--", "/no/such/program").returncode == 125
    done = spoor("stat", "-p", 99999999)
    assert done.returncode == 1 and "99999999" in done.stderr
