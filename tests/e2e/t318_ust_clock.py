# SPDX-License-Identifier: GPL-2.0-or-later
"""Stamps against the kernel's clock, which the program reads around each event: by the TSC, and where it is not fit."""
import json
import subprocess

import arenas
import pytest
import tracing

EVENTS = 10000
TSC, MONOTONIC = 1, 2


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return tracing.build_program(tmp_path_factory.mktemp("clock") / "clock", "ust_clock.c")


def outside(stamps):
    """By how many ns each (stamp, before, after of the last event) lies outside of what the program read around it."""
    around = [(ts, before, following[2]) for (ts, before, _), following in zip(stamps, stamps[1:])]
    assert len(around) == EVENTS
    return [max(before - ts, ts - after, 0) for ts, before, after in around]


def recorded(spoor, trace):
    epoch = json.loads((trace / "manifest").read_text())["epoch_offset"]
    run = spoor("report", "--format", "json", trace)
    assert run.returncode == 0, run.stderr
    for e in map(json.loads, run.stdout.splitlines()):
        if e.get("event") == "zoo:clock":
            seconds, ns = e["ts"].split(".")
            yield int(seconds) * 10**9 + int(ns) - epoch, e["fields"]["before"], e["fields"]["last_after"]


@pytest.mark.parametrize("clock, most, options", [
    ("", 1000, []), ("", 1000, ["--filter", "before > 0"]), ("monotonic", 0, []),
    ("monotonic", 0, ["--context", "vpid,cpu"]), ("monotonic", 0, ["--filter", "before > 0"])], ids=str)
def test_recorded(spoor, program, tmp_path, monkeypatch, clock, most, options):
    """With the TSC no more than 1 us off; CLOCK_MONOTONIC itself is exact."""
    monkeypatch.setenv("SPOOR_UST_CLOCK", clock)
    run = spoor("ust", "run", *options, "-o", "t.spoor", "--", program, EVENTS, 50)
    assert run.returncode == 0, run.stderr
    off = outside(list(recorded(spoor, tmp_path / "t.spoor")))
    assert max(off) <= most, sorted(off)[-10:]


@pytest.mark.parametrize("clock, kind, most", [("", TSC, 1000), ("monotonic", MONOTONIC, 0)])
def test_alone(spoor, build, program, tmp_path, clock, kind, most):
    run, (arena,) = tracing.traced(build, tmp_path / "out", program, EVENTS, 0, SPOOR_UST_CLOCK=clock)
    assert run.returncode == 0 and arena.clock == kind
    if kind == MONOTONIC:
        assert not any(outside([(e.ts, e.values["before"], e.values["last_after"]) for e in arena.events]))
    assert spoor("ust", "recover", "-o", tmp_path / "t.spoor", tmp_path / "out").returncode == 0
    assert max(outside(list(recorded(spoor, tmp_path / "t.spoor")))) <= most


def test_unfit_tsc(program, build, tmp_path):
    """Where the kernel has given up the TSC as its clock source: a file of ours stands where it says so."""
    source = tmp_path / "clocksource"
    source.write_text("hpet\n")
    place = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    script = f'mount --bind {source} {place} && exec "$@"'
    run = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", program, "1000"],
                         env=tracing.environment(build, tmp_path / "out"), capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    trace = [t for t in arenas.arenas(tmp_path / "out") if t.events]
    assert [t.clock for t in trace] == [MONOTONIC] and len(trace[0].events) == 1001
