# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs, and children, for whose events there is no room: what that costs them, and that it is counted."""
import resource
import signal
import subprocess

import arenas
import pytest
import tracing

from daemons import PATIENCE, daemon, ticker  # noqa: F401

EVENTS = 1100  # of `ticker 1 1000`, with the rare ones
FEW = 250  # system calls: of a program or child and its library, if not one is for each event


def system_calls(log):
    """{pid: [system call, ...]} of what strace -ff has noted."""
    return {int(f.suffix[1:]): f.read_text().splitlines() for f in log.parent.glob(f"{log.name}.*")}


LIMITS = {
    "files": (resource.RLIMIT_FSIZE, 8192, "ulimit -f"),
    "descriptors": (resource.RLIMIT_NOFILE, 4, "ulimit -n"),  # but for one
    "no descriptor": (resource.RLIMIT_NOFILE, 3, None),  # by which it could be told
    "addresses": (resource.RLIMIT_AS, 1 << 20, "ulimit -v"),
}


def calls_beyond(what, p, log):
    """A ticker that waits, and then forks beyond the limit: what its child asked of the kernel."""
    parent, = system_calls(log)
    which, value, _ = LIMITS[what]
    resource.prlimit(parent, which, (value, value))
    p.communicate(b"x", timeout=PATIENCE)
    calls = system_calls(log)
    assert p.returncode == 0 and len(calls) == 2
    del calls[parent]
    return calls.popitem()[1]


TRACED = ["strace", "-ff", "-o", "log"]
FORKS = [1, 1000, 0, "fork"]


@pytest.mark.parametrize("filtered", [False, True], ids=["plain", "filtered"])
@pytest.mark.parametrize("what", LIMITS)
def test_child(daemon, ticker, what, filtered):
    """It does not try again at each event; what it loses is counted, and why it is not there is told, once."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:*", *(["--filter", "!nosuch"] if filtered else []))
    p = daemon.program(*TRACED, ticker, *FORKS, stdin=subprocess.PIPE, TICKER_WAITS="1")
    calls = calls_beyond(what, p, daemon.cwd / "log")
    said = daemon.ust("end").stdout
    assert f"{EVENTS} events of 1 program, {EVENTS} lost" in said, said
    why = LIMITS[what][2]
    assert ("1 program that came is not recorded: " in said) == bool(why) and (why or "") in said, said
    daemon.events()
    assert daemon.summary["discarded"] == EVENTS and daemon.summary["programs_not_recorded"] == bool(why)
    assert len(calls) < FEW, calls[-20:]


def test_child_without_a_daemon(build, ticker, tmp_path):
    """The same where the program records alone; and it leaves no file for what could not be."""
    out = tmp_path / "out"
    p = subprocess.Popen([*TRACED, ticker, *map(str, FORKS)], env=tracing.environment(build, out, TICKER_WAITS="1"),
                         cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    calls = calls_beyond("files", p, tmp_path / "log")
    trace, = arenas.arenas(out)
    assert len(trace.events) == EVENTS and trace.lost() == EVENTS
    assert len(list(out.iterdir())) == 1 and len(calls) < FEW, calls[-20:]


LOST = 100_000


def check_cost(p, log, events, lost):
    assert p.returncode == 0
    calls, = system_calls(log).values()
    assert lost > LOST / 4 and events + lost == LOST * 11 // 10
    assert len(calls) < LOST / 10, calls[-20:]  # an event in the shared packet, or every 20 ms, takes some


def test_daemon_that_stands_still(daemon, ticker):
    """With the buffers full an event that is lost asks nothing of the kernel."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:*", "--buffers", "64k")
    daemon.process.send_signal(signal.SIGSTOP)
    p = daemon.program(*TRACED, ticker, 1, LOST)
    p.wait(PATIENCE)
    daemon.process.send_signal(signal.SIGCONT)
    daemon.ust("end")
    check_cost(p, daemon.cwd / "log", len(daemon.events()), daemon.summary["discarded"])


@pytest.mark.parametrize("size", ["300k", "2M"], ids=["packets", "spill"])
def test_full_disk_without_a_daemon(build, ticker, tmp_path, size):
    """Neither where there is no room for the buffers, nor where none is behind them."""
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", out], check=True)
    try:
        env = tracing.environment(build, out, SPOOR_UST_BUFFERS="1M")
        p = subprocess.run([*TRACED, ticker, "1", str(LOST)], env=env, cwd=tmp_path, timeout=PATIENCE)
        trace, = arenas.arenas(out)
        check_cost(p, tmp_path / "log", len(trace.events), trace.lost())
    finally:
        subprocess.run(["umount", out], check=True)


def test_disk_that_is_full_already(build, ticker, tmp_path):
    """Nothing is recorded, and why that is so is told."""
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", out], check=True)
    try:
        (out / "full").write_bytes(bytes(4096))
        p = subprocess.run([ticker, "1", "10"], env=tracing.environment(build, out), cwd=tmp_path, timeout=PATIENCE,
                           capture_output=True, text=True)
        assert p.returncode == 0 and p.stderr.endswith("/out: no space; nothing is recorded\n"), p.stderr
        assert [f.name for f in out.iterdir()] == ["full"]
    finally:
        subprocess.run(["umount", out], check=True)
