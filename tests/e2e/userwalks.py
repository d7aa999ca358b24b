# SPDX-License-Identifier: GPL-2.0-or-later
"""tests/data/ust_walks.cc built in many ways, run, and what it and Spoor say of its call stacks."""
import json

import pytest

import tracing


def static(build, *flags):
    """Flags that link the library into the program."""
    return [*flags, "-Wl,--whole-archive", str(build / "src/agent/libspoor-ust.a"), "-Wl,--no-whole-archive",
            "-lurcu-bp", "-ldl"]


WAYS = {"default": [], "O0": ["-O0"], "O3": ["-O3"], "no-pie": ["-fno-pie", "-no-pie"],
        "frame-pointers": ["-fno-omit-frame-pointer"], "static": ["-static"], "static-pie": ["-static-pie"]}


@pytest.fixture(scope="session")
def walks(build, tmp_path_factory):
    """walks(way) -> the program, built so. Without frame pointers but where the way says otherwise."""
    out, made = tmp_path_factory.mktemp("walks"), {}
    tracing.build_program(out / "one.so", "ust_chain_plugin.c", "-fomit-frame-pointer", "-fno-optimize-sibling-calls",
                          "-DNAME=one", "-shared", "-fPIC")

    def get(way, compiler="g++"):
        if (way, compiler) not in made:
            flags = WAYS[way]
            if way.startswith("static"):
                flags = static(build, *flags)
            made[way, compiler] = tracing.build_program(out / f"{way}-{compiler}", "ust_walks.cc",
                                                        "-fomit-frame-pointer", *flags, compiler=compiler)
        return made[way, compiler]
    return get


def told(stdout):
    """What backtrace() said at each place: {n: [(object, offset)]}."""
    places = {}
    for line in stdout.splitlines():
        if line.startswith("at "):
            n, frames = line[3:].split(":", 1)
            assert int(n) not in places
            places[int(n)] = [tuple(f.rsplit("+", 1)) for f in frames.split()]
    return places


def events_of(spoor):
    """In t.spoor, those of programs."""
    lines = spoor("report", "--format", "json", "t.spoor").stdout.splitlines()[:-1]
    return [e for e in map(json.loads, lines) if e["event"] in ("walks:at", "marker:walks_mark", "jit:called")]


def run_walks(spoor, program, *options, plugin=True):
    arguments = [program.parent / "one.so"] if plugin else []
    run = spoor("ust", "run", *options, "-o", "t.spoor", "--", program, *arguments)
    assert run.returncode == 0 and run.stdout.endswith("done\n"), run.stderr
    return told(run.stdout), events_of(spoor)


def frames(event):
    return [(f["object"], f["offset"]) for f in event["stack"] if not f.get("inlined")]
