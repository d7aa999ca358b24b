# SPDX-License-Identifier: GPL-2.0-or-later
"""The library and its header under ThreadSanitizer, in programs with threads, forks, signals, objects that come and go
and sites that are switched under fire. Nothing is suppressed. What it cannot see: the site's own byte of code, which is
fetched, not loaded, so nor that what a site's new way needs was there before it (sessions with contexts); the recorder,
another process; and the order that the kernel gives when it says that a thread is no more, so threads that end by the
system call alone are left to t322_ust_programs.py."""
import signal
import subprocess
import time
from pathlib import Path

import pytest
import tracing
from daemons import daemon  # noqa: F401

SOURCE = tracing.DATA.parent.parent / "src"
FLAGS = ["-g", "-O1", "-std=gnu17", "-D_GNU_SOURCE", "-fsanitize=thread", "-DSPOOR_UNWATCHED_=", "-pthread",
         "-fno-strict-aliasing", f"-I{SOURCE}", f"-I{tracing.INCLUDE}"]


def compile_with(*args):
    subprocess.run(["gcc", *FLAGS, *map(str, args)], check=True, timeout=120)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """{name: program}, all with the library within: only what is compiled so is watched."""
    at = tmp_path_factory.mktemp("tsan")
    compile_with("-Wno-address", "-DSPOOR_WEAK_=", "-DSPOOR_DISABLE_SITES_", "-r", "-nostdlib", "-o", at / "agent.o",
                 *sorted((SOURCE / "agent").rglob("*.c")))
    for name in "actor", "fire", "host", "ticker":
        compile_with("-rdynamic", "-o", at / name, tracing.DATA / f"ust_{name}.c", at / "agent.o", "-lurcu-bp", "-ldl")
    compile_with("-shared", "-fPIC", "-o", at / "plugin.so", tracing.DATA / "ust_plugin.c")
    (at / "racy.c").write_text("""
#include <pthread.h>
int n;
static void *f(void *arg) { n++; return arg; }
int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); n++; pthread_join(t, 0); return 0; }
""")
    compile_with("-o", at / "racy", at / "racy.c")
    return at


def run(programs, tmp_path, command, **env):
    env = tracing.environment(None, tmp_path / "out", preload=False, **env)
    env["TSAN_OPTIONS"] = f"exitcode=66 log_path={tmp_path}/report"
    done = subprocess.run([programs / command[0], *map(str, command[1:])], env=env, capture_output=True, text=True,
                          timeout=100)
    return done, "".join(p.read_text() for p in Path(tmp_path).glob("report*"))


SMALL = {"SPOOR_UST_BUFFERS": "64K"}
RUNS = [
    (["actor", "threads", 100, 50], {}), (["actor", "crowd", 300], {}), (["actor", "threads", 60, 5000], SMALL),
    (["actor", "threads", 60, 5000], SMALL | {"SPOOR_UST_MODE": "overwrite"}),
    (["actor", "threads", 40, 5000], SMALL | {"SPOOR_UST_MODE": "block=1ms", "SPOOR_UST_MAX_SIZE": "4M"}),
    (["actor", "threads", 60, 300], {"SPOOR_UST_CONTEXT": "vpid,vtid,procname,ip,cpu"}),
    (["actor", "threads", 60, 300], {"SPOOR_UST_FILTER": "n > 7"}),
    (["actor", "fork", 7], {}), (["actor", "clone", 7], {}), (["actor", "vfork", 7], {}),
    (["actor", "nested", 20000], {}), (["actor", "cancel", 11], {}), (["actor", "longjmp", 20000], {}),
    (["fire", 3000, 2, 100], {"SPOOR_UST_MODE": "overwrite"}),
]


@pytest.mark.parametrize("command, env", RUNS, ids=lambda v: " ".join(map(str, v)))
def test_no_races(programs, tmp_path, command, env):
    done, report = run(programs, tmp_path, command, **env)
    assert done.returncode == 0 and not report, report[:6000] or done.stderr


def test_no_races_of_objects(programs, tmp_path):
    done, report = run(programs, tmp_path, ["host", 31, programs / "plugin.so"])
    assert done.returncode == 0 and not report, report[:6000] or done.stderr


@pytest.mark.parametrize("options", [[], ["--mode", "overwrite"]], ids=["discard", "overwrite"])
def test_no_races_of_sessions(programs, daemon, tmp_path, options):
    """They begin, change and end, one in the memory of another, under threads that record."""
    p = daemon.program(programs / "ticker", 3, 0, 5, preload=False,
                       TSAN_OPTIONS=f"exitcode=66 log_path={tmp_path}/report")
    for n in range(12):
        session = f"s{n % 3}"
        daemon.ust("start", "-s", session, "-o", f"{n}.spoor", "--buffers", "256K", *options)
        time.sleep(0.1)
        daemon.ust("disable", "-s", session, "-e", "zoo:rare", p.pid)
        if n > 1:
            assert not daemon.ust("end", "-s", f"s{(n - 2) % 3}").stdout.startswith("0 events")
    assert p.poll() is None
    p.terminate()
    p.wait(20)
    report = "".join(path.read_text() for path in tmp_path.glob("report*"))
    assert p.returncode == -signal.SIGTERM and not report, report[:6000]


def test_a_race_is_seen(programs, tmp_path):
    done, report = run(programs, tmp_path, ["racy"])
    assert done.returncode == 66 and "data race" in report
