# SPDX-License-Identifier: GPL-2.0-or-later
"""spoor relay on real programs and a bad network: every event exactly once, or counted."""
import json
import os
import random
import re
import signal
import subprocess
import time
from collections import deque

import pytest

from daemons import check_each_once, counted, in_a_row, library, ticker, wait_for  # noqa: F401 (fixtures)
from relaying import Proxy, Relay, Sender, rss_kb

CUTS = int(os.environ.get("SPOOR_TEST_CUTS", "60"))
KILLS = int(os.environ.get("SPOOR_TEST_KILLS", "12"))


@pytest.fixture
def relay(build, tmp_path):
    r = Relay(build, tmp_path / "relayed").start()
    yield r
    if r.process.poll() is None:
        r.kill(signal.SIGTERM)


@pytest.fixture
def sender(build, tmp_path, library, relay):  # noqa: F811
    made = []

    def make(name, url=None, *options):
        made.append(Sender(build, tmp_path, library, name, url or relay.url, *options).start())
        return made[-1]
    yield make
    for s in made:
        s.close()


@pytest.fixture
def proxy(relay):
    made = []

    def make(**options):
        made.append(Proxy(relay.port, **options))
        return made[-1]
    yield make
    for p in made:
        p.close()


def there(s, relay, name="t.spoor"):
    """{(pid, thread): [n ...]} of what the relay has."""
    return s.ticks(relay.directory / s.name / name)


def finish(s, relay, name="t.spoor"):
    said = s.ust("end").stdout
    wait_for(lambda: f"{s.name}/{name} (" in relay.said() and "complete" in relay.said())
    assert "silent" not in relay.said()
    return said


def check_end(s, relay, program, behind):
    """The program is killed under load: each of its events is at the relay, once."""
    s.finish(program)
    assert ", 0 lost" in finish(s, relay)
    check_each_once(there(s, relay), program.pid, behind())


def test_three_hosts(relay, sender, ticker, tmp_path):  # noqa: F811
    """Each in its own directory; nothing is written where the daemons are; SIGTERM ends the relay in order."""
    hosts = [sender(name) for name in ("alpha", "beta", "gamma")]
    for s in hosts:
        s.ust("start", "-o", "t.spoor")
    programs = [s.program(ticker, 2, 1009 + i) for i, s in enumerate(hosts)]
    for i, (s, p) in enumerate(zip(hosts, programs)):
        p.wait(20)
        assert "0 lost" in finish(s, relay)
        ticks = there(s, relay)
        assert ticks == {(p.pid, t): list(range(1009 + i)) for t in range(2)}
        assert s.summary["ended"] is True
        babel = subprocess.run(["babeltrace2", relay.directory / s.name / "t.spoor"], capture_output=True, text=True)
        assert babel.stdout.count("zoo:tick") == 2 * (1009 + i)
        left = {f.name for f in s.cwd.iterdir()} - {"ust.sock", "ust.sock.keeper", "ust.sock.sessions", "daemon.log"}
        assert not left
    assert relay.kill(signal.SIGTERM) == 0
    for path in relay.directory.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_names(relay, sender, ticker):  # noqa: F811
    """One that is taken gets a number; a host's name never leaves the directory."""
    a = sender("same")
    for turn, name in enumerate(["t.spoor", "t-2.spoor", "t-3.spoor"]):
        said = a.ust("start", "-o", "/some/where/../t.spoor").stdout
        assert "not take" not in said
        a.program(ticker, 1, 100 + turn).wait(20)
        assert f"same/{name}" in finish(a, relay, name)
        assert [len(n) for n in there(a, relay, name).values()] == [100 + turn]
    b = Sender(a.build, a.cwd.parent, a.agent, "hostile", relay.url, "--host-name", "../../../etc/x y\n")
    b.start()
    try:
        b.ust("start", "-o", ".hidden")
        b.ust("end")
        wait_for(lambda: (relay.directory / "_._.._.._etc_x_y_" / "_hidden" / "manifest").exists()
                 or (relay.directory / "_.._.._etc_x_y_" / "_hidden" / "manifest").exists())
    finally:
        b.close()
    assert {p.name for p in relay.directory.iterdir()} <= {"same", "_._.._.._etc_x_y_", "_.._.._etc_x_y_"}


def test_two_hosts_of_one_name(relay, sender, ticker):  # noqa: F811
    """Each has a trace of its own, whatever is killed meanwhile; who comes back goes on with his own."""
    hosts = [sender("twin"), sender("other", None, "--host-name", "twin")]
    for s in hosts:
        s.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    programs = [s.program(ticker, 1, 0, 100) for s in hosts]
    for s in hosts:
        s.kill()
        relay.kill()
        relay.start()
        s.start()
    for s, p in zip(hosts, programs):
        wait_for(lambda: f"{p.pid} ticker" in s.status())
        s.finish(p)
        assert ", 0 lost" in s.ust("end").stdout
    wait_for(lambda: relay.said().count("complete") == 2)
    found = [hosts[0].ticks(relay.directory / "twin" / name) for name in ("t.spoor", "t-2.spoor")]
    assert sorted(list(t) for t in found) == sorted([(p.pid, 0)] for p in programs)
    assert all(n == list(range(len(n))) and len(n) > 10 for t in found for n in t.values())


def test_cuts(relay, sender, proxy, ticker, tmp_path):  # noqa: F811
    """The connection is cut at random bytes, again and again: each event exactly once."""
    p = proxy()
    s = sender("cut", p.url)
    s.ust("start", "-o", "t.spoor", "--rotate", "1M", "--buffers", "16M")
    env, behind = counted(tmp_path / "counter", 3)
    program = s.program(ticker, 3, 0, 20, **env)
    rng = random.Random(7)
    while p.cuts < CUTS:
        p.cut_after = rng.choice([1, 300, 3000, 30000, 100000]) + rng.randrange(1000)
        wait_for(lambda: p.cut_after is None, 30)
    check_end(s, relay, program, behind)
    manifest = json.loads((relay.directory / "cut/t.spoor/manifest").read_text())
    # Who was welcome sends more than a greeting, if there is time for it; who was not has not been answered.
    welcome = [sum(c[0] > 1000 for c in p.carried), sum(c[1] > 0 for c in p.carried)]
    assert CUTS / 2 < welcome[0] <= manifest["counters"]["relay_reconnects"] + 1 <= welcome[1]


def test_relay_killed(relay, sender, ticker, tmp_path):  # noqa: F811
    """The relay is killed and started again under load: each event exactly once; its trace goes on as one."""
    s = sender("host")
    s.ust("start", "-o", "t.spoor", "--rotate", "1M", "--buffers", "16M")
    env, behind = counted(tmp_path / "counter", 3)
    program = s.program(ticker, 3, 0, 20, **env)
    rng = random.Random(3)
    for _ in range(KILLS):
        time.sleep(rng.uniform(0, 0.1))
        relay.kill()
        time.sleep(rng.uniform(0, 0.05))
        relay.start()
    check_end(s, relay, program, behind)
    assert not list(relay.directory.rglob("t-2.spoor"))


def test_daemon_killed(relay, sender, ticker, tmp_path):  # noqa: F811
    """The same with the daemon, and with both: the relay tells the next one what is there."""
    s = sender("host")
    s.ust("start", "-o", "t.spoor", "--buffers", "16M")
    env, behind = counted(tmp_path / "counter", 3)
    program = s.program(ticker, 3, 0, 50, **env)
    rng = random.Random(5)
    for turn in range(KILLS):
        time.sleep(rng.uniform(0, 0.12))
        s.kill()
        if turn % 3 == 2:
            relay.kill()
            relay.start()
        s.start()
    wait_for(lambda: f"{program.pid} ticker" in s.status())
    check_end(s, relay, program, behind)
    assert not list(relay.directory.rglob("t-2.spoor"))


def test_daemon_stopped_in_order(relay, sender, ticker):  # noqa: F811
    s = sender("host")
    s.ust("start", "-o", "t.spoor")
    program = s.program(ticker, 2, 0, 200)
    for _ in range(3):
        time.sleep(0.3)
        s.kill(signal.SIGTERM)
        time.sleep(0.1)
        s.start()
    time.sleep(0.4)
    s.finish(program)
    assert ", 0 lost" in finish(s, relay)
    for numbers in there(s, relay).values():
        assert numbers[0] == 0 and in_a_row(numbers) and len(numbers) > 1000


def is_all_there_or_counted(s, relay, total):
    """Every event is in the trace once, or is one that a program lost; returns those that are lost."""
    ticks = there(s, relay)
    for numbers in ticks.values():
        assert numbers == sorted(set(numbers))
    assert s.summary["ended"] is True
    lost = sum(p["lost"] for p in s.summary["programs"])
    assert s.summary["discarded"] == lost and sum(map(len, ticks.values())) + lost == total, (s.summary, lost)
    return lost


def test_slow_network(relay, sender, proxy, ticker, tmp_path):  # noqa: F811
    """Much more than the network takes: memory is bounded, what is written and what is counted is all there was."""
    p = proxy(rate=300_000)
    s = sender("slow", p.url, "--relay-memory", "2M")
    s.ust("start", "-o", "t.spoor", "-e", "zoo:tick", "--buffers", "1M")
    before = rss_kb(s.process.pid)
    count = 400_000
    programs = [s.program(ticker, 2, count) for _ in range(2)]
    for program in programs:
        program.wait(60)
    status = s.status()
    assert " wait; " in status and " events discarded meanwhile" in status
    p.rate = None
    wait_for(lambda: not any(str(program.pid) in s.status() for program in programs), 60)
    finish(s, relay)
    assert rss_kb(s.process.pid) - before < 32 << 10
    assert is_all_there_or_counted(s, relay, 4 * count) > 0


@pytest.mark.parametrize("n_programs", [1, 3])
def test_end_while_it_waits(relay, sender, proxy, ticker, n_programs):  # noqa: F811
    """The network takes next to nothing when a session ends: the trace ends in order, what is not in it is counted."""
    p = proxy(rate=20_000)
    s = sender("slow", p.url, "--relay-memory", "1M")
    s.ust("start", "-o", "t.spoor", "-e", "zoo:tick", "--buffers", "4M")
    programs = [s.program(ticker, 2, 100_000) for _ in range(n_programs)]
    for program in programs:
        program.wait(60)
    said = s.ust("end").stdout
    p.rate = None
    wait_for(lambda: "slow/t.spoor (" in relay.said() and "complete" in relay.said())
    lost = is_all_there_or_counted(s, relay, n_programs * 200_000)
    refused = s.summary["lost_writing"]
    assert lost > 0 and "waiting for the relay" in said and f", {refused} events found no room" in said, said
    assert f"{n_programs * 200_000 - lost} events of {n_programs} program" in said and f", {lost} lost" in said, said


@pytest.mark.parametrize("options", [[], ["--max-size", "8M"]])
def test_old_losses_are_told_once(relay, sender, ticker, build, options):  # noqa: F811
    """What a program lost long ago, before much that others wrote, is not told again by the daemon's successor."""
    s = sender("host", None, "--relay-memory", "1M")
    s.ust("start", "-o", "t.spoor", "-e", "zoo:tick", "--buffers", "2M", *options)
    first = s.program(ticker, 1, 0)
    wait_for(lambda: re.search(rf"{first.pid} ticker: .* [1-9]\d* lost", s.status()))
    first.send_signal(signal.SIGSTOP)
    segments = relay.directory / "host/t.spoor/host/ust"
    program = s.program(ticker, 1, 0)
    if options:
        wait_for(lambda: min(segments.glob("seg-*"), default=segments).name > "seg-000009", 240)
    else:
        wait_for(lambda: sum(f.stat().st_size for f in segments.glob("*/lane*")) > 64 << 20, 240)
    s.finish(program)
    s.kill()
    s.start()
    s.ust("stop", "-a")  # it has room for no more than its buffer has
    first.send_signal(signal.SIGCONT)
    wait_for(lambda: f"{first.pid} ticker" in s.status())
    s.finish(first)
    finish(s, relay)
    reader = subprocess.Popen([build / "spoor", "report", "--format", "json", relay.directory / "host/t.spoor"],
                              stdout=subprocess.PIPE)
    (last,) = deque(reader.stdout, 1)
    summary = json.loads(last)
    assert reader.wait() == 0 and summary["discarded"] == sum(p["lost"] for p in summary["programs"])


def test_full_disk(build, tmp_path, library, ticker):  # noqa: F811
    """The relay's disk is full: it says so, senders wait; when there is room all is there, once."""
    where = tmp_path / "small"
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", where], check=True)
    try:
        r = Relay(build, where / "relayed").start()
        r.log = tmp_path / "relay.log"
        r.kill(signal.SIGTERM)
        r.start()
        (where / "filler").write_bytes(bytes(2_600_000))
        s = Sender(build, tmp_path, library, "host", r.url).start()
        try:
            s.ust("start", "-o", "t.spoor", "-e", "zoo:tick", "--buffers", "8M")
            p = s.program(ticker, 1, 30_011)
            p.wait(20)
            wait_for(lambda: "No space left" in r.said())
            wait_for(lambda: "cannot write: No space left" in s.status())
            wait_for(lambda: "cannot write" in s.said())
            (where / "filler").unlink()
            wait_for(lambda: "can write again" in r.said())
            assert "0 lost" in finish(s, r)
            assert there(s, r) == {(p.pid, 0): list(range(30_011))}
        finally:
            s.close()
            r.kill(signal.SIGTERM)
    finally:
        subprocess.run(["umount", where], check=True)


def test_follow(relay, sender, ticker, build):  # noqa: F811
    """A reader at the relay sees events while they come, and the end."""
    s = sender("host")
    s.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    p = s.program(ticker, 1, 0, 5000)
    path = relay.directory / "host" / "t.spoor"
    wait_for(lambda: (path / "manifest").exists())
    reader = subprocess.Popen([build / "spoor", "report", "--follow", "--format", "json", path],
                              stdout=subprocess.PIPE, text=True)
    for n in range(200):
        assert f'"n":{n}' in reader.stdout.readline().replace(" ", "")
    s.finish(p)
    finish(s, relay)
    rest = reader.communicate(timeout=20)[0]
    assert reader.returncode == 0 and '"ended"' in rest


def test_sender_stays_away(build, tmp_path, library, ticker):  # noqa: F811
    """A trace whose sender never comes back has not ended in order, and is said to have not."""
    r = Relay(build, tmp_path / "relayed", "--patience", "1s").start()
    s = Sender(build, tmp_path, library, "host", r.url).start()
    try:
        s.ust("start", "-o", "t.spoor")
        s.program(ticker, 1, 1009).wait(20)
        wait_for(lambda: (r.directory / "host/t.spoor/manifest").exists() and sum(
            f.stat().st_size for f in r.directory.rglob("lane*")) > 10000)
        s.kill()
        wait_for(lambda: "does not come back" in r.said())
        assert len(s.ticks(r.directory / "host/t.spoor")) == 1
        assert s.summary["ended"] is False
    finally:
        s.close()
        r.kill(signal.SIGTERM)


def test_trace_removed(relay, sender, ticker):  # noqa: F811
    """Who removes a trace at the relay while it is written ends it: the sender is told."""
    s = sender("host")
    s.ust("start", "-o", "t.spoor")
    program = s.program(ticker, 1, 0, 1000)
    wait_for(lambda: list(relay.directory.rglob("lane0")))
    subprocess.run(["rm", "-r", relay.directory / "host"], check=True)
    wait_for(lambda: "removed" in s.status())
    assert program.poll() is None


def test_no_disk(relay, sender, ticker, tmp_path, build, library):  # noqa: F811
    """The daemon opens no file to write to but those beside its socket."""
    log = tmp_path / "strace"
    where = tmp_path / "traced"
    where.mkdir()
    s = sender("host")
    tracer = subprocess.Popen(["strace", "-f", "-qq", "-e", "trace=openat,open,creat,mkdir,mkdirat,rename,renameat",
                               "-o", log, "-p", str(s.process.pid)], stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    s.ust("start", "-o", "t.spoor", "--rotate", "1M")
    s.program(ticker, 2, 50_000).wait(30)
    finish(s, relay)
    tracer.send_signal(signal.SIGINT)
    tracer.wait(10)
    made = [line for line in log.read_text().splitlines()
            if ("O_CREAT" in line or "O_WRONLY" in line or "O_RDWR" in line or "mkdir" in line or "rename" in line)
            and "ust.sock." not in line and "/proc/" not in line and "/dev/" not in line]
    assert not made, made


def test_max_size_and_rotation(relay, sender, ticker):  # noqa: F811
    """Segments are dropped at the relay as they are on a disk of one's own."""
    s = sender("host")
    s.ust("start", "-o", "t.spoor", "-e", "zoo:tick", "--max-size", "8M", "--buffers", "16M")
    p = s.program(ticker, 1, 300_000, 1)
    p.wait(60)
    finish(s, relay)
    size = sum(f.stat().st_size for f in (relay.directory / "host/t.spoor").rglob("*") if f.is_file())
    assert size < 8.5 * (1 << 20)
    (numbers,) = there(s, relay).values()
    assert in_a_row(numbers) and numbers[-1] == 299_999


def test_snapshot(relay, sender, ticker):  # noqa: F811
    """What a flight recorder holds comes to the relay as a trace of its own; of others none is taken, which is said."""
    s = sender("host")
    s.ust("start", "-o", "t.spoor", "--mode", "overwrite", "-e", "zoo:tick")
    p = s.program(ticker, 1, 0, 200)
    time.sleep(0.5)
    s.ust("snapshot", "-o", "shot.spoor")
    wait_for(lambda: "shot.spoor" in relay.said() and "complete" in relay.said())
    (numbers,) = there(s, relay, "shot.spoor").values()
    assert in_a_row(numbers) and len(numbers) > 100
    p.kill()
    p.wait()
    s.ust("end")
    s.ust("start", "-o", "u.spoor")
    refused = s.ust("snapshot", "-o", "v.spoor", check=False)
    assert refused.returncode == 1 and "at a relay" in refused.stderr
    assert not (relay.directory / "host/v.spoor").exists()


def test_snapshot_of_much(relay, sender, ticker):  # noqa: F811
    """Buffers that are larger than what may be on the way: the snapshot is whole, and no loss of the session."""
    s = sender("host", None, "--relay-memory", "1M")
    s.ust("start", "-o", "t.spoor", "--mode", "overwrite", "-e", "zoo:tick", "--buffers", "16M")
    p = s.program(ticker, 1, 600_000)
    p.wait(60)
    s.ust("snapshot", "-o", "shot.spoor")
    wait_for(lambda: "shot.spoor" in relay.said() and "complete" in relay.said())
    (numbers,) = there(s, relay, "shot.spoor").values()
    assert in_a_row(numbers) and numbers[-1] == 599_999 and len(numbers) * 32 > 8 << 20
    assert s.summary["lost_writing"] == 0
