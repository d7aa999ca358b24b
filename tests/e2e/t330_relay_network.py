# SPDX-License-Identifier: GPL-2.0-or-later
"""spoor relay and daemons that send to it: names, hosts, segments, snapshots, who follows."""
import json
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress

import pytest

from daemons import PATIENCE, in_a_row, ticker  # noqa: F401 (fixtures)
from processes import wait_for
from relaying import Relay, Sender, finish, relay, sender, there, written  # noqa: F401 (fixtures)


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
        assert s.summary["ended"] is True and "relay" not in s.summary
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
        said = a.ust("start", "-o", "/some/where/../t.spoor").stdout  # may not wait long enough for the answer
        assert "not take" not in said.replace("not take it yet: the relay does not answer", "")
        wait_for(lambda: "\n  relay: connected; " in a.status())
        a.program(ticker, 1, 100 + turn).wait(20)
        assert f"same/{name}" in finish(a, relay, name)
        assert [len(n) for n in there(a, relay, name).values()] == [100 + turn]
    b = Sender(a.build, a.cwd.parent, "hostile", relay.url, "--host-name", "../../../etc/x y\n")
    b.start()
    try:
        b.ust("start", "-o", ".hidden")
        b.end()
        wait_for(lambda: (relay.directory / "_._.._.._etc_x_y_" / "_hidden" / "manifest").exists()
                 or (relay.directory / "_.._.._etc_x_y_" / "_hidden" / "manifest").exists())
    finally:
        b.close()
    assert {p.name for p in relay.directory.iterdir()} <= {"same", "_._.._.._etc_x_y_", "_.._.._etc_x_y_"}


@pytest.fixture
def elsewhere(build, tmp_path):
    """elsewhere(address, **files) -> a relay there, and a sender to it by name in a mount namespace with this /etc."""
    made = []

    def make(address, **files):
        relay = Relay(build, tmp_path / "several", host=address).start()  # noqa: F811
        etc = tmp_path / "etc"
        etc.mkdir()
        with suppress(OSError):
            shutil.copy("/etc/ld.so.cache", etc)
        for name, text in files.items():
            (etc / f"{name.replace('_', '.')}").write_text(text)
        s = Sender(build, tmp_path, "alpha", f"tcp://localhost:{relay.port}")
        s.enter = ["unshare", "-m", "--propagation", "private", "sh", "-ec",
                   'mount --bind "$0" /etc; exec "$@"', etc]
        made.extend((s, relay))
        return relay, s.start(), etc
    yield make
    for what in made:
        what.close() if isinstance(what, Sender) else what.kill()


@pytest.fixture
def several(elsewhere):
    """The name has other addresses before the one at which it listens."""
    return elsewhere("127.0.0.5", hosts="".join(f"127.0.0.{n} localhost\n" for n in range(1, 6)),
                     nsswitch_conf="hosts: files\n", host_conf="multi on\n")[:2]


def test_host_of_several_addresses(several, ticker):  # noqa: F811
    """They are tried in turn; also after it was away."""
    relay, s = several  # noqa: F811
    s.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    s.program(ticker, 1, 101).wait(20)
    relay.kill()
    s.program(ticker, 1, 103).wait(20)
    relay.start()
    finish(s, relay)
    assert sorted(len(n) for n in there(s, relay).values()) == [101, 103]


def test_resolver_that_does_not_answer(elsewhere, ticker):  # noqa: F811
    """It holds up neither commands nor the daemon's end; what was recorded comes once there is an answer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as resolver:
        resolver.bind(("127.7.7.7", 53))
        relay, s, etc = elsewhere("127.0.0.5", nsswitch_conf="hosts: dns\n",  # noqa: F811
                                  resolv_conf="nameserver 127.7.7.7\noptions timeout:60 attempts:1\n")
        s.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
        s.program(ticker, 1, 101).wait(20)
        wait_for(lambda: "no answer where its address is asked for yet" in s.status())
        s.ust("start", "-s", "b", "-o", "b.spoor", "-e", "zoo:tick")
        s.ust("end", "-s", "b", check=False)
        s.process.terminate()
        assert s.process.wait(20) == 0
        (etc / "nsswitch.conf").write_text("hosts: files\n")
        (etc / "hosts").write_text("127.0.0.5 localhost\n")
        s.start()
    finish(s, relay)
    assert [len(n) for n in there(s, relay).values()] == [101]


def test_host_called_as_a_traces_file(relay, sender, ticker):  # noqa: F811
    s = sender("manifest")
    s.ust("start", "-o", "t.spoor")
    p = s.program(ticker, 1, 101)
    p.wait(20)
    assert "manifest_/t.spoor" in s.end()
    wait_for(lambda: "manifest_/t.spoor (" in relay.said() and "complete" in relay.said())
    assert s.ticks(relay.directory / "manifest_/t.spoor") == {(p.pid, 0): list(range(101))}


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
        assert ", 0 lost" in s.end()
    wait_for(lambda: relay.said().count("complete") == 2)
    found = [hosts[0].ticks(relay.directory / "twin" / name) for name in ("t.spoor", "t-2.spoor")]
    assert sorted(list(t) for t in found) == sorted([(p.pid, 0)] for p in programs)
    assert all(n == list(range(len(n))) and len(n) > 10 for t in found for n in t.values())


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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_follow_over_relays(relay, sender, ticker, tmp_path, number):  # noqa: F811
    """Whoever follows goes on with the next relay, is told once, and has each event once; so has who comes between."""
    s = sender("host")
    s.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    p = s.program(ticker, 1, 0, 1000)
    path = relay.directory / "host" / "t.spoor"
    wait_for(lambda: (path / "manifest").exists())
    readers = []

    def follow():
        with open(tmp_path / f"out{len(readers)}", "wb") as f:
            readers.append(subprocess.Popen([s.build / "spoor", "report", "--follow", "--format", "json", path],
                                            stdout=f, stderr=subprocess.PIPE, text=True))
    follow()
    for _ in range(2):
        before = (tmp_path / "out0").stat().st_size
        wait_for(lambda: (tmp_path / "out0").stat().st_size > before)
        relay.kill(number)
        follow()
        assert all("away; waiting" in r.stderr.readline() for r in readers)
        relay.start()
        assert all("there again" in r.stderr.readline() for r in readers)
    s.finish(p)
    finish(s, relay)
    for i, reader in enumerate(readers):
        assert reader.wait(60) == 0 and not reader.stderr.read()
        *events, summary = map(json.loads, (tmp_path / f"out{i}").read_text().splitlines())
        assert summary["ended"] and not summary["damages"]
        assert [e["fields"]["n"] for e in events] == list(range(len(events))) and len(events) > 50


def test_follow_over_daemons(relay, sender, ticker, tmp_path):  # noqa: F811
    """A daemon is stopped in order, its session goes on: so does whoever follows, until the session's end."""
    s, out = sender("host"), tmp_path / "out"
    s.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    p = s.program(ticker, 1, 0, 1000)
    path = relay.directory / "host" / "t.spoor"
    wait_for(lambda: (path / "manifest").exists())

    def follow(to):
        return subprocess.Popen([s.build / "spoor", "report", "--follow", "--format", "json", path], stdout=to,
                                stderr=subprocess.PIPE, text=True)
    with open(out, "wb") as f:
        reader = follow(f)
    for _ in range(2):
        before = out.stat().st_size
        wait_for(lambda: out.stat().st_size > before)
        s.kill(signal.SIGTERM)
        assert "away; waiting" in reader.stderr.readline()
        later = follow(subprocess.DEVNULL)
        assert "away; waiting" in later.stderr.readline()
        report = subprocess.run([s.build / "spoor", "report", path], capture_output=True, text=True).stdout
        assert "the session has not ended" in report, report
        s.start()
        assert "there again" in reader.stderr.readline() and "there again" in later.stderr.readline()
    s.finish(p)
    finish(s, relay)
    assert reader.wait(60) == later.wait(60) == 0 and not reader.stderr.read()
    *events, summary = map(json.loads, out.read_text().splitlines())
    assert summary["ended"] and not summary["damages"]
    assert [e["fields"]["n"] for e in events] == list(range(len(events))) and len(events) > 50


def test_no_disk(relay, sender, ticker, tmp_path, build):  # noqa: F811
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
    p.wait(PATIENCE)
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
    assert s.ust("snapshot", "-o", "shot.spoor").stdout.startswith("snapshot for shot.spoor at ")
    wait_for(lambda: "shot.spoor" in relay.said() and "complete" in relay.said())
    (numbers,) = there(s, relay, "shot.spoor").values()
    assert in_a_row(numbers) and len(numbers) > 100
    p.kill()
    p.wait()
    s.end()
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
    assert (s.summary["lost_writing"], s.summary["overwritten"]) == (0, 600_000 - len(numbers))


def test_trace_removed(relay, sender, ticker):  # noqa: F811
    """Who removes a trace at the relay while it is written ends it: the sender is told."""
    s = sender("host")
    s.ust("start", "-o", "t.spoor")
    program = s.program(ticker, 1, 0, 1000)
    wait_for(lambda: written(relay.directory, "lane0"))
    subprocess.run(["rm", "-r", relay.directory / "host"], check=True)
    wait_for(lambda: "removed" in s.status())
    assert program.poll() is None
