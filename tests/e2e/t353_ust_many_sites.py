# SPDX-License-Identifier: GPL-2.0-or-later
"""What switching a thousand sites asks of the kernel: a page's at once while a program has one thread, each by itself
when it has more."""
import re
import subprocess

import arenas
import pytest
import tracing
from denials import by_prctl

PAGE = 4096
SITES = 1000
ON = 0xe9


def written(build, tmp_path, *args, deny=None, preload=True):
    """What the library wrote into the program's code: [(address, bytes)]; and the events."""
    log, out = tmp_path / "log", tmp_path / "out"
    env = tracing.environment(build, out, preload)
    library = env.pop("LD_PRELOAD", None)
    tracer = ["strace", "-f", "-qq", "-xx", "-s", str(PAGE), "-e", "trace=pwrite64", "-o", log]
    run = subprocess.run([*tracer, *(["-E", f"LD_PRELOAD={library}"] if library else []), *map(str, args)],
                         env=env, timeout=60, preexec_fn=deny)
    assert run.returncode == 0
    calls = re.findall(r'pwrite64\(\d+, "((?:\\x..)*)", (\d+), (\d+)\) = (\d+)', log.read_text())
    assert all(size == done for _, size, _, done in calls)
    writes = [(int(at), bytes.fromhex(text.replace("\\x", ""))) for text, _, at, _ in calls]
    return [w for w in writes if ON in w[1]], arenas.arena(out).events


def check_events(events, *names):
    for name in names:
        assert [e.values["n"] for e in events if e.name == name] == list(range(SITES))


def check_together(writes, objects=1):
    assert all(at % PAGE + len(b) <= PAGE for at, b in writes)  # what has no site is not copied
    assert not any(0xcc in b for _, b in writes)
    pages = {at // PAGE for at, _ in writes}
    assert SITES * objects < sum(map(len, (b for _, b in writes)))
    # Some bytes of other instructions look as breakpoints do, too.
    assert len(writes) < 3 * len(pages) + 12 * objects < SITES / 3 * objects


@pytest.fixture
def program(tmp_path):
    return tracing.build_program(tmp_path / "many", "ust_many.c", "-ldl")


@pytest.fixture
def loaded(tmp_path):
    return tracing.build_program(tmp_path / "many.so", "ust_many.c", "-DOBJECT", "-shared", "-fPIC")


@pytest.mark.parametrize("deny", [None, by_prctl], ids=["plain", "denied"])
def test_when_the_program_begins(build, tmp_path, program, deny):
    writes, events = written(build, tmp_path, program, deny=deny)
    check_together(writes)
    check_events(events, "many:linked")


def test_when_it_is_linked_statically(build, tmp_path):
    archive = ["-static", "-Wl,--whole-archive", build / "src/agent/libspoor-ust.a", "-Wl,--no-whole-archive",
               "-lurcu-bp"]
    program = tracing.build_program(tmp_path / "many", "ust_many.c", *archive)
    writes, events = written(build, tmp_path, program, preload=False)
    check_together(writes)
    check_events(events, "many:linked")


def test_of_an_object_that_is_loaded(build, tmp_path, program, loaded):
    writes, events = written(build, tmp_path, program, loaded)
    check_together(writes, 2)
    check_events(events, "many:linked", "many:loaded")


def test_each_by_itself_while_there_are_threads(build, tmp_path, program, loaded):
    writes, events = written(build, tmp_path, program, "thread", loaded)
    alone = [b for _, b in writes if len(b) == 1]
    assert SITES <= len(alone) < SITES + 50
    check_together([w for w in writes if len(w[1]) > 1])
    check_events(events, "many:linked", "many:loaded")


def test_forked_while_they_are_switched(spoor, tmp_path, program, loaded):
    """What the thread that switched them had left to do its child, which has no such thread, does itself."""
    run = spoor("ust", "run", "-o", "t.spoor", "--", program, "forks", loaded)
    assert run.returncode == 0 and "wholly" not in run.stderr, run.stderr
    assert re.match(r"spoor: 50 events of 5\d programs, 0 lost; ", run.stderr), run.stderr
