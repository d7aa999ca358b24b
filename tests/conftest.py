# SPDX-License-Identifier: GPL-2.0-or-later
"""What every Python test can ask for. tests/run sets SPOOR_BUILD; run by hand, it is ./build."""
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import counting
import walks
from processes import wait_for
from recordings import Counting, Recording, Trace

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("SPOOR_BUILD", ROOT / "build"))
DATA = ROOT / "tests/data"
CGROUPS = next((Path(line.split()[1]) for line in Path("/proc/mounts").read_text().splitlines()
                if line.split()[2] == "cgroup2"), None)
sys.dont_write_bytecode = True
# Some tests have hundreds of connections; Debian gives a login 1,024 descriptors, and more to who asks.
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 20000) if most > 0 else 20000, most))


def pytest_terminal_summary(terminalreporter):
    """How the walks went, which a test that passes does not get to show."""
    lines = list(walks.lines())
    if lines:
        terminalreporter.section("walks")
    for line in lines + regressions(terminalreporter.config):
        terminalreporter.write_line(line)


def regressions(config):
    """Only files of which all tests ran are judged."""
    told = config.pluginmanager.get_plugin("terminalreporter").stats
    parts = config.option.keyword or config.option.markexpr or any("::" in word for word in config.args)
    if parts or told.get("skipped") or told.get("deselected"):
        return []
    return [f"WORSE: {line}" for line in walks.regressed()]


def pytest_sessionfinish(session):
    if session.exitstatus == pytest.ExitCode.OK and regressions(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def source():
    """The root of the source tree."""
    return ROOT


@pytest.fixture(scope="session")
def build():
    """The build directory."""
    return BUILD


@pytest.fixture
def spoor(tmp_path):
    """Runs spoor in a directory of its own: spoor("check", "-f", "json") -> CompletedProcess with text output."""
    def run(*args, timeout=60, **how):
        how = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": timeout} | how
        return subprocess.run([BUILD / "spoor", *map(str, args)], **how)
    return run


# ---- traces that programs of ours make and read ----

@pytest.fixture
def tool(build):
    """tool("trace_dump", trace) -> CompletedProcess of a program of tests/tools."""
    def run(name, *args, **how):
        how = {"capture_output": True, "text": True, "timeout": 120, "check": True} | how
        return subprocess.run([build / "tests/tools" / name, *map(str, args)], **how)
    return run


@pytest.fixture
def generated_by(tool, tmp_path):
    """generated_by("trace_gen") -> what makes a trace of a scenario."""
    def of(name):
        def run(scenario, *args):
            trace = tmp_path / f"{scenario}.spoor"
            tool(name, scenario, trace, *args)
            return trace
        return run
    return of


@pytest.fixture
def stands_damage(spoor, tmp_path):
    """Checks forms of spoor report on damaged copies: a report, or one line that says why not; never a signal."""
    def check(traces, forms, seed):
        rng = random.Random(seed)
        for round_ in range(24):
            trace = tmp_path / f"t{round_}"
            shutil.copytree(traces[round_ % len(traces)], trace)
            damage(trace, rng)
            for form in forms[round_ % 3::3]:
                run = spoor("report", *form, trace, text=False)
                assert run.returncode in (0, 1) and b"Sanitizer" not in run.stderr, (form, run.stderr[-500:])
            shutil.rmtree(trace)
    return check


def damage(trace, rng):
    """Bytes changed, files cut."""
    files = [p for p in trace.rglob("*") if p.is_file() and p.stat().st_size]
    for file in rng.sample(files, min(3, len(files))):
        data = bytearray(file.read_bytes())
        for _ in range(rng.randrange(1, 40)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        file.write_bytes(data[:rng.randrange(len(data))] if rng.random() < .3 else data)


# ---- processes that end with the test ----

@pytest.fixture
def ends_with_the_test():
    """ends_with_the_test(Popen) -> it; killed then if it still runs."""
    processes = []

    def add(process):
        processes.append(process)
        return process
    yield add
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            try:
                if pipe:
                    pipe.close()
            except OSError:
                pass


@pytest.fixture
def start(tmp_path, ends_with_the_test):
    """start(argv) -> Popen with pipes."""
    def run(*args, **how):
        how = {"cwd": tmp_path, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE} | how
        return ends_with_the_test(subprocess.Popen([str(a) for a in args], **how))
    return run


@pytest.fixture
def record(build, tmp_path, ends_with_the_test):
    """record("-p", 1) -> Recording that is attached; start=False: as soon as it is launched."""
    def run(*args, start=True, trace="t.spoor", **how):
        recording = Recording(build / "spoor", tmp_path, (["-o", trace] if trace else []) + list(args), **how)
        ends_with_the_test(recording.process)
        return recording.started() if start else recording
    return run


@pytest.fixture
def at_directory(compiled):
    """at_directory("kill $PPID") -> the environment in which spoor has that done when it has just made t.spoor."""
    preloaded = {"LD_PRELOAD": str(compiled("at_directory.c", "-shared", "-fPIC")),
                 "ASAN_OPTIONS": "verify_asan_link_order=0"}
    return lambda script: os.environ | preloaded | {"AT_DIRECTORY": script}


@pytest.fixture
def counting_under_way(build, tmp_path, ends_with_the_test):
    """counting_under_way("-p", 1) -> Counting that is attached."""
    def run(*args, start=True, **how):
        stat = Counting(build / "spoor", tmp_path, args, **how)
        ends_with_the_test(stat.process)
        return stat.started() if start else stat
    return run


@pytest.fixture
def count(spoor, tmp_path):
    """count("--per-process", "--", "ls") -> (CompletedProcess, [Counters])."""
    def run(*args, **how):
        out = tmp_path / f"counters-{time.monotonic_ns()}.json"
        done = spoor("stat", "--format", "json", "-o", out, *args, **how)
        return done, counting.read(out)
    return run


@pytest.fixture
def read(spoor):
    return lambda path, **how: Trace(spoor, path, **how)


@pytest.fixture
def nothing_attached():
    """Checks that no BPF object which a spoor had when it was attached is left: no program, map or link."""
    def left(had):
        found = set()
        for kind in ("prog", "map", "link"):
            run = subprocess.run(["bpftool", "-j", kind, "show"], capture_output=True, text=True)
            if run.returncode:  # others' come and go
                return True
            found |= {(kind, o["id"]) for o in json.loads(run.stdout)}
        return found & had

    def check(running):
        assert {kind for kind, _ in running.bpf} == {"prog", "map", "link"}
        wait_for(lambda: not left(running.bpf), 10, 0.1)
    return check


# ---- programs of known counts ----

@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """compiled("actor.c", "-g") -> path of the program, compiled once a session."""
    done = {}

    def run(source, *flags):
        key = (source, flags)
        if key not in done:
            out = tmp_path_factory.mktemp("bin") / Path(source).stem
            command = ["gcc", "-O1", "-g", "-pthread", "-o", out, DATA / source, *flags]
            subprocess.run(command, check=True, timeout=60)
            done[key] = out
        return done[key]
    return run


@pytest.fixture
def actor(compiled, tmp_path):
    """actor("quokka") -> a copy by that name of tests/data/actor.c, whose marks are calls of getppid."""
    def copy(name="actor"):
        path = tmp_path / name
        if not path.exists():
            path.write_bytes(compiled("actor.c").read_bytes())
            path.chmod(0o755)
        return path
    return copy


@pytest.fixture
def counted(compiled):
    """tests/data/counted.c, compiled."""
    return compiled("counted.c")


# ---- surroundings ----

@pytest.fixture
def cgroups():
    """The top of the unified hierarchy."""
    if not CGROUPS:
        pytest.skip("no cgroup v2")
    return CGROUPS


@pytest.fixture
def cgroup(cgroups):
    """A cgroup with another, "inner", in it. Who is in them then survives it."""
    top = cgroups / f"spoor-test-{os.getpid()}"
    inner = top / "inner"
    inner.mkdir(parents=True)
    yield top
    for group in (inner, top):
        for pid in (group / "cgroup.procs").read_text().split():
            (cgroups / "cgroup.procs").write_text(pid)
        group.rmdir()


@pytest.fixture
def memory_group():
    """memory_group(bytes) -> the directory of a cgroup that may have so much memory; either version's."""
    made = []

    def make(limit):
        groups = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        v1 = next((g[1] for g in groups if g[2] == "cgroup" and "memory" in g[3].split(",")), None)
        group = Path(v1 or CGROUPS) / f"spoor-memory-{os.getpid()}"
        group.mkdir()
        made.append(group)
        (group / ("memory.limit_in_bytes" if v1 else "memory.max")).write_text(str(limit))
        return group
    yield make
    for group in made:
        group.rmdir()


@pytest.fixture
def anywhere(build):
    """A directory in which a user without privileges may look and write, with the program in it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        shutil.copy(build / "spoor", folder)
        yield Path(folder)
