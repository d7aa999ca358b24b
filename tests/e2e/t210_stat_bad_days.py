# SPDX-License-Identifier: GPL-2.0-or-later
"""`spoor stat` on bad days: attached late, interrupted, unprivileged, out of memory, killed."""
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from processes import NOBODY, ready, sleeps_in, tell, wait_for, wait_until_all_pause

READ = 0
MEMORY = Path("/sys/fs/cgroup/memory")


def test_attach_in_a_blocking_call(counting_under_way, start):
    """A call that began before is shown in flight with its time since it fell asleep, and counts as one in the end."""
    target = start("sh", "-c", "read x; read y; exit 0")
    wait_for(lambda: sleeps_in(target.pid, READ))
    time.sleep(0.3)
    stat = counting_under_way("-p", target.pid, "--interval", "100ms").print_all()
    first = stat.counters()[0]
    (call,) = first.tasks[0]["syscalls"]
    assert call["name"] == "read" and call["in_flight"]["calls"] == 1
    assert 0.3 <= call["in_flight"]["seconds"] < 20 and call["calls"] == 0
    assert 0.3 <= call["in_flight"]["blocked_seconds"] <= call["in_flight"]["seconds"]
    tell(target, b"1\n")
    wait_for(lambda: sleeps_in(target.pid, READ))
    tell(target, b"2\n")
    assert stat.wait() == 0
    last = stat.counters()[-1]
    assert last.whole().of("read") == 4 and not any("in_flight" in s for t in last.tasks for s in t["syscalls"])
    assert last.of("read", "blocked_seconds") >= call["in_flight"]["blocked_seconds"]


def test_restarted_calls(count, counted):
    """Each time that a call is entered counts, as in strace -c; what goes on by restart_syscall is called so."""
    done, (c,) = count("--", counted, "restart", 5, 11)
    assert done.returncode == 0 and c.whole().of("kill") == 2 * 5 + 2 and c.of("rt_sigreturn") == 2 * 5
    errnos = {s["name"]: s["errnos"] for s in c.tasks[0]["syscalls"]}
    assert errnos["read"] == {"ERESTARTSYS": 5} and errnos["poll"] == {"ERESTART_RESTARTBLOCK": 1}
    assert errnos["clock_nanosleep"] == {"ERESTART_RESTARTBLOCK": 5} and errnos["rt_sigreturn"] == {"EINTR": 5}
    assert c.of("clock_nanosleep") == 2 * 5 and c.of("poll") == c.of("restart_syscall") == 1


def test_ctrl_c(counting_under_way, counted, start):
    """Prints the final table; the targets go on."""
    target = start(counted, "hang", 3, 7)
    wait_until_all_pause(ready(target).pid)
    stat = counting_under_way("-p", target.pid)
    assert stat.stop(signal.SIGINT) == 0
    (c,) = stat.counters()
    assert c.of("pause") == 4 and target.poll() is None
    assert c.tasks[0]["syscalls"][0]["in_flight"]["calls"] == 4


def test_duration(count, counted, start):
    target = start(counted, "hang", 1, 1)
    wait_until_all_pause(ready(target).pid)
    began = time.monotonic()
    done, (c,) = count("-p", target.pid, "--duration", "300ms")
    assert done.returncode == 0 and 0.3 <= time.monotonic() - began < 5
    assert c.of("pause") == 2


def test_by_name(counting_under_way, actor, start):
    program = actor("quokka")
    stat = counting_under_way("-n", "quokka")
    for _ in range(3):
        subprocess.run([program], stdin=subprocess.DEVNULL, timeout=20, check=False)
    assert stat.stop() == 0
    (c,) = stat.counters()
    assert c.whole().of("execve") == 3 and c.of("exit_group") == 3


def test_unprivileged(anywhere):
    done = subprocess.run([*NOBODY, anywhere / "spoor", "stat", "--", "true"], capture_output=True, text=True,
                          timeout=20, check=False)
    assert done.returncode == 125 and done.stderr.count("\n") == 1
    assert "CAP_BPF" in done.stderr and "root" in done.stderr


@pytest.fixture
def small_memory():
    """A cgroup that pays for what the kernel side takes."""
    group = MEMORY / f"spoor-test-{os.getpid()}"
    group.mkdir()
    yield group
    for pid in (group / "cgroup.procs").read_text().split():
        (MEMORY / "cgroup.procs").write_text(pid)
    wait_for(lambda: not group.exists() or not os.system(f"rmdir {group} 2>/dev/null"))


def test_no_memory_for_threads(counting_under_way, counted, start, small_memory):
    """Threads for which the kernel has no memory are counted and said, the others are right."""
    target = start("sh", "-c", "read x; exec \"$@\"", "sh", counted, "threads", 2000, 7)
    stat = counting_under_way("-p", target.pid, "--follow", start=False,
                              preexec_fn=lambda: (small_memory / "cgroup.procs").write_text(str(os.getpid())))
    stat.started()
    (MEMORY / "cgroup.procs").write_text(str(stat.pid))
    used = int((small_memory / "memory.usage_in_bytes").read_text())
    try:
        (small_memory / "memory.limit_in_bytes").write_text(str(used + (4 << 20)))
    except OSError:
        (small_memory / "memory.limit_in_bytes").write_text(str(used * 2))
    target.stdin.write(b"\n")
    target.stdin.close()
    target.stdin = None
    assert target.wait(60) == 0
    assert stat.wait() == 0
    (c,) = stat.counters()
    lost = c.all["lost_threads"]
    missing = c.all["lost_calls"]  # no memory for the sums of what has ended
    print(lost, missing, c.threads(), c.of("getppid"))
    assert 0 < lost < 2001 and c.threads() == 2001 - lost
    assert 7 * (2000 - lost) - missing <= c.of("getppid") <= 7 * (2000 - lost)
    assert missing or c.of("getppid") == 7 * (2000 - lost)
    (small_memory / "memory.limit_in_bytes").write_text("-1")


def test_killed(counting_under_way, counted, start, nothing_attached):
    target = start(counted, "hang", 3, 7)
    wait_until_all_pause(ready(target).pid)
    stat = counting_under_way("-p", target.pid)
    stat.process.kill()
    stat.wait()
    nothing_attached(stat)
    assert target.poll() is None


def test_full_disk(build, tmp_path):
    done = subprocess.run([build / "spoor", "stat", "-o", "/dev/full", "--", "true"], capture_output=True, text=True,
                          timeout=20, check=False)
    assert done.returncode == 125 and "No space left" in done.stderr


def test_file_limit(build, tmp_path):
    """A file that may not grow further is a write that fails, not Spoor's death."""
    done = subprocess.run(["bash", "-c", 'ulimit -f 1; exec "$@"', "bash", build / "spoor", "stat", "--format", "json",
                           "-o", tmp_path / "out", "--", "true"], capture_output=True, text=True, timeout=20,
                          check=False)
    assert done.returncode == 125 and "File too large" in done.stderr


@pytest.mark.parametrize("kept", [True, False])
def test_reader_that_has_left(counting_under_way, start, tmp_path, kept):
    """Who counts into a file goes on. Where nobody reads the table that ends it, as is usual."""
    ours, theirs = os.pipe()
    os.close(ours)
    more = () if kept else ("-o", "/dev/stderr", "--interval", "50ms")
    stat = counting_under_way("-p", start("sleep", "60").pid, *more, start=False, stderr=theirs)
    os.close(theirs)
    if kept:
        assert stat.started().stop() == 0 and stat.prints() == 1
    else:
        assert stat.wait() == -signal.SIGPIPE


def test_attach_into_a_storm(counting_under_way, counted, start):
    """Threads are born while it attaches: each is in once, so the end of the last one is the end of counting."""
    for _ in range(5):
        target = start(counted, "storm", 1_000_000, 1)
        stat = counting_under_way("-p", target.pid, "--per-process")
        assert target.poll() is None
        target.kill()
        target.wait()
        assert stat.wait(5) == 0


def test_json_is_one_object_a_line(build, start, tmp_path):
    out = tmp_path / "out"
    with open(out, "wb") as err:
        stat = start(build / "spoor", "stat", "--format", "json", "--interval", "50ms", "--", "cat", stderr=err)
    wait_for(lambda: out.read_text().count("\n") >= 3)
    stat.stdin.close()
    assert stat.wait(20) == 0 and len([json.loads(line) for line in out.read_text().splitlines()]) >= 4
