# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that carry tracepoints: built in many ways, run with the library in many ways."""
import os
import subprocess
from collections import Counter
from pathlib import Path

import arenas

DATA = Path(__file__).resolve().parent.parent / "data"
INCLUDE = DATA.parent.parent / "include"


def build_program(out, source, *flags, compiler="gcc"):
    """compiler may hold flags: "g++ -std=c++11". The language is the compiler's, whatever the source's name."""
    command = compiler.split()
    language = "c++" if "++" in command[0] else "c"
    command += ["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{INCLUDE}", "-x", language, DATA / source,
                "-x", "none", "-o", out, *flags]
    subprocess.run([str(c) for c in command], check=True, timeout=120)
    return out


def agent(build):
    return build / "src/agent/libspoor-ust.so.0"


def environment(build, out, preload=True, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("SPOOR_UST")}
    if preload:
        env["LD_PRELOAD"] = str(agent(build))
    if out:
        Path(out).mkdir(exist_ok=True)
        env["SPOOR_UST_OUTPUT"] = str(out)
    return env | {k: str(v) for k, v in more.items()}


def promised(stdout):
    """What a program says that it recorded: [(event, range)]."""
    lines = [line.split() for line in stdout.splitlines() if line.startswith("recorded ")]
    return [(event, range(int(first), int(end))) for _, event, first, end in lines]


def check_promises(stdout, traces, again=0, lost=0):
    """Each promised number is there, but `lost`; at most `again` twice: begun, recorded, interrupted, begun again."""
    promises = promised(stdout)
    assert promises
    for event, numbers in promises:
        seen = Counter(e.values["n"] for t in traces for e in t.events if e.name == event)
        missing = [n for n in numbers if n not in seen]
        lost -= len(missing)
        assert lost >= 0, (event, len(missing), missing[:10])
        assert sum(max(seen[n] - 1, 0) for n in numbers) <= again, event
        known = [r for name, r in promises if name == event]
        extra = [n for n in seen if not any(n in r for r in known)]
        assert len(extra) <= again, (event, extra[:10])
    assert not lost


def traced(build, out, program, *args, preload=True, timeout=100, **env):
    """Runs it to its end: (CompletedProcess, [Arena])."""
    run = subprocess.run([str(program), *map(str, args)], env=environment(build, out, preload, **env),
                         capture_output=True, text=True, timeout=timeout)
    return run, arenas.arenas(out)


STARTS = 61
BARE_START = 0.0005  # seconds of CPU, of the least of them, where the bar of a millisecond was set


def start_cost(command, env):
    """Of a ticker: how often it waited until it was in main(), seconds of CPU until then, and to its end."""
    p = subprocess.Popen(command, env=env | {"TICKER_TELLS": "1"}, stdout=subprocess.PIPE, text=True)
    with p.stdout:
        costs, ready = p.stdout.read().splitlines()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    assert p.returncode == 0 and ready == "ready"
    cpu, waits = map(int, costs.split())
    return waits, cpu / 1e9, usage.ru_utime + usage.ru_stime


def check_start_up(ticker, bare, others):
    """Start-up costs a millisecond at most, the end included, and waits for nobody: the least of many runs, in turns
    with those of the program alone, which also tell how slow the machine is. CPU and waits are counted, for to the time
    that passes everything adds that the machine does besides. others: {what: environment}."""
    least = dict.fromkeys([None, *others], (float("inf"),) * 3)
    for _ in range(STARTS):
        for what in least:
            least[what] = tuple(map(min, least[what], start_cost([ticker, "1", "1"], others.get(what, bare))))
    waits, start, whole = least[None]
    bar = 0.001 * max(1, start / BARE_START)
    for what in others:
        mine = least[what]
        assert mine[0] <= waits and mine[1] - start < bar and mine[2] - whole < bar, (what, least)
