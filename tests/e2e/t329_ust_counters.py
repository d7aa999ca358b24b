# SPDX-License-Identifier: GPL-2.0-or-later
"""Contexts of the kernel's and the processor's counters."""
import json
import os

import tracing


def test_counters_as_getrusage_says(spoor, tmp_path):
    """Page faults and context switches of each thread, since its first event; and no descriptor stays behind."""
    program = tracing.build_program(tmp_path / "perf", "ust_perf.c")
    run = spoor("ust", "run", "--context", "perf:page-faults,perf:context-switches,perf:task-clock", "-o", "t.spoor",
                "--", program)
    assert run.returncode == 0, run.stderr
    *lines, left = run.stdout.splitlines()
    assert left == "left 3" # of the thread that runs
    report = spoor("report", "--format", "json", "t.spoor").stdout.splitlines()[:-1]
    contexts = {e["fields"]["n"]: e["context"] for e in map(json.loads, report)}
    assert sum(n >= 1000 for n in contexts) == 2003
    said = {n: numbers for n, *numbers in (map(int, line.split()) for line in lines)}
    for first in (0, 100):
        base = contexts[first]
        for n in range(first + 1, first + 6):
            for name, i in (("perf_page_faults", 0), ("perf_context_switches", 1)):
                grown = contexts[n][name] - base[name]
                least, most = said[n][i] - said[first][i + 2], said[n][i + 2] - said[first][i]
                assert least <= grown <= most, (n, name, grown, least, most)
            assert contexts[n]["perf_task_clock"] > contexts[n - 1]["perf_task_clock"]
        assert contexts[first + 5]["perf_page_faults"] - base["perf_page_faults"] >= 15 * 257
        assert contexts[first + 5]["perf_context_switches"] - base["perf_context_switches"] >= 30


def test_counters_that_are_not_there(spoor, tmp_path):
    """Said once, and 0 then. A name that is none is a mistake."""
    program = tracing.build_program(tmp_path / "perf", "ust_perf.c")
    has_pmu = os.path.isdir("/sys/bus/event_source/devices/cpu")
    run = spoor("ust", "run", "--context", "perf:cycles", "-o", "t.spoor", "--", program)
    assert run.returncode == 0 and run.stderr.count("perf:cycles stays 0") == (not has_pmu), run.stderr
    report = spoor("report", "--format", "json", "t.spoor").stdout.splitlines()[:-1]
    assert all((json.loads(line)["context"]["perf_cycles"] > 0) == has_pmu for line in report)
    run = spoor("ust", "run", "--context", "perf:beauty", "-o", "u.spoor", "--", program)
    assert run.returncode == 2 and "perf:page-faults" in run.stderr
