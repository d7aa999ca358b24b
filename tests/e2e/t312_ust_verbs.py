# SPDX-License-Identifier: GPL-2.0-or-later
"""spoor ust run, list, recover and record --ust on real programs, with readelf as an oracle."""
import json
import os
import re
import signal
import struct
import subprocess
import time
from collections import Counter

import pytest
import tracing
from daemons import in_a_row, ticker  # noqa: F401
from processes import children, ready, wait_for

HEADERS_OFFSET = 120  # of headers_offset and data_offset in an arena (src/agent/core/arena.h)
PYTHON = "/usr/bin/python3.11"


@pytest.fixture
def events(spoor):
    def read(path):
        run = spoor("report", "--format", "json", path)
        assert run.returncode == 0, run.stderr
        lines = [json.loads(line) for line in run.stdout.splitlines()]
        assert not lines[-1]["damages"]
        return lines[:-1], lines[-1]
    return read


def ticks(events):
    return Counter((e["pid"], e["fields"]["thread"]) for e in events if e["event"] == "zoo:tick")


def test_run_makes_usttrace(spoor, ticker, tmp_path, events):
    """Without -o it is in ./usttrace/, each run in a place of its own."""
    for _ in range(2):
        run = spoor("ust", "run", "--", ticker, 2, 211)
        assert run.returncode == 0 and run.stdout == "ready\n", run.stderr
    made = sorted((tmp_path / "usttrace").iterdir())
    assert len(made) == 2
    for path in made:
        assert sorted(ticks(events(path)[0]).values()) == [211, 211]


@pytest.mark.parametrize("verb", [["ust", "run"], ["record", "-e", "getppid"]], ids=lambda v: v[0])
def test_many_at_once_in_one_place(build, ticker, tmp_path, verb):
    """Each finds a name of its own, and runs its command, once."""
    command = [build / "spoor", *verb, "--", ticker, "1", "3"]
    all_of_them = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                   for _ in range(8 if verb[0] == "ust" else 2)]
    for p in all_of_them:
        out, said = p.communicate(timeout=60)
        assert p.returncode == 0 and out == "ready\n" and "exists already" not in said, said
    assert len(list(tmp_path.glob("usttrace/*.spoor" if verb[0] == "ust" else "*.spoor"))) == len(all_of_them)


def test_snapshot_beside_a_trace_with_a_slash(build, start, ticker, tmp_path, events):
    """And what a terminal would obey is not said as it is."""
    said = tmp_path / "said"
    with open(said, "w") as err:
        run = ready(start(build / "spoor", "ust", "run", "-o", "\x1bt.spoor/", "--mode", "overwrite", "--snapshot-on",
                          "SIGUSR2", "--", ticker, 1, 2003, 1000, stderr=err))
    run.send_signal(signal.SIGUSR2)
    wait_for(lambda: r"snapshot in \x1bt-snapshot-1.spoor" in said.read_text())
    assert run.wait(30) == 0 and r" in \x1bt.spoor" in said.read_text() and "\x1b" not in said.read_text()
    assert {p.name for p in tmp_path.glob("*.spoor")} == {"\x1bt.spoor", "\x1bt-snapshot-1.spoor"}
    events(tmp_path / "\x1bt-snapshot-1.spoor")


def test_run_of_nothing_leaves_nothing(spoor, tmp_path):
    assert spoor("ust", "run", "--", "/nonexistent/command").returncode == 125
    assert not (tmp_path / "usttrace").exists()
    script = tmp_path / "script"
    script.write_text("#!/nonexistent/interpreter\n")
    script.chmod(0o755)
    assert spoor("ust", "run", "-o", "t.spoor", "--", script).returncode == 125
    assert not (tmp_path / "t.spoor").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_recording_is_ended_and_not_the_command(build, ticker, tmp_path, events, number):
    """A signal to `run` alone: the trace is closed, and the command goes on without it, with no site on."""
    with open(tmp_path / "said", "w") as said:
        run = subprocess.Popen([build / "spoor", "ust", "run", "-o", tmp_path / "t.spoor", "--",
                                ticker, "1", "0", "999"], stdout=subprocess.PIPE, stderr=said, text=True)
    assert run.stdout.readline() == "ready\n"
    child = children(run.pid)[0]
    try:
        run.send_signal(number)
        assert run.wait(20) == 0 and "0 lost" in (tmp_path / "said").read_text()
        listed = subprocess.run([build / "spoor", "ust", "list", "--format", "json", str(child)], capture_output=True,
                                text=True)
        assert {json.loads(line)["state"] for line in listed.stdout.splitlines()} == {"off"}
    finally:
        os.kill(child, signal.SIGKILL)
    assert ticks(events(tmp_path / "t.spoor")[0])


HEIR = """
#include <errno.h>
#include <unistd.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(heir, step, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
int main(void)
{
    char c;

    spoor_trace(heir, step, 0);
    if (fork())
        return 0;
    while (read(0, &c, 1) < 0 && errno == EINTR)
        ;
    return 0;
}
"""


def test_who_outlives_the_command_is_told_of(build, tmp_path, events):
    """A child that has written nothing yet, and is not known, when the command ends."""
    (tmp_path / "heir.c").write_text(HEIR)
    subprocess.run(["gcc", f"-I{tracing.INCLUDE}", "-o", tmp_path / "heir", tmp_path / "heir.c"], check=True)
    with open(tmp_path / "said", "w") as said:
        run = subprocess.Popen([build / "spoor", "ust", "run", "-o", tmp_path / "t.spoor", "--", tmp_path / "heir"],
                               stdin=subprocess.PIPE, stdout=said, stderr=said)
    with run.stdin:
        assert run.wait(60) == 0
    said = (tmp_path / "said").read_text()
    assert "1 event of 1 program, 0 lost" in said and "1 program goes on, recorded no more" in said, said
    assert len(events(tmp_path / "t.spoor")[0]) == 1


def test_log_lines_are_told_by_their_words(spoor, tmp_path):
    source, program = tmp_path / "server.c", tmp_path / "server"
    source.write_text("""#include <spoor/marker.h>
int main(void)
{
    spoor_log("ready, \\x1b[1m");
    spoor_log("cache is %d%% full", 42); spoor_log("once"); spoor_log("once more");
    trace_mark(server_end, "after %d", 7);
}
""")
    tracing.build_program(program, source)
    spoor("ust", "run", "-o", "t.spoor", "--", program)
    lines = spoor("report", "--events", "t.spoor").stdout.splitlines()[:5]
    assert [line.partition("server")[2] for line in lines] == [
        '.c:4 "ready, \\x1b[1m"', '.c:5 "cache is %d%% full" is=42', '.c:5 "once"', '.c:5 "once more"',
        "_end after=7"], lines
    said = [json.loads(line) for line in spoor("report", "--format", "json", "t.spoor").stdout.splitlines()[:5]]
    assert [e.get("format") for e in said] == ["ready, \x1b[1m", "cache is %d%% full", "once", "once more", None]
    table = spoor("report", "t.spoor").stdout
    assert 'server.c:4  "ready' in table and re.search(r'\n *1 .*server.c:5  "once"\n', table), table
    told = subprocess.run(["babeltrace2", tmp_path / "t.spoor"], capture_output=True, text=True)
    assert told.returncode == 0 and told.stdout.count(" log:") == 4, told.stderr


@pytest.mark.parametrize("what", [["-e", "zoo:typo"], ["--filter", "nosuch == 3"]])
def test_programs_that_came_for_nothing(spoor, ticker, what):
    run = spoor("ust", "run", "-o", "t.spoor", *what, "--", ticker, 1, 10)
    assert run.returncode == 0 and "1 program came, and no event" in run.stderr, run.stderr
    assert "container" not in run.stderr


def test_programs_whose_events_are_all_lost(spoor, tmp_path):
    """They reached some: it is not asked whether they did."""
    source = tmp_path / "large.c"
    source.write_text("""
#include <string.h>
#include "spoor/tracepoint.h"
SPOOR_TRACEPOINT(zoo, large, TP_PROTO(const char *s), TP_ARGS(s), TP_FIELDS(spoor_string(s, s)))
int main(void)
{
	char text[9001] = "";

	memset(text, 'x', 9000);
	spoor_trace(zoo, large, text);
	return 0;
}
""")
    tracing.build_program(tmp_path / "large", source)
    run = spoor("ust", "run", "--packet", "4k", "-o", "t.spoor", "--", tmp_path / "large")
    assert "0 events of 1 program, 1 lost" in run.stderr and "no event" not in run.stderr


@pytest.mark.parametrize("size", [5, 5400, 5500, 25000, 32767])
@pytest.mark.parametrize("how", [[], ["--filter", "n >= 0"]], ids=["", "filter"])
def test_events_of_more_than_64_kilobytes(spoor, events, tmp_path, size, how):
    """None is recorded, however large packets are; what is beside them is."""
    texts = [f"t{i}" for i in range(12)]
    (tmp_path / "huge.c").write_text(f"""
#include <stdlib.h>
#include <string.h>
#include "spoor/tracepoint.h"
SPOOR_TRACEPOINT(zoo, small, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
SPOOR_TRACEPOINT(zoo, huge, TP_PROTO(int n, const char *s), TP_ARGS(n, s),
		 TP_FIELDS(spoor_int(int, n, n), {", ".join(f"spoor_string({t}, s)" for t in texts)}))
int main(int argc, char **argv)
{{
	static char text[40000];

	memset(text, 'x', (size_t)atol(argv[argc - 1]));
	for (int i = 0; i < 20; i++) {{
		spoor_trace(zoo, small, i);
		spoor_trace(zoo, huge, i, text);
	}}
	return 0;
}}
""")
    program = tracing.build_program(tmp_path / "huge", tmp_path / "huge.c")
    run = spoor("ust", "run", "--packet", "1M", "--buffers", "16M", *how, "-o", "t.spoor", "--", program, size)
    assert run.returncode == 0 and "sense" not in run.stderr, run.stderr
    found, summary = events("t.spoor")
    fit = size * 12 < 65528
    assert [e["fields"]["n"] for e in found if e["event"] == "zoo:small"] == [*range(20)]
    assert [e["fields"]["n"] for e in found if e["event"] == "zoo:huge"] == [*range(20)] * fit
    assert summary["discarded"] == 20 * (not fit) and not summary["damages"]


def test_run_follows_exec(spoor, ticker, events):
    """A shell, what it executes in its place, and what it starts."""
    run = spoor("ust", "run", "-o", "t.spoor", "--", "sh", "-c",
                f"{ticker} 1 31; {ticker} 1 37 & wait; exec {ticker} 1 41")
    assert run.returncode == 0, run.stderr
    assert sorted(ticks(events("t.spoor")[0]).values()) == [31, 37, 41]
    assert "crash" not in run.stderr


def test_unwritable(spoor, ticker):
    run = spoor("ust", "run", "-o", "/proc/t.spoor", "--", ticker)
    assert run.returncode == 125 and "/proc/t.spoor" in run.stderr and "ready" not in run.stdout


def test_recover_alone(spoor, build, ticker, tmp_path, events):
    """Daemonless, many times what the buffers hold, with children: whoever waits for the disk has all; who does not
    knows how many were lost. And while it runs."""
    for mode in "block=30s", "discard":
        out = tmp_path / mode
        env = tracing.environment(build, out, SPOOR_UST_BUFFERS="256K", SPOOR_UST_MODE=mode)
        subprocess.run([ticker, "3", "50021", "0", "fork"], env=env, check=True, stdout=subprocess.DEVNULL, timeout=60)
        run = spoor("ust", "recover", out, "-o", f"{mode}.spoor")
        assert run.returncode == 0 and "crash" not in run.stdout, run
        found, summary = events(f"{mode}.spoor")
        lost = int(m[1]) if (m := re.search(r"(\d+) lost", run.stdout)) else 0
        assert sum(ticks(found).values()) + sum(e["event"] == "zoo:rare" for e in found) + lost == 6 * (50021 + 5003)
        assert not lost or mode == "discard"
    p = subprocess.Popen([ticker, "1", "0", "100"], env=env, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    mine = [f for f in out.iterdir() if f.name.startswith(f"{p.pid}-") and f.suffix == ".arena"]
    run = spoor("ust", "recover", *mine, "-o", "running.spoor")
    p.kill()
    p.wait()
    assert "still running" in run.stdout, run
    assert len(ticks(events("running.spoor")[0])) == 1


def test_recover_while_it_overwrites(spoor, build, ticker, tmp_path, events):
    """What stands while it is read is there, without a gap, and the program is not said to have written nonsense."""
    env = tracing.environment(build, tmp_path / "alone", SPOOR_UST_MODE="overwrite")
    p = subprocess.Popen([ticker, "2", "0"], env=env, stdout=subprocess.PIPE)
    try:
        assert p.stdout.readline() == b"ready\n"
        wait_for(lambda: "overwritten; 1 still running" in spoor("ust", "recover", "alone", "-o",
                                                                f"{time.monotonic()}.spoor").stdout)
        runs = [spoor("ust", "recover", "alone", "-o", f"{i}.spoor") for i in range(5)]
    finally:
        p.kill()
        p.wait()
    assert all(run.returncode == 0 and not run.stderr and "; 1 still running" in run.stdout for run in runs), runs
    there = 0
    for i in range(5):
        numbers = [[e["fields"]["n"] for e in events(f"{i}.spoor")[0]
                    if e["event"] == "zoo:tick" and e["fields"]["thread"] == thread] for thread in range(2)]
        assert all(in_a_row(n) for n in numbers if n)
        there += sum(map(len, numbers))
    assert there


def test_a_recovered_trace_ends_with_its_last_event(spoor, build, ticker, tmp_path, events):
    """And not when it was recovered, which may be days later."""
    out = tmp_path / "alone"
    p = subprocess.Popen([ticker, "1", "0", "1000"], env=tracing.environment(build, out), stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    time.sleep(0.2)
    p.kill()
    p.wait()
    time.sleep(1.5)
    assert spoor("ust", "recover", out, "-o", "t.spoor").returncode == 0
    stamps = [float(line.split("]")[0][1:]) for line in subprocess.run(
        ["babeltrace2", "--clock-seconds", tmp_path / "t.spoor"], capture_output=True, text=True, check=True)
        .stdout.splitlines()]
    last = max(float(e["ts"]) for e in events("t.spoor")[0])
    assert last == pytest.approx(stamps[-1], abs=1e-4)
    assert " ms.\n" in re.search(r"User events: .*\n", spoor("report", "t.spoor").stdout)[0]


@pytest.mark.parametrize("settings, word", [({"SPOOR_UST_MAX_SIZE": "4M"}, "lost"),
                                            ({"SPOOR_UST_MODE": "overwrite"}, "overwritten")])
def test_recovered_losses_are_told_alike(spoor, build, ticker, tmp_path, events, settings, word):
    """The line of `recover`, the report, its JSON and babeltrace2; and all of them are all that there was."""
    env = tracing.environment(build, tmp_path / "alone", SPOOR_UST_BUFFERS="256K", **settings)
    subprocess.run([ticker, "1", "300000"], env=env, check=True, stdout=subprocess.DEVNULL, timeout=60)
    run = spoor("ust", "recover", "-o", "t.spoor", "alone")
    there, n = map(int, re.match(rf"(\d+) events of 1 program in .* (\d+) {word}$", run.stdout.strip()).groups())
    found, summary = events("t.spoor")
    assert n and there == len(found) and there + n == 300000 + 30000
    assert (summary["discarded"], summary["overwritten"]) == ((n, 0) if word == "lost" else (0, n)), summary
    told = spoor("report", "t.spoor").stdout
    assert re.search(rf"^{word.title()}: {n:,} events", told, re.M)
    assert ("Lost: nothing" in told) == (word != "lost")
    run = subprocess.run(["babeltrace2", tmp_path / "t.spoor"], capture_output=True, text=True, timeout=60)
    assert (f"discarded {n} event" in run.stderr) == ("discarded" in run.stderr) == (word == "lost"), run.stderr[-500:]


def test_recover_takes_each_buffer_once(spoor, build, ticker, tmp_path):
    """However often it is named: by a shell's DIR/*, which has what was spilled, too, with its directory, or a copy."""
    env = tracing.environment(build, tmp_path / "alone", SPOOR_UST_BUFFERS="64K", SPOOR_UST_MODE="block=10s")
    subprocess.run([ticker, "1", "20000"], env=env, check=True, stdout=subprocess.DEVNULL, timeout=60)
    (arena,), (spill,) = (list((tmp_path / "alone").glob(f"*.{kind}")) for kind in ("arena", "spill"))
    copy = tmp_path / "copy.arena"
    copy.write_bytes(arena.read_bytes())
    for i, files in enumerate([[arena, spill], [spill], [arena.parent, arena], [arena, arena, copy]]):
        run = spoor("ust", "recover", "-o", f"{i}.spoor", *files)
        assert run.stdout == f"22000 events of 1 program in {i}.spoor\n", run
        assert not run.stderr or copy in files
    assert run.stderr == f"spoor ust: 1 file is left out: {copy}: another file has the same program's buffer, and " \
                         "was taken\n"


@pytest.mark.parametrize("order", [["cut", "alone"], ["alone", "cut"], ["cut", "shorter", "alone"]])
def test_recover_takes_the_whole_one_of_copies(spoor, build, ticker, tmp_path, order):
    """Not one that a copy which broke off has left, wherever that is named."""
    subprocess.run([ticker, "1", "5000"], env=tracing.environment(build, tmp_path / "alone"), check=True, timeout=60)
    arena, = (tmp_path / "alone").glob("*.arena")
    for name, size in ("cut", 65536), ("shorter", 4096):
        (tmp_path / name).mkdir()
        (tmp_path / name / arena.name).write_bytes(arena.read_bytes()[:size])
    run = spoor("ust", "recover", "-o", "t.spoor", *order)
    assert run.returncode == 0 and run.stdout == "5500 events of 1 program in t.spoor\n", run
    n = len(order) - 1
    assert f"spoor ust: {n} file{'s are' if n > 1 else ' is'} left out" in run.stderr and "is cut" not in run.stderr
    assert f"cut/{arena.name}: another file has the same program's buffer, and was taken" in run.stderr \
        or f"shorter/{arena.name}: another" in run.stderr, run


def test_recover_of_a_cut_file(spoor, build, ticker, tmp_path, events):
    """Wherever it is cut: every event that is there wholly, in order, and what is missing is told."""
    subprocess.run([ticker, "1", "5003"], env=tracing.environment(build, tmp_path / "alone"), check=True, timeout=60)
    arena, = (tmp_path / "alone").glob("*.arena")
    data, found = arena.read_bytes(), []
    headers, begin = struct.unpack_from("<QQ", data, HEADERS_OFFSET)
    first = begin + 65536 * next(i for i in range(64) if struct.unpack_from("<Q", data, headers + 128 * i + 16)[0])
    cuts = [4095, 4096, 4997, headers + 65, begin + 5, *range(first + 4096, first + 200000, 31001)]
    for i, at in enumerate(cuts):
        cut = tmp_path / f"{i}.arena"
        cut.write_bytes(data[:at])
        run = spoor("ust", "recover", "-o", f"{i}.spoor", cut)
        assert (run.returncode == 0) == (at >= 4096), run
        if run.returncode:
            continue
        assert f"1 file is cut: {len(data) - at} bytes are missing" in run.stderr
        shown, summary = events(tmp_path / f"{i}.spoor")
        numbers = [e["fields"]["n"] for e in shown if e["event"] == "zoo:tick"]
        assert numbers == list(range(len(numbers))) and summary["programs"][0]["state"] == "damaged"
        assert "made no sense" not in run.stderr
        found.append((at, len(numbers)))
    assert "'s buffer was cut when it was recovered" in spoor("report", tmp_path / f"{len(cuts) - 1}.spoor").stdout
    assert found == sorted(found) and len({n for _, n in found}) > 4 and found[-1][1] == 5003, found


def test_recover_of_containers(spoor, build, ticker, tmp_path, events):
    """Each program is 1 in its own: the trace has them as two. One that had the number before is none of them."""
    env = tracing.environment(build, tmp_path / "dir")

    def begin(*words):
        command = ["unshare", "--fork", "--pid", ticker, "2", *words]
        return ready(subprocess.Popen(command, env=env, stdout=subprocess.PIPE))
    assert begin("307").wait(30) == 0
    both = begin("2003", "100"), begin("2003", "100")
    assert [p.wait(30) for p in both] == [0, 0]
    run = spoor("ust", "recover", "dir", "-o", "t.spoor")
    assert run.returncode == 0 and " of 3 programs in " in run.stdout and "lost" not in run.stdout, run
    found, _ = events("t.spoor")
    written = {}
    for e in found:
        if e["event"] == "zoo:tick":
            written.setdefault((e["pid"], e["tid"], e["fields"]["thread"]), []).append(e["fields"]["n"])
    assert sorted({pid for pid, _, _ in written})[0] == 1 and len({pid for pid, _, _ in written}) == 2
    assert sorted(map(len, written.values())) == [2003, 2003, 2310, 2310], {k: len(v) for k, v in written.items()}


def test_recover_of_containers_whose_threads_have_one_number(spoor, build, ticker, tmp_path, events):
    """2 with a thread 3, and 3, at the same time: what each wrote is told of it."""
    env = tracing.environment(build, tmp_path / "dir")
    both = [subprocess.Popen(["unshare", "--fork", "--pid", "sh", "-c", f"{line} {ticker} 2 3009 1000; :"], env=env,
                             stdout=subprocess.PIPE) for line in ("TICKER_FIRST=0", "/bin/true; TICKER_FIRST=2")]
    assert [p.wait(30) for p in both] == [0, 0]
    run = spoor("ust", "recover", "dir", "-o", "t.spoor")
    assert run.returncode == 0 and " of 2 programs in " in run.stdout, run
    written = {}
    for e in events("t.spoor")[0]:
        if e["event"] == "zoo:tick":
            written.setdefault((e["pid"], e["tid"], e["fields"]["thread"]), []).append(e["fields"]["n"])
    assert sorted((pid, thread) for pid, _, thread in written) == [(2, 0), (2, 1), (3, 2), (3, 3)]
    assert len({tid for _, tid, _ in written}) == 4 and {len(n) for n in written.values()} == {3009}


def test_report_of_buffers_says_what_to_do(spoor, build, ticker, tmp_path):
    subprocess.run([ticker, "1", "11"], env=tracing.environment(build, tmp_path / "alone"), check=True, timeout=60)
    arena, = (tmp_path / "alone").glob("*.arena")
    for path, what in (tmp_path / "alone", "buffers of programs (*.arena)"), (arena, "a buffer of a program"):
        run = spoor("report", path)
        assert run.returncode == 1 and run.stderr == f"spoor report: {path}: not a trace, but {what}: " \
            f"`spoor ust recover -o NAME.spoor {path}` makes one\n"


def test_recover_refuses(spoor, tmp_path):
    run = spoor("ust", "recover", tmp_path)
    assert run.returncode == 1 and "*.arena" in run.stderr
    (tmp_path / "x.arena").write_bytes(b"no arena" * 1000)
    run = spoor("ust", "recover", tmp_path)
    assert run.returncode == 1 and "no buffer" in run.stderr
    run = spoor("ust", "recover", tmp_path / "nothing")
    assert run.returncode == 1


def test_record_with_ust(spoor, ticker, events, tmp_path):
    """System calls and events of one run in one trace, by one clock: what lies between two calls is there."""
    run = spoor("record", "--ust", "-o", "t.spoor", "-e", "nanosleep,clock_nanosleep,getppid", "--", ticker, 1, 101,
                100)
    assert run.returncode == 0, run.stderr
    found, _ = events("t.spoor")
    order = [e["event"] for e in found if e["event"] in ("zoo:tick", "clock_nanosleep")]
    # a call's stamp is its end: tick, sleep, tick, sleep ...
    assert order == ["zoo:tick", "clock_nanosleep"] * 101
    babel = subprocess.run(["babeltrace2", tmp_path / "t.spoor"], capture_output=True, text=True, check=True).stdout
    assert re.findall(r" \S*(zoo:tick|clock_nanosleep): ", babel) == order
    run = spoor("record", "--ust", "-a", "-o", "u.spoor")
    assert run.returncode == 2 and "--ust" in run.stderr


HEIRS = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <spoor/tracepoint.h>
SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int n), TP_ARGS(n), TP_FIELDS(spoor_int(int, n, n)))
static void calls(void)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	for (;; usleep(1000))
		for (int i = 0; i < 80; i++)
			syscall(SYS_getppid);
}
int main(int argc, char **argv)
{
	pid_t stops = fork(), busy;
	if (!stops) {
		if (argc > 1)
			spoor_trace(zoo, tick, *argv[1]);
		raise(SIGSTOP);
		pause();
	}
	waitpid(stops, NULL, WUNTRACED);
	busy = fork();
	if (!busy)
		calls();
	printf("%d %d\n", stops, busy);
	return 0;
}
"""


@pytest.mark.parametrize("word", [[], ["speaks"]])
def test_heirs_that_keep_the_recorder_waiting(spoor, tmp_path, events, word):
    """While one is waited for that does not answer the calls of others find room."""
    (tmp_path / "heirs.c").write_text(HEIRS)
    heirs = tracing.build_program(tmp_path / "heirs", tmp_path / "heirs.c")
    run = spoor("record", "--ust", "--buffers", "512k", "-e", "getppid", "-o", "t.spoor", "--",
                "sh", "-c", '"$@" >pids 2>&1', "sh", heirs, *word)
    for pid in (tmp_path / "pids").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    assert run.returncode == 0, run.stderr
    found, summary = events("t.spoor")
    names = Counter(e["event"] for e in found)
    assert names["zoo:tick"] == len(word) and names["getppid"] and not summary["discarded"], (names, summary)


def test_run_that_asks_for_no_event(spoor, ticker):
    """The program is not wanted, and need not come: that it has no tracepoints is not the only reason."""
    run = spoor("ust", "run", "-o", "t.spoor", "-e", "!*", "--", ticker, "1", "3")
    assert run.returncode == 0 and "no event came" in run.stderr and "and was any asked for?" in run.stderr, run


def test_record_with_ust_says_what_run_does(spoor, ticker):
    """How programs ended, and that there is nothing of them."""
    command = f"{ticker} 1 0 100 > out & until grep -q ready out; do sleep 0.1; done; kill -9 $!; wait"
    run = spoor("record", "--ust", "-o", "t.spoor", "-e", "getppid", "--", "sh", "-c", command)
    assert "spoor: 1 of them ended by a crash" in run.stderr and "no event came" not in run.stderr, run.stderr
    run = spoor("record", "--ust", "-o", "u.spoor", "-e", "getppid", "--", "true")
    assert run.returncode == 0 and "spoor: no event came: has the command tracepoints" in run.stderr, run.stderr


def test_list_agrees_with_readelf(spoor):
    """SDT probes of unmodified Debian files: provider, name, arguments and address as readelf has them."""
    for path in PYTHON, "/usr/lib/x86_64-linux-gnu/libstdc++.so.6":
        text = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True, check=True).stdout
        expected = re.findall(r"Provider: (\S+)\s+Name: (\S+)\s+Location: (\S+), Base: \S+, Semaphore: \S+\s+"
                              r"Arguments: (.*)", text)
        assert len(expected) > 2
        run = spoor("ust", "list", "--format", "json", path)
        listed = [json.loads(line) for line in run.stdout.splitlines()]
        got = [(*s["event"].split(":", 1), int(s["address"], 16), s["fields"]) for s in listed if s["kind"] == "sdt"]
        assert sorted(got) == sorted((p, n, int(at, 16), args.strip()) for p, n, at, args in expected)


def sites_of_one_description(path, n, size):
    """A file whose n sites have one tracepoint's description of so many bytes."""
    base, note, entries = 0x400000, 64 + 2 * 56, 64 + 2 * 56 + 36
    text = entries + 24 * n
    out = bytearray(text + size)
    struct.pack_into("<16sHHIQQQIHHHHHH", out, 0, b"\x7fELF\2\1\1", 2, 62, 1, base, 64, 0, 0, 64, 56, 2, 64, 0, 0)
    struct.pack_into("<IIQQQQQQ", out, 64, 1, 5, 0, base, base, len(out), len(out), 4096)
    struct.pack_into("<IIQQQQQQ", out, 120, 4, 4, note, base + note, base + note, 36, 36, 4)
    struct.pack_into("<III8siiii", out, note, 6, 16, 1, b"Spoor", 1, entries - note - 24, text - note - 28, 0)
    for at in range(entries, text, 24):
        struct.pack_into("<iiiiII", out, at, 4, 4, text - at - 8, 4, 1, 0)
    struct.pack_into("<IHHBBHI8s", out, text, size, 8, 0, 0, 13, 0, 0, b"p\0n\0")
    path.write_bytes(out)
    return path


def test_list_of_a_file_that_is_much_to_read(spoor, tmp_path):
    """It is given up, before that takes minutes."""
    run = spoor("ust", "list", sites_of_one_description(tmp_path / "some", 1009, 1 << 20))
    assert run.returncode == 0 and run.stdout.count("p:n ") == 1009
    run = spoor("ust", "list", sites_of_one_description(tmp_path / "much", 5003, 1 << 20))
    assert run.returncode == 1 and "make no sense" in run.stderr


def test_list_of_file(spoor, ticker):
    run = spoor("ust", "list", ticker)
    lines = sorted(run.stdout.splitlines())
    assert len(lines) == 2
    where = r" \S+ust_ticker\.c:\d+ \S+/ticker\+0x"
    assert re.match(r"zoo:rare tracepoint patched debug \(u64 n, string what\)" + where, lines[0])
    assert re.match(r"zoo:tick tracepoint patched info \(s32 thread, u64 n\)" + where, lines[1])
    run = spoor("ust", "list", __file__)
    assert run.returncode == 1 and "x86-64" in run.stderr
    run = spoor("ust", "list", "/usr/bin/true")
    assert run.returncode == 0 and "no tracepoints" in run.stderr
    assert spoor("ust", "list", "999999999").returncode == 1


def test_list_of_what_is_not_linked(spoor, tmp_path):
    """Nor does it say that there are none."""
    objects = [tracing.build_program(tmp_path / f"{i}.o", "ust_ticker.c", "-c") for i in "ab"]
    subprocess.run(["ld", "-r", "-o", tmp_path / "both.o", objects[0]], check=True)
    subprocess.run(["ar", "rcs", tmp_path / "both.a", *objects], check=True)
    for name, says in ("a.o", "not linked"), ("both.o", "not linked"), ("both.a", "no program or library"):
        run = spoor("ust", "list", tmp_path / name)
        assert run.returncode == 1 and not run.stdout and f"{name}: " in run.stderr and says in run.stderr


def test_container(spoor, ticker, events, tmp_path):
    """Another pid and mount namespace: threads under the host's numbers."""
    run = spoor("ust", "run", "-o", "t.spoor", "--", "unshare", "--fork", "--pid", "--mount-proc", ticker, 2, 307, 100)
    assert run.returncode == 0, run.stderr
    found, _ = events("t.spoor")
    count = ticks(found)
    assert sorted(count.values()) == [307, 307]
    assert len({pid for pid, _ in count}) == 1 and min(pid for pid, _ in count) > 2
    tids = {e["tid"] for e in found if e["event"] == "zoo:tick"}
    assert len(tids) == 2 and min(tids) > 2


def test_container_without_socket(spoor, ticker):
    """It fails with a message, never with a silent empty trace."""
    run = spoor("ust", "run", "-o", "t.spoor", "--", "unshare", "--mount", "sh", "-c",
                f"cp {ticker} /var/tmp/t; mount -t tmpfs none /tmp && /var/tmp/t 1 10; rm /var/tmp/t")
    assert run.returncode == 0 and "no event came" in run.stderr and "container" in run.stderr


@pytest.mark.parametrize("expression, expected", [
    ("thread == 1", {1: 300}), ("n < 50", {0: 50, 1: 50}), ("thread == 0 && n >= 0x100", {0: 44}),
    ("!(n > 9) || n == 299", {0: 11, 1: 11}), ("n != 7", {0: 299, 1: 299}), ("thread > -1 && n <= 9.5", {0: 10, 1: 10}),
    ("nothing == 1", {}), ('n == "7"', {})])
def test_filter(spoor, ticker, events, expression, expected):
    run = spoor("ust", "run", "-e", "zoo:tick", "--filter", expression, "-o", "t.spoor", "--", ticker, 2, 300)
    assert run.returncode == 0, run.stderr
    assert {thread: n for (_, thread), n in ticks(events("t.spoor")[0]).items()} == expected
    assert " 0 lost" in run.stderr


def test_filter_of_text(spoor, ticker, events):
    spoor("ust", "run", "-e", "zoo:tick", "--filter", 'what == "one of *" && n < 100', "-o", "t.spoor", "--", ticker, 1,
          300)
    assert not ticks(events("t.spoor")[0])
    spoor("ust", "run", "--filter", 'what == "one of *" && n < 100', "-o", "u.spoor", "--", ticker, 1, 300)
    assert Counter(e["event"] for e in events("u.spoor")[0]) == {"zoo:rare": 10}


@pytest.mark.parametrize("expression", ["", "n ==", "n = 3", "(n == 3", "n == 3)", 'n == "x', "n == 3x",
                                        "(" * 40 + "n==1", " || ".join(["n == 1"] * 40)])
def test_wrong_filter(spoor, ticker, expression):
    run = spoor("ust", "run", "--filter", expression or " ", "-o", "t.spoor", "--", ticker)
    assert run.returncode == 2 and "--filter" in run.stderr and run.stdout == ""
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.parametrize("words, says", [
    (["--buffers", "300M", "--packet", "4k"], "more than 65536 packets"),
    (["--buffers", "64k", "--packet", "1M"], "channel default: its share of the buffers is less than two packets"),
    (["--buffers", "64k", "--channel", "most:share=1000", "--channel", "rest"], "channel rest: its share")])
def test_packets_that_no_program_can_have(spoor, ticker, words, says):
    """Refused where they are typed: programs would not be recorded, nor could one say what is wrong."""
    run = spoor("ust", "run", *words, "-o", "t.spoor", "--", ticker, 1, 10)
    assert run.returncode == 2 and says in run.stderr and run.stdout == "", run


def test_full_disk(spoor, ticker, tmp_path, events):
    """What was written stays readable, the program goes on and is not slowed, and it is said."""
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3M", "none", small], check=True)
    try:
        run = spoor("ust", "run", "-o", small / "t.spoor", "--", ticker, 2, 300000, 0)
        assert run.stdout == "ready\n" and run.returncode == 125
        assert "No space left" in run.stderr and "lost" in run.stderr
        report = spoor("report", "--format", "json", small / "t.spoor")
        assert report.returncode == 0 and report.stdout.count("zoo:tick") > 10000
        there = report.stdout.count('"event":"zoo:')
        assert f"spoor: {there} events of 1 program, " in run.stderr  # and not those that are lost
    finally:
        subprocess.run(["umount", small], check=True)


def test_descriptors_closed(spoor, tmp_path, events):
    """A program that closes what it does not know, as daemons do, is recorded on, and no file gets what is not its."""
    source = tmp_path / "closer.c"
    source.write_text("""
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "spoor/tracepoint.h"
SPOOR_TRACEPOINT(zoo, tick, TP_PROTO(int thread, int n), TP_ARGS(thread, n),
		 TP_FIELDS(spoor_int(int, thread, thread), spoor_int(int, n, n)))
int main(void)
{
	for (int n = 0; n < 300; n++) {
		if (n == 100) {
			closefrom(3);
			for (int i = 0; i < 1000; i++)
				open("mine", O_RDWR | O_CREAT, 0600);
		}
		if (n == 200 && fork())
			_exit(0); /* the child goes on, as with daemon() */
		spoor_trace(zoo, tick, 0, n);
		usleep(3000);
	}
	mkdir("over", 0700); /* that takes no descriptor */
}
""")
    tracing.build_program(tmp_path / "closer", source)
    run = spoor("ust", "run", "-o", "t.spoor", "--", "sh", "-c",
                f"{tmp_path}/closer; until [ -e over ]; do sleep 0.1; done")
    assert run.returncode == 0, run.stderr
    found = [e["fields"]["n"] for e in events("t.spoor")[0] if e["event"] == "zoo:tick"]
    assert found == list(range(300))
    assert (tmp_path / "mine").stat().st_size == 0


def test_a_million_a_second(spoor, tmp_path):
    """It keeps up, also on a busy machine. (That default buffers do is the benchmark's to show.)"""
    steady = tracing.build_program(tmp_path / "steady", "ust_clock.c")
    run = spoor("ust", "run", "--buffers", "32M", "-o", "t.spoor", "--", steady, 1999999, 0, 1000)
    assert "2000000 events of 1 program, 0 lost" in run.stderr
