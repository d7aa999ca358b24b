# SPDX-License-Identifier: GPL-2.0-or-later
"""spoor report on generated hostile traces: the same calls as trace_dump reads, in every form, and on damaged files."""
import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess

import pytest

SCENARIOS = ["calls", "own", "migrate", "nested", "reuse", "rotate", "mixed"]
FORMS = [[], ["--by", "app"], ["--by", "all", "--sort", "max", "--top", "3"], ["--events"], ["--events", "-k"],
         ["--format", "json"], ["--folded"], ["--folded=time"], ["--blocked"], ["--blocked", "--format", "json"]]
CALL = re.compile(r"^(\d+) cpu=(\d+) .*?\btid=(\d+) (\S+) pid=(\d+) stack=(\d+) dur=(\d+) ret=(-?\d+)", re.M)


@pytest.fixture(scope="module")
def traces(build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    for scenario in SCENARIOS:
        subprocess.run([build / "tests/tools/trace_gen", scenario, folder / scenario], check=True, timeout=60)
    return folder


def dumped(build, trace):
    """(ns, cpu, tid, pid, dur, ret) of every completed call, as another program of ours reads them."""
    out = subprocess.run([build / "tests/tools/trace_dump", trace], capture_output=True, text=True, timeout=60,
                         errors="surrogateescape").stdout
    return [tuple(int(x) for x in (m[0], m[1], m[2], m[4], m[6], m[7])) for m in CALL.findall(out)]


def lines(text):
    return [json.loads(line) for line in text.split("\n")[:-1]]


def number(ret):
    value = int(ret, 16) if isinstance(ret, str) else ret
    return value - (1 << 64) if value >= 1 << 63 else value


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_json_has_every_call(spoor, build, traces, scenario):
    run = spoor("report", "--format", "json", traces / scenario)
    assert run.returncode == 0, run.stderr
    *events, summary = lines(run.stdout)
    assert summary["event"] == "spoor:summary"
    completed = [e for e in events if "unfinished" not in e]
    got = [(int(e["ts"].replace(".", "")), e["cpu"], e["tid"], e["pid"], e["dur"], number(e["ret"]))
           for e in completed]
    assert got and got == dumped(build, traces / scenario)
    assert summary["calls"] + summary["unfinished"] == len(events)
    assert summary["failed"] == sum(e["errno"] is not None for e in completed)
    assert sum(summary["walks"].values()) + summary["no_stack"] == len(events)
    for e in events:
        assert re.fullmatch(r"\d+\.\d{9}", e["ts"]) and isinstance(e["args"], dict) and isinstance(e["stack"], list)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_table_counts_every_call(spoor, traces, scenario):
    """The rows of all tables add up to the calls of the JSON form."""
    summary = lines(spoor("report", "--format", "json", traces / scenario).stdout)[-1]
    for by in ("process", "app", "all"):
        out = spoor("report", "--by", by, "--top", "0", traces / scenario).stdout
        rows = re.findall(r"^ *([\d,]+) +[\d,]* +\S+ \S+ +\S+ \S+ +\S+ \S+  \w", out, re.M)
        assert sum(int(r.replace(",", "")) for r in rows) == summary["calls"]


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_forms_escape_and_end(spoor, traces, form):
    for scenario in SCENARIOS:
        run = spoor("report", *form, traces / scenario, text=False)
        assert run.returncode == 0, run.stderr
        assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", run.stdout + run.stderr)
        told = run.stderr if form and form[0].startswith("--folded") else run.stdout
        assert b"discarded" in told or b"Lost: " in told


def test_damaged_traces(stands_damage, traces):
    stands_damage([traces / scenario for scenario in SCENARIOS], FORMS, 11)


@pytest.mark.parametrize("args, said", [
    ([], "which trace?"), (["nosuch.spoor"], "nosuch.spoor"), (["a", "b"], "one too many"),
    (["--events", "--blocked", "x"], "exclude each other"), (["--folded", "-f", "json", "x"], "format of its own"),
    (["-f", "json", "--by", "app", "x"], "--by is for tables"), (["--events", "--sort", "calls", "x"], "--sort is for"),
    (["--blocked", "--by", "all", "x"], "--by is for"), (["--folded", "--top", "3", "x"], "--top is for"),
    (["-e", "!all", "x"], "no system call"),
    (["-f", "xml", "x"], "'xml'"), (["--by", "proces", "x"], "did you mean 'process'"), (["--top", "-1", "x"], "--top"),
    (["--pid", "1,x", "x"], "'x'"), (["--errno", "ENOSUCH", "x"], "ENOSUCH"), (["--min-duration", "1q", "x"], "1q"),
    (["-e", "opanat", "x"], "opanat"), (["--frm", "1", "x"], "--frm"), (["--sort"], "missing"),
    (["-p", "1,", "x"], "separated by commas"), (["--tid", ",1", "x"], "separated by commas"),
    (["-p", "1,,2", "x"], "separated by commas"), (["-k", "x"], "--events"), (["-k", "-f", "json", "x"], "--events"),
    (["-e", "openat=app", "x"], "a mode is for recording"), (["-e", "all=none", "x"], "mode"),
])
def test_wrong_usage(spoor, args, said):
    run = spoor("report", *args)
    assert run.returncode == (1 if args == ["nosuch.spoor"] else 2)
    assert not run.stdout and said in run.stderr and run.stderr.count("\n") == 1


def test_times(spoor, traces):
    """A span in each way of saying it selects what the times of the events say."""
    trace = traces / "migrate"
    *events, _ = lines(spoor("report", "--format", "json", trace).stdout)
    done = [e for e in events if "unfinished" not in e]
    end = {id(e): int(e["ts"].replace(".", "")) for e in done}
    first = min(end.values())
    ends = sorted(end.values())
    low, high = ends[len(ends) // 3], ends[len(ends) // 2]
    want = [e for e in done if end[id(e)] >= low and end[id(e)] - e["dur"] <= high]
    assert 10 < len(want) < len(done)
    epoch = [f"@{t // 10**9}.{t % 10**9:09d}" for t in (low, high)]
    out = lines(spoor("report", "--format", "json", "--from", epoch[0], "--to", epoch[1], trace).stdout)
    assert [e for e in out[:-1] if "unfinished" not in e] == want
    assert first <= low


def test_least_duration_of_calls_that_never_ended(spoor, traces):
    """It is that of which the report says that they lasted: of one whose end was lost until it was seen last."""
    def unfinished(*args):
        *events, _ = lines(spoor("report", "--format", "json", *args, traces / "migrate").stdout)
        return [e for e in events if "unfinished" in e]
    every = unfinished()
    assert {"end lost", "end", "death"} <= {e["unfinished"] for e in every}
    for least in {e["so_far"] for e in every}:
        assert unfinished("--min-duration", f"{least}ns") == [e for e in every if e["so_far"] >= least]


def test_times_of_a_listing(spoor, traces):
    """What a listing shows, given back, has that call: it is cut to the microsecond, and stands for all of it."""
    trace = traces / "migrate"
    listed = spoor("report", "--events", trace).stdout.splitlines()
    lines_of = [line for line in listed if re.match(r"\[\d+\] \d\d:", line)]
    assert len(lines_of) > 10
    for line in lines_of[::len(lines_of) // 10]:
        at = line.split()[1]
        found = spoor("report", "--events", "--from", at, "--to", at, trace)
        assert found.returncode == 0 and line in found.stdout.splitlines(), found
    first = lines_of[0].split()[1]
    assert lines_of[0] in spoor("report", "--events", "--to", first, trace).stdout.splitlines()


def test_span_that_ends_before_it_begins(spoor, traces):
    run = spoor("report", "--from", "2s", "--to", "1s", traces / "migrate")
    assert run.returncode == 2 and run.stderr == "spoor report: --from 2s is after --to 1s\n" and not run.stdout
    assert spoor("report", "--from", "1s", "--to", "1s", traces / "migrate").returncode == 0


def on_terminal(*args, stdout=None, **env):
    """All that is written to a terminal, and the exit code; standard output goes elsewhere if that is said."""
    leader, follower = pty.openpty()
    with open(leader, "rb", buffering=0) as screen:
        process = subprocess.Popen(args, stdin=follower, stdout=stdout or follower, stderr=follower,
                                   env=os.environ | {"TERM": "dumb"} | env)
        os.close(follower)
        shown = b""
        try:
            while chunk := screen.read(65536):
                shown += chunk
        except OSError:  # the last one has closed it
            pass
        return shown.decode(errors="replace"), process.wait(30)


@pytest.mark.parametrize("pager", ["/nonexistent", "no-such-pager -x", "/etc/passwd", "cat", "sh -c 'exec cat'"])
def test_pager(build, traces, pager):
    """Whatever the pager is, the report is shown."""
    shown, code = on_terminal(build / "spoor", "report", traces / "migrate", PAGER=pager)
    assert code == 0 and "Calls: " in shown and "Lost: " in shown


def test_pager_that_is_left(build, traces):
    shown, code = on_terminal(build / "spoor", "report", "--events", traces / "calls", PAGER="head -n 1")
    assert code == 0 and shown.count("\n") == 1


LOOKED_AT_CLOCK = r"""
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *ts) /* only looks at it take time */
{
	static long long ns = 1000000000000001;
	if (clock != CLOCK_MONOTONIC)
		return syscall(SYS_clock_gettime, clock, ts);
	ns += atol(getenv("LOOK_NS"));
	ts->tv_sec = ns / 1000000000;
	ts->tv_nsec = ns % 1000000000;
	return 0;
}
"""


def test_progress_of_long_symbolization(build, traces, tmp_path):
    """On a terminal, once it takes longer than half a second, and it leaves nothing behind. Time is made to run fast,
    or to stand still: how long a program takes is not the same everywhere."""
    (tmp_path / "clock.c").write_text(LOOKED_AT_CLOCK)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "clock.so", "clock.c"], cwd=tmp_path, check=True, timeout=60)
    clock = {"LD_PRELOAD": str(tmp_path / "clock.so"), "ASAN_OPTIONS": "verify_asan_link_order=0"}
    hasty, still = clock | {"LOOK_NS": "100000000"}, clock | {"LOOK_NS": "0"}
    command = [build / "spoor", "report", "--top", "0", traces / "calls"]
    with open(tmp_path / "report", "w+") as out:
        shown, code = on_terminal(*command, stdout=out, **hasty)
        out.seek(0)
        assert code == 0 and "Calls: " in out.read()
        assert re.fullmatch(r"(\rnaming call sites: +\d+ %)+\r\033\[K", shown)
        shares = [int(n) for n in re.findall(r"(\d+) %", shown)]
        assert shares == sorted(set(shares)) and len(shares) > 5 and shares[-1] < 100
        assert on_terminal(*command, stdout=out, **still) == ("", 0)
    run = subprocess.run(command, env=os.environ | hasty, capture_output=True, text=True, timeout=60)
    assert not run.stderr and "naming" not in run.stdout
    listed = r"calls and events listed: \d+"
    for form, what in ((["--folded"], r"naming call sites: +\d+ %"), (["--events", "-k"], listed),
                       (["-f", "json"], listed)):
        command = [build / "spoor", "report", *form, traces / "calls"]
        with open(tmp_path / "out", "w") as out:
            shown, code = on_terminal(*command, stdout=out, **hasty)
        assert code == 0 and re.match(rf"(\r{what}){{6,}}\r\033\[K", shown), shown
    for direct in (command, ["sh", "-c", '"$@" | cat', "sh", *command]):  # what comes through a pipe gets there, too
        shown, code = on_terminal(*direct, **hasty)
        assert code == 0 and "listed" not in shown


def test_full_disk(build, traces):
    for form in FORMS:
        with open("/dev/full", "wb") as full:
            run = subprocess.run([build / "spoor", "report", *form, traces / "calls"], stdout=full,
                                 stderr=subprocess.PIPE, text=True, timeout=60)
        said = re.findall("^spoor.*: cannot write .*$", run.stderr, re.M)
        assert run.returncode == 1 and len(said) == 1 and not run.stderr.endswith("\n\n")


def test_reader_that_has_left(build, traces):
    """Where SIGPIPE is ignored, too."""
    for form in FORMS:
        ours, theirs = os.pipe()
        os.close(ours)
        run = subprocess.run([build / "spoor", "report", *form, traces / "calls"], stdout=theirs, text=True,
                             stderr=subprocess.PIPE, timeout=60, restore_signals=False)
        os.close(theirs)
        assert run.returncode == 0 and "cannot" not in run.stderr


def test_reader_that_leaves_early(build, traces):
    """`spoor report --events | head` is no failure."""
    run = subprocess.run(f"set -o pipefail; {build}/spoor report --events {traces}/calls | head -n 1", shell=True,
                         executable="/bin/bash", capture_output=True, text=True, timeout=60)
    assert run.stdout.count("\n") == 1 and run.returncode in (0, 141) and not run.stderr


def test_stream_that_grows_by_more_than_a_gigabyte(build, spoor, tmp_path):
    """While it is followed. Here most of it is a hole behind the first packet's events."""
    trace, form = tmp_path / "long.spoor", ["--format", "json", "-e", "openat,read"]
    subprocess.run([build / "tests/tools/trace_gen", "bulk", trace, "80000"], check=True, timeout=60)
    want = spoor("report", *form, trace).stdout.splitlines()
    stream = next(trace.glob("*/kernel/seg-*/cpu0"))
    data = bytearray(stream.read_bytes())
    size, hole = struct.unpack_from("<Q", data, 56)[0] // 8, 1 << 30
    assert size < len(data)
    struct.pack_into("<Q", data, 56, 8 * (size + hole))  # packet_size
    stream.write_bytes(b"")
    lock = os.open(trace, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)  # it is being written
    reader = subprocess.Popen([build / "spoor", "report", "--follow", *form, trace], text=True, stdout=subprocess.PIPE)
    try:
        first = reader.stdout.readline()
        with stream.open("r+b") as f:
            f.write(data[:size])
            f.flush()
            f.seek(hole, os.SEEK_CUR)
            f.write(data[size:])
        os.close(lock)
        seen = (first + reader.stdout.read()).splitlines()
        assert reader.wait(60) == 0
    finally:
        reader.kill()
        reader.wait()
    assert seen[-1] == want[-1] and not json.loads(seen[-1])["damages"]
    assert sorted(seen) == sorted(want) and len(want) > 10000
