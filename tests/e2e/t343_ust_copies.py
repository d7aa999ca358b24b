# SPDX-License-Identifier: GPL-2.0-or-later
"""Several copies of the library in one process, preloaded and linked in: every event is there exactly once."""
import json
import subprocess
from collections import Counter

import pytest
import tracing
from daemons import daemon  # noqa: F401
from userwalks import static

ROUNDS = 7


@pytest.fixture(scope="module")
def programs(build, tmp_path_factory):
    """`host`, that loads and unloads `one.so` and `two.so`; `linked` has them from its begin; the rest has a copy."""
    out = tmp_path_factory.mktemp("copies")
    for name in ("one.so", "two.so"):
        tracing.build_program(out / name, "ust_plugin.c", "-shared", "-fPIC", *static(build))
    tracing.build_program(out / "host", "ust_host.c")
    tracing.build_program(out / "linked", "ust_host.c", "-Wl,--no-as-needed", out / "one.so", out / "two.so")
    tracing.build_program(out / "host_too", "ust_host.c", *static(build))
    tracing.build_program(out / "exported", "ust_host.c", "-rdynamic", *static(build))
    for name in ("ticker", "probes", "sharing"):
        tracing.build_program(out / name, f"ust_{name}.c", *static(build))
    return out


@pytest.fixture
def recorded(spoor, build, tmp_path, request):
    """recorded("run", PROGRAM...) -> Counter of (event, n), of one program."""
    def read(path):
        shown = spoor("report", "--format", "json", path)
        *events, summary = [json.loads(line) for line in shown.stdout.splitlines()]
        assert shown.returncode == 0 and len(summary["programs"]) == 1 and not summary["damages"], shown.stderr
        return Counter((e["event"], e["fields"]["n"]) for e in events)

    def go(how, *command):
        command, path = list(map(str, command)), tmp_path / "t.spoor"
        if how == "run":
            run = spoor("ust", "run", "-o", path, "--", *command)
        elif how == "daemon":
            daemon = request.getfixturevalue("daemon")
            daemon.ust("start", "-o", path)
            run = subprocess.run(command, env=daemon.environment(), capture_output=True, text=True, timeout=100)
            daemon.ust("end")
        else:
            env = tracing.environment(build, tmp_path / "out", preload=how == "preloaded")
            run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100)
            assert spoor("ust", "recover", "-o", path, tmp_path / "out").returncode == 0
        assert run.returncode == 0, run.stderr
        return read(path)
    return go


WAYS = ["run", "daemon", "preloaded", "alone"]


@pytest.mark.parametrize("how", WAYS)
def test_program_with_a_copy(programs, recorded, how):
    events = recorded(how, programs / "ticker", 3, 1009)
    assert {n: c for (event, n), c in events.items() if event == "zoo:tick"} == dict.fromkeys(range(1009), 3)


@pytest.mark.parametrize("host, how", [("host", "run"), ("host", "alone"), ("linked", "daemon"), ("linked", "alone"),
                                       ("host_too", "alone"), ("exported", "preloaded")])
def test_libraries_with_copies(programs, recorded, host, how):
    """Who serves the others' sites stays although it is closed; it alone sees one constructor and destructor."""
    events = recorded(how, programs / host, ROUNDS, programs / "one.so", programs / "two.so")
    work = {n: c for (event, n), c in events.items() if event == "plugin:work"}
    begun, ended = work.pop(-1), work.pop(-2)
    late = how == "alone" and host == "host"
    assert work == dict.fromkeys(range(ROUNDS), 2)
    assert begun == ended == (2 if host == "linked" else ROUNDS + 1 if late else 2 * ROUNDS)
    assert {n: c for (event, n), c in events.items() if "plugin_mark" in event} == dict.fromkeys(range(ROUNDS), 2)
    assert {n: c for (event, n), c in events.items() if event == "host:round"} == dict.fromkeys(
        range(late, ROUNDS), 1)  # before the first library that has a copy nobody is there


def test_what_a_program_calls_reaches_the_one_that_serves(spoor, build, programs, tmp_path):
    """Probes, and threads that share their storage."""
    env = tracing.environment(build, None)
    run = subprocess.run([programs / "probes", "5"], env=env, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0 and int(run.stdout.split()[1]) >= 5 * 6
    assert spoor("ust", "run", "--buffers", "64M", "-o", "t.spoor", "--", programs / "sharing", 1).returncode == 0
    found = spoor("report", "t.spoor").stdout
    assert "600,018" in found and "Lost: nothing" in found, found


def test_list_asks_the_one_that_serves(spoor, daemon, programs):  # noqa: F811
    daemon.ust("start", "-o", "t.spoor", "--channel", "wide")
    p = daemon.program(programs / "ticker", 1, 0, 999)
    shown = spoor("ust", "list", "--format", "json", p.pid)
    sites = [json.loads(line) for line in shown.stdout.splitlines()]
    ticks = [s for s in sites if s["event"] == "zoo:tick"]
    assert shown.returncode == 0 and ticks, shown.stderr
    assert all(s["state"] == "on" and s["how"] != "absent" and "wide" in json.dumps(s) for s in ticks), ticks
