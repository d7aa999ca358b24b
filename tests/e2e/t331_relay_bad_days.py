# SPDX-License-Identifier: GPL-2.0-or-later
"""spoor relay: certificates right and wrong, wrong words, hostile clients."""
import json
import os
import random
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from daemons import ticker  # noqa: F401 (fixtures)
from processes import wait_for
from relaying import Proxy, Relay, Sender, rss_kb, written

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fuzz"))
from make_relay_corpus import SESSION, head, hello, op  # noqa: E402


def own_address():
    """One of this machine's that is no loopback address, if it has one."""
    links = json.loads(subprocess.run(["ip", "-j", "addr"], capture_output=True, text=True, check=True).stdout)
    for link in links:
        for a in link["addr_info"]:
            if a["family"] == "inet" and not a["local"].startswith("127."):
                return a["local"]
    return "127.0.0.1"


ADDRESS = own_address()


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=60)


class Authority:
    def __init__(self, where):
        self.where = where
        where.mkdir()
        self.pem, self.key = where / "ca.pem", where / "ca.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", "/CN=test CA", "-keyout", self.key, "-out", self.pem)

    def issue(self, name, san, *dates):
        pem, key, ask, ext = (self.where / f"{name}.{e}" for e in ("pem", "key", "csr", "ext"))
        ext.write_text(f"subjectAltName={san}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                "-keyout", key, "-out", ask)
        openssl("x509", "-req", "-in", ask, "-CA", self.pem, "-CAkey", self.key, "-CAcreateserial", "-extfile", ext,
                "-out", pem, *(dates or ("-days", "1")))
        return pem, key


@pytest.fixture(scope="session")
def ca(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca") / "good")


@pytest.fixture(scope="session")
def certificates(ca):
    san = f"IP:{ADDRESS}"
    return {"relay": ca.issue("relay", san), "host": ca.issue("host", "DNS:host"),
            "late": ca.issue("late", "DNS:late", "-days", "-1"),
            "elsewhere": ca.issue("elsewhere", "DNS:elsewhere.example"),
            "expired": ca.issue("expired", san, "-days", "-1")}


def own(pair, ca, prefix=""):
    return [f"--{prefix}ca", ca.pem, f"--{prefix}cert", pair[0], f"--{prefix}key", pair[1]]


@pytest.fixture
def tls(build, tmp_path, ca, certificates):
    made = []

    def make(name="relay"):
        made.append(Relay(build, tmp_path / f"relayed{len(made)}", *own(certificates[name], ca), host=ADDRESS,
                          scheme="tls").start())
        return made[-1]
    yield make
    for r in made:
        if r.process.poll() is None:
            r.kill(signal.SIGTERM)


@pytest.fixture
def sender(build, tmp_path):  # noqa: F811
    made = []

    def make(name, url, *options):
        made.append(Sender(build, tmp_path, name, url, *options).start())
        return made[-1]
    yield make
    for s in made:
        s.close()


def test_tls(tls, sender, ca, certificates, ticker):  # noqa: F811
    """Certificates of both sides: everything arrives, also across restarts of the relay."""
    r = tls()
    s = sender("host", r.url, *own(certificates["host"], ca, "relay-"))
    s.ust("start", "-o", "t.spoor", "--buffers", "16M")
    p = s.program(ticker, 2, 20_011, 20)
    for _ in range(3):
        time.sleep(0.1)
        r.kill()
        r.start()
    p.wait(30)
    assert ", 0 lost" in s.end()
    wait_for(lambda: "complete" in r.said())
    assert s.ticks(r.directory / "host/t.spoor") == {(p.pid, i): list(range(20_011)) for i in range(2)}


WRONG = {
    "wrong CA": ("relay", "host", True, "certificate verify failed|self-signed|unable to get local issuer"),
    "expired": ("expired", "host", False, "certificate has expired"),
    "wrong name": ("elsewhere", "host", False, "mismatch"),
    "expired sender": ("relay", "late", False, "expired"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_certificates(tls, sender, ca, certificates, tmp_path, what):
    """Each is one clear line of the side that does not trust, and nothing is written."""
    theirs, ours, other_ca, says = WRONG[what]
    r = tls(theirs)
    trusted = Authority(tmp_path / "other") if other_ca else ca
    s = sender("host", r.url, *own(certificates[ours], trusted, "relay-"))
    s.ust("start", "-o", "t.spoor")
    wait_for(lambda: any(w in s.said() + r.said() for w in says.split("|")))
    wait_for(lambda: "certificate" in s.status())
    wait_for(lambda: "session default" in s.said())
    time.sleep(0.5)
    assert len([line for line in s.said().splitlines() if "session default" in line]) == 1, s.said()
    assert not list(r.directory.iterdir())


class Damaging(Proxy):
    """Changes one byte of what the sender sends, once it is asked to."""
    armed = False

    def carry(self, pair, source):
        near, far, _ = pair
        to = far if source is near else near
        try:
            data = bytearray(source.recv(65536))
            if self.armed and data and source is near:
                data[-1] ^= 1
                self.armed = False
            if not data:
                raise OSError
            to.sendall(data)
        except OSError:
            self.drop(pair)


def test_damaged_on_the_way(build, tmp_path, sender, ca, ticker):  # noqa: F811
    """It is no certificate's fault, is said as what it is, and the next connection brings all."""
    r = Relay(build, tmp_path / "relayed", *own(ca.issue("here", "IP:127.0.0.1"), ca), scheme="tls").start()
    proxy = Damaging(r.port)
    try:
        s = sender("host", proxy.url.replace("tcp", "tls"), *own(ca.issue("one", "DNS:one"), ca, "relay-"))
        s.ust("start", "-o", "t.spoor")
        wait_for(lambda: written(r.directory, "manifest"))
        proxy.armed = True
        p = s.program(ticker, 1, 1009, 20)
        p.wait(30)
        wait_for(lambda: "1 reconnect" in s.status())
        assert "what the other side sent was damaged on the way (decryption failed" in r.said(), r.said()
        assert "certificate" not in s.said() + r.said()
        assert ", 0 lost" in s.end()
        wait_for(lambda: "complete" in r.said())
        assert s.ticks(r.directory / "host/t.spoor") == {(p.pid, 0): list(range(1009))}
    finally:
        proxy.close()
        r.kill(signal.SIGTERM)


def test_network_that_stands_still(build, tmp_path, sender, ca, ticker):  # noqa: F811
    """For longer than a sender waits before it asks whether somebody is there: what it asks waits behind what it had
    begun to send, which TLS takes for granted. The connection goes on."""
    r = Relay(build, tmp_path / "relayed", *own(ca.issue("still", "IP:127.0.0.1"), ca), scheme="tls").start()
    proxy = Proxy(r.port)
    proxy.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)  # else the system keeps megabytes on the way
    try:
        s = sender("host", proxy.url.replace("tcp", "tls"), *own(ca.issue("two", "DNS:two"), ca, "relay-"))
        s.ust("start", "-o", "t.spoor", "--buffers", "64M")
        wait_for(lambda: written(r.directory, "manifest"))
        proxy.holds = (0,)
        p = s.program(ticker, 16, 0, 200)  # what each writes in a round is one record of TLS
        wait_for(lambda: float(re.search(r"; ([\d.]+) MB wait;", s.status())[1]) > 4)
        time.sleep(5)
        proxy.holds = ()
        s.finish(p)
        assert ", 0 lost" in s.end()
        wait_for(lambda: "complete" in r.said())
        assert "TLS" not in s.said() + r.said() and len(proxy.carried) == 1, (s.said(), r.said())
    finally:
        proxy.close()
        r.kill(signal.SIGTERM)


def test_no_client_certificate(tls, ca):
    """Nobody comes in without one."""
    r = tls()
    trust = ssl.create_default_context(cafile=str(ca.pem))
    with socket.create_connection((ADDRESS, r.port), timeout=10) as s, pytest.raises(OSError):
        with trust.wrap_socket(s, server_hostname=ADDRESS) as t:
            t.sendall(hello())
            assert not t.recv(4096)
            raise OSError("closed")
    wait_for(lambda: "did not return a certificate" in r.said())
    assert not list(r.directory.iterdir())


def test_another_certificate(tls, sender, ca, certificates, ticker, build):  # noqa: F811
    """A trace is the certificate's that began it: another one cannot go on with it."""
    r = tls()
    s = sender("host", r.url, *own(certificates["host"], ca, "relay-"))
    s.ust("start", "-o", "t.spoor")
    wait_for(lambda: written(r.directory, "manifest"))
    s.kill()
    s.options = ["--relay", r.url, "--host-name", "host", *own(certificates["elsewhere"], ca, "relay-")]
    run = subprocess.run([build / "spoor", "daemon", "--socket", s.socket, *s.options], capture_output=True, text=True,
                         timeout=20)
    assert run.returncode == 1 and "another certificate" in run.stderr, run.stderr


def run_spoor(build, *words):
    return subprocess.run([build / "spoor", *map(str, words)], capture_output=True, text=True, timeout=20)


def test_wrong_words(build, tmp_path, ca, certificates):
    """One line, and the exit code says whose mistake it is."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "closed").mkdir(mode=0o500)
    subprocess.run(["openssl", "pkey", "-in", certificates["host"][1], "-aes256", "-passout", "pass:word", "-out",
                    tmp_path / "locked"], check=True)
    relay = [
        (["-o", tmp_path / "r", "--listen", "tcp://0.0.0.0:1"], 2, "only encrypted"),
        (["-o", tmp_path / "r", "--listen", "tcp://[::]:1"], 2, "only encrypted: tls://[::]:1,"),
        (["-o", tmp_path / "r", "--listen", "http://localhost"], 2, "no address of a relay"),
        (["-o", tmp_path / "r", "--listen", "tcp://127.0.0.1:99999"], 2, "no address of a relay"),
        (["-o", tmp_path / "r", "--listen", "tcp://[::1"], 2, "no address of a relay"),
        (["-o", tmp_path / "r", "--listen", "tcp://127.0.0.1:"], 2, "no address of a relay"),
        (["-o", tmp_path / "r", "--listen", "tls://127.0.0.1:0"], 2, "needs --ca and --cert\n"),
        (["-o", tmp_path / "r", "--ca", "x"], 2, "for tls://"),
        (["-o", tmp_path / "r", "--max-clients", "0"], 2, "--max-clients"),
        (["-o", tmp_path / "r", "--patience", "long"], 2, "--patience"),
        (["-o", ""], 2, "-o: an empty value"), (["-o", "r", "--ca", ""], 2, "--ca: an empty value"),
        ([], 2, "-o DIR"), (["-o", "r", "more"], 2, "no arguments"),
        (["-x"], 2, "option"),
        (["-o", tmp_path / "file"], 1, "file"), (["-o", "/proc/nowhere"], 1, "/proc/nowhere"),
        (["-o", tmp_path / "r", "--listen", "tls://127.0.0.1:0", "--ca", tmp_path / "file", "--cert", "x", "--key",
          "y"], 1, "file: no certificate of a CA"),
        (["-o", tmp_path / "r", "--listen", "tls://127.0.0.1:0", "--ca", tmp_path / "none", "--cert", "x"], 1,
         "none: cannot be read: No such file"),
        (["-o", tmp_path / "r", "--listen", "tls://127.0.0.1:0", "--ca", ca.pem, "--cert", tmp_path / "none"], 1,
         "none: cannot be read: No such file"),
        (["-o", tmp_path / "r", "--listen", "tls://127.0.0.1:0", "--ca", ca.pem, "--cert", certificates["host"][0],
          "--key", certificates["relay"][1]], 1, "relay.key: not the certificate's key"),
        (["-o", tmp_path / "r", "--listen", "tls://127.0.0.1:0", "--ca", ca.pem, "--cert", certificates["host"][0],
          "--key", certificates["host"][0]], 1, "host.pem: no key"),
        (["-o", tmp_path / "r", "--listen", "tls://127.0.0.1:0", "--ca", ca.pem, "--cert", certificates["host"][0],
          "--key", tmp_path / "locked"], 1, "locked: the key has a passphrase"),
    ]
    for words, code, says in relay:
        run = run_spoor(build, "relay", *words)
        assert run.returncode == code and says in run.stderr and run.stderr.count("\n") == 1, (words, run.stderr)
    daemon = [
        (["--relay", "tcp://192.0.2.1"], "only encrypted"), (["--relay", "relay.example"], "no address of a relay"),
        (["--relay", "tls://a b"], "no address of a relay"), (["--relay", "tls://localhost"], "--relay-cert"),
        (["--relay", "tls://localhost", "--relay-ca", "x"], "needs certificates: --relay-ca and --relay-cert\n"),
        (["--relay-ca", "x"], "for --relay"),
        (["--relay", "tcp://localhost", "--relay-memory", "3"], "--relay-memory"),
        (["--relay", "tcp://localhost", "--relay-memory", "5G"], "--relay-memory: at most 4G"),
        (["--host-name", "x"], "for --relay"), (["--relay", ""], "empty"),
    ]
    for words, says in daemon:
        run = run_spoor(build, "daemon", "--socket", tmp_path / "s", *words)
        assert run.returncode == 2 and says in run.stderr and run.stderr.count("\n") == 1, (words, run.stderr)


def test_port_taken(build, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as s:
        run = run_spoor(build, "relay", "-o", tmp_path / "r", "--listen", f"tcp://127.0.0.1:{s.getsockname()[1]}")
    assert run.returncode == 1 and "Address already in use" in run.stderr


@pytest.fixture
def relay(build, tmp_path):
    r = Relay(build, tmp_path / "relayed", "--max-clients", "64").start()
    yield r
    if r.process.poll() is None:
        assert r.kill(signal.SIGTERM) == 0


def speak(relay, data, answer=True):
    """What the relay says to that, until it closes the connection or is silent for a while."""
    said = b""
    with socket.create_connection(("127.0.0.1", relay.port)) as s:
        s.settimeout(5)
        try:
            s.sendall(data)
            while answer and (got := s.recv(65536)):
                said += got
                s.settimeout(0.3)
        except OSError:
            pass
    return said


def types(said):
    found = []
    while len(said) >= 16:
        size, kind = struct.unpack_from("<IH", said)
        found.append(kind)
        said = said[size:]
    return found


def test_versions(relay, sender, build):
    """Both sides say it."""
    said = speak(relay, hello(version=7))
    assert types(said) == [3] and b"speaks version 7, this relay speaks version 3" in said
    assert "speaks version 7" in relay.said()
    with socket.create_server(("127.0.0.1", 0)) as other:
        s = sender("host", f"tcp://127.0.0.1:{other.getsockname()[1]}")
        s.ust("start", "-o", "t.spoor")
        c, _ = other.accept()
        assert len(c.recv(4096)) == len(hello())
        body = b"SPOORREL" + struct.pack("<II", 9, 0) + b"more of a later version" * 3
        c.sendall(head(2, 16 + len(body)) + body)
        wait_for(lambda: "the relay speaks version 9" in s.status() and "speaks version 9" in s.said())


def test_refused_for_no_error_there_is(relay, sender, tmp_path):
    """The daemon does not take it for a session that goes on, and gives none up."""
    s = sender("host", relay.url)
    s.ust("start", "-o", "t.spoor")
    wait_for(lambda: (relay.directory / "host").exists())
    s.kill()
    relay.kill()
    with socket.create_server(("127.0.0.1", relay.port)) as other:
        other.settimeout(60)
        s.process = subprocess.Popen([relay.build / "spoor", "daemon", "--socket", s.socket, *s.options], text=True,
                                     stderr=subprocess.PIPE)
        c, _ = other.accept()
        c.settimeout(60)
        assert len(c.recv(4096)) == len(hello())
        c.sendall(head(3, 288) + b"SPOORREL" + struct.pack("<II", 3, 0xffffffff) + b"not you".ljust(256, b"\0"))
        said = s.process.communicate(timeout=60)[1]
    assert s.process.returncode == 1 and "the relay refuses: not you" in said, said
    assert "t.spoor" in (s.cwd / "ust.sock.state").read_text()


HOSTILE = {
    "garbage": os.urandom(100_000),
    "zeros": bytes(5000),
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "huge": struct.pack("<IHHQ", 0xffffffff, 1, 0, 0) + bytes(1000),
    "operation first": op(16, 1),
    "up": hello(host=b".."), "path": hello(host=b"a/b"), "absolute": hello(name=b"/etc/passwd"),
    "hidden": hello(name=b".relay"), "no end": hello(host=b"a" * 64), "empty": hello(host=b""),
    "line": hello(name=b"a\nb"), "parts": hello(parts=0),
    "gap in numbers": hello() + op(16, 2), "twice": hello() + op(16, 1) + op(16, 1), "zero": hello() + op(16, 0),
    "gap in a file": SESSION + op(19, 8, offset=1 << 30, data=b"x"),
    "no such part": hello() + op(16, 1, part=0),
    "no such lane": hello() + op(16, 1) + op(19, 2, instance=64, data=b"x"),
    "segment 0": hello() + op(16, 1, segment=0), "segment": hello() + op(16, 1, segment=0xffffffff),
    "end of a number": hello() + op(16, 1) + op(19, 2, offset=2**64 - 1, data=b"xx"),
    "two greetings": hello() + hello(),
    "resume of nothing": hello(kind=2),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile(relay, what):
    """It is disconnected, nothing is outside, and another one is served."""
    speak(relay, HOSTILE[what])
    assert relay.process.poll() is None
    if what not in ("http", "garbage", "zeros", "huge"):
        assert "disconnected" in relay.said()
    good = speak(relay, hello(host=b"other", name=b"good.spoor", token=b"g" * 16) + op(16, 1) + op(18, 2))
    assert types(good)[0] == 2 and 5 in types(good)
    assert {p.name for p in relay.directory.iterdir()} <= {"h", "other"}
    assert {p.name for p in relay.directory.parent.iterdir()} <= {"relayed", "relayed.log"}


@pytest.mark.parametrize("flag, says", [(1, "complete"), (0, "not in order")])
def test_end(relay, flag, says):
    """How a trace ended is what its sender says."""
    assert types(speak(relay, hello() + op(16, 1) + op(22, 2, flag=flag)))[0] == 2
    wait_for(lambda: f" {says}\n" in relay.said())


def test_mutations(relay):
    """Sound conversations with bytes changed, cut, repeated."""
    rng = random.Random(11)
    for turn in range(300):
        data = bytearray(SESSION + op(22, 8, flag=1))
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.choice([0, 1, 0xff, 0x7f, rng.randrange(256)])
        speak(relay, bytes(data[:rng.randrange(len(data))]), answer=False)
    assert relay.process.poll() is None
    good = speak(relay, hello(host=b"other", token=b"g" * 16) + op(16, 1))
    assert types(good)[0] == 2
    assert rss_kb(relay.process.pid) < 64 << 10


def test_strangers_fill_no_log(relay):
    """Some of those that are refused are named; all are counted, also as the relay ends. Senders are named as ever."""
    for i in range(307):
        speak(relay, HOSTILE["http" if i % 2 else "up"])
    assert types(speak(relay, hello(name=b"good.spoor") + op(16, 1)))[0] == 2
    named = relay.said().count(": disconnected\n")
    assert 10 <= named <= 30 and "h/good.spoor: receiving" in relay.said(), named
    relay.kill(signal.SIGTERM)
    named = relay.said().count(": disconnected\n")
    more = re.findall(r"(\d+) more connections were refused or broken off\n", relay.said())
    assert more and named + sum(map(int, more)) == 307, relay.said()


def test_somebody_elses_trace(relay):
    """Without the secret there is no way to it: another trace is begun."""
    speak(relay, SESSION)
    said = speak(relay, hello(token=b"x" * 16))
    assert b"t-2.spoor" in said
    said = speak(relay, hello(token=b"y" * 16, kind=2))
    assert types(said) == [3]
    said = speak(relay, hello(token=b"y" * 16, acked=5))
    assert types(said) == [3] and b"is not in its directory" in said


def test_many_idle(relay, sender, ticker):  # noqa: F811
    """500 connections that say nothing: who has something to say is served, memory stays."""
    idle = [socket.create_connection(("127.0.0.1", relay.port)) for _ in range(500)]
    s = sender("host", relay.url)
    s.ust("start", "-o", "t.spoor")
    p = s.program(ticker, 1, 1009)
    p.wait(20)
    idle += [socket.create_connection(("127.0.0.1", relay.port)) for _ in range(100)]
    assert ", 0 lost" in s.end()
    wait_for(lambda: "complete" in relay.said())
    assert s.ticks(relay.directory / "host/t.spoor") == {(p.pid, 0): list(range(1009))}
    assert rss_kb(relay.process.pid) < 64 << 10
    for c in idle:
        c.close()


def test_many_traces_without_their_senders(build, tmp_path):
    """Who begins one after the other and goes away does not use up the relay; who comes back goes on."""
    r = Relay(build, tmp_path / "relayed", "--max-clients", "4").start()
    try:
        before = len(os.listdir(f"/proc/{r.process.pid}/fd"))
        for i in range(20):
            assert types(speak(r, hello(name=b"t%d.spoor" % i, token=b"%016d" % i) + op(16, 1)))[0] == 2
        assert len(os.listdir(f"/proc/{r.process.pid}/fd")) < before + 30
        assert r.said().count("too many senders are away") >= 15
        said = speak(r, hello(name=b"t0.spoor", token=b"%016d" % 0, acked=1) + op(18, 2))
        assert types(said)[0] == 2 and b"t0.spoor" in said and 5 in types(said)
    finally:
        r.kill(signal.SIGTERM)


def test_tls_begins_at_once(sender, ca, certificates):
    """A sender that has connected says its first word then, each time, and not when it looks again by itself."""
    with socket.create_server((ADDRESS, 0)) as listener:
        listener.settimeout(10)
        s = sender("host", f"tls://{ADDRESS}:{listener.getsockname()[1]}", *own(certificates["host"], ca, "relay-"))
        s.ust("start", "-o", "t.spoor")
        waits = []
        for _ in range(4):
            with listener.accept()[0] as c:
                came = time.monotonic()
                c.settimeout(5)
                assert c.recv(1) == b"\x16"
                waits.append(time.monotonic() - came)
    assert sorted(waits)[1] < 0.5, waits


def test_half_a_handshake(tls, sender, ca, certificates, ticker):  # noqa: F811
    """Connections that shake no hands, or half of one, keep nobody waiting, and are closed."""
    r = tls()
    half = [socket.create_connection((ADDRESS, r.port)) for _ in range(50)]
    for i, c in enumerate(half):
        c.sendall(b"\x16\x03\x01\x02\x00\x01" if i % 2 else b"\x16")
    s = sender("host", r.url, *own(certificates["host"], ca, "relay-"))
    s.ust("start", "-o", "t.spoor")
    s.program(ticker, 1, 1009).wait(20)
    assert ", 0 lost" in s.end()
    wait_for(lambda: "complete" in r.said())
    half[0].settimeout(15)
    try:
        assert half[0].recv(100) == b""
    except ConnectionResetError:
        pass
    for c in half:
        c.close()


def test_daemon_waits_for_the_relay(build, tmp_path, sender, relay, ticker):  # noqa: F811
    """A daemon that is started again while its relay is away waits, can be ended, and goes on when it is there."""
    s = sender("host", relay.url)
    s.ust("start", "-o", "t.spoor")
    p = s.program(ticker, 1, 0, 500)
    wait_for(lambda: written(relay.directory, "lane0"))
    relay.kill()
    s.kill()
    words = [build / "spoor", "daemon", "--socket", s.socket, *s.options]
    waiting = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    assert "what it has" in waiting.stderr.readline()
    time.sleep(1)
    assert waiting.poll() is None
    waiting.send_signal(signal.SIGTERM)
    assert waiting.wait(10) == 1
    relay.start()
    s.start()
    wait_for(lambda: f"{p.pid} ticker" in s.status())
    time.sleep(0.3)
    s.finish(p)
    assert ", 0 lost" in s.end()
    wait_for(lambda: "complete" in relay.said())
    (numbers,) = s.ticks(relay.directory / "host/t.spoor").values()
    assert numbers == list(range(len(numbers))) and len(numbers) > 1000
