# SPDX-License-Identifier: GPL-2.0-or-later
"""A recorder that says nonsense, or nothing: the program does what it would have done."""
import ctypes
import errno
import os
import random
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest
import tracing
from daemons import Daemon, behind, counters, daemon, keeper_pid, listed, ticker  # noqa: F401
from fakeprogram import ARENA, DONE, END, RECORD, RULE, SETUP, board, message
from processes import wait_for

KICK = 0x53504f4f524b494b # agent/control/protocol.h


def session_setup(flags=3, n_rules=1, buffers=0, n_channels=1, session=1, mode=0, packet=0, share=1, block=0,
                  contexts=0, left=0, answers=1):
    channel = struct.pack("<32sIIIIIIII", b"c", mode, packet, share, block, contexts, 0, 0, 0)
    return message(SETUP, struct.pack("<IIQIIHHI", flags, n_rules, buffers, n_channels, session, left, answers, 0) +
                   channel * 8)


def rule(enable=1, channels=1, level=255, kind=0, pattern=b"*", filter=b"", session=1):
    return message(RULE, struct.pack("<IBBBB4x256s500s", session, enable, channels, level, kind, pattern, filter))


def record(on, session=1):
    return message(RECORD, struct.pack("<IIII", session, on, 0, 0))


def end(session=1):
    return message(END, struct.pack("<II", session, 0))


def wrong(kind=SETUP, **how):
    """A session that would be recorded, but for the head of its first message."""
    return [message(kind, session_setup()[16:], **how), rule()]


REFUSED = {  # whole: nothing of it is done
    "nothing": [],
    "wrong magic": wrong(magic=7),
    "wrong version": wrong(version=77),
    "wrong size": [session_setup()[:8] + struct.pack("<I", 40) + session_setup()[12:40], rule()],
    "lying size": wrong(size=17),
    "cut": [session_setup()[:500], rule()],
    "unknown": wrong(99),
    "no channels": [session_setup(n_channels=0), rule()],
    "many channels": [session_setup(n_channels=9), rule()],
    "rules without setup": [rule(), rule()],
    "record without setup": [record(1)],
}
SAYS = REFUSED | {
    "too large": [message(SETUP, bytes(9000))],
    "eight channels": [session_setup(n_channels=8, n_rules=2), rule(channels=128),
                       rule(channels=8, pattern=b"zoo:tick")],
    "channel of none": [session_setup(), rule(channels=200)],
    "no memory has so much": [session_setup(buffers=1 << 62), rule()],
    "hardly any buffers": [session_setup(buffers=1), rule()],
    "odd packets": [session_setup(packet=4095), rule()],
    "huge packets": [session_setup(packet=0xffffffff), rule()],
    "unknown mode": [session_setup(mode=77), rule()],
    "long block": [session_setup(mode=2, buffers=65536, block=300), rule()],
    "all contexts": [session_setup(contexts=0xffffffff), rule()],
    "fewer rules than said": [session_setup(n_rules=1000), rule()],
    "end at once": [session_setup(), rule(), end()],
    "on and off": [session_setup(), rule()] + [record(i % 2) for i in range(40)],
    "sessions without end": [m for i in range(20)
                             for m in (session_setup(session=i + 1, left=19 - i), rule(session=i + 1))],
    "more sessions than came": [session_setup(left=7), rule()],
    "never an answer": [m for i in range(9) for m in (session_setup(answers=0, session=i + 1), rule(session=i + 1))],
    "ends of others": [end(7), session_setup(), end(0), rule(), record(1, session=0), end(9)],
    "all channels": [session_setup(n_channels=8), rule(channels=255)],
    "sessions come and go": [m for i in range(40) for m in (session_setup(session=i + 1), rule(session=i + 1),
                                                           end(i + 1))],
    "pattern without NUL": [session_setup(), rule(pattern=b"*" * 256, filter=b"x" * 500)],
    "binary pattern": [session_setup(n_rules=2), rule(pattern=bytes(range(1, 256))), rule(pattern=b"[!*?\\" * 20)],
}


def kick(program):
    """It looks at its socket: after its first millisecond it does not do that by itself."""
    value = ctypes.c_void_p(KICK)
    assert ctypes.CDLL(None).sigqueue(program.pid, signal.SIGURG, value) == 0


class Recorder(threading.Thread):
    """Says that to everybody who comes, and does not listen."""

    def __init__(self, path, says):
        super().__init__(daemon=True)
        self.says, self.came, self.kept, self.messages = says, 0, [], []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(str(path))
        self.socket.listen(100)
        self.start()

    def run(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            self.came += 1
            self.kept.append(peer)
            try:
                for m in self.says:
                    peer.send(m)
            except OSError:
                pass

    def heard(self, kind):
        """What programs have said to it of this kind."""
        for peer in self.kept:
            while True:
                try:
                    m = peer.recv(8192, socket.MSG_DONTWAIT)
                except ConnectionResetError:  # what it had not read when it ended; what it said comes all the same
                    continue
                except BlockingIOError:
                    break
                if not m:
                    break
                self.messages.append(m)
        return [m for m in self.messages if struct.unpack_from("<IHH", m)[2] == kind]

    def offered(self):
        """How many buffers programs have offered to it."""
        return len(self.heard(ARENA))

    def close(self):
        """Its thread is gone: it takes nobody who comes to the next socket of that number."""
        self.socket.shutdown(socket.SHUT_RDWR)
        self.join(20)
        self.socket.close()


def run(build, ticker, path, *args, seconds=20):
    env = tracing.environment(build, None, SPOOR_UST_SOCKET=path)
    begin = time.monotonic()
    done = subprocess.run([ticker, *map(str, args)], env=env, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0 and done.stdout == "ready\n" and not done.stderr, done
    return time.monotonic() - begin


def check_unharmed(build, ticker, path, recorder):
    """Returns how many buffers were offered."""
    try:
        assert run(build, ticker, path, 3, 2000, 20, "fork") < 10
        assert recorder.came
        return recorder.offered()
    finally:
        recorder.close()


@pytest.mark.parametrize("what", SAYS)
def test_nonsense(build, ticker, tmp_path, what):
    """(A recorder that answers late may see no buffers of what is not refused.)"""
    offered = check_unharmed(build, ticker, tmp_path / "sock", Recorder(tmp_path / "sock", SAYS[what]))
    assert not offered or what not in REFUSED


@pytest.mark.parametrize("on", ["on", "off"])
def test_setup_that_fails_while_it_records(build, ticker, tmp_path, on):
    """What held before goes on to hold, but that it is to be off; rules that come later hold at once."""
    again = session_setup(3 if on == "on" else 1)
    recorder = Recorder(tmp_path / "s", [session_setup(), rule(pattern=b"zoo:tick"), again, rule(channels=200),
                                         rule(pattern=b"zoo:rare")])
    env = tracing.environment(build, None, SPOOR_UST_SOCKET=tmp_path / "s")
    p = subprocess.Popen([ticker, "1", "0", "100"], env=env, stdout=subprocess.PIPE)
    try:
        wait_for(lambda: recorder.came)
        wait_for(lambda: kick(p) or len(recorder.heard(DONE)) == 3)
        assert [struct.unpack_from("<i", m, 16)[0] for m in recorder.heard(DONE)] == [1, -errno.EINVAL, 1]
        states = {e: site["state"] for e, site in listed(Daemon(build, tmp_path), p.pid).items()}
        assert states == {"zoo:tick": on, "zoo:rare": on}
    finally:
        p.kill()
        p.wait()
        recorder.close()


def test_random(build, ticker, tmp_path):
    random.seed(3)
    for turn in range(30):
        says = []
        for _ in range(random.randrange(1, 8)):
            m = bytearray(random.choice([session_setup(n_rules=random.randrange(3)), rule(), message(RECORD, bytes(8)),
                                         end()]))
            for _ in range(random.randrange(4)):
                m[random.randrange(16, len(m)) if len(m) > 16 else 0] = random.randrange(256)
            says.append(bytes(m))
        path = tmp_path / f"sock{turn}"
        recorder = Recorder(path, says)
        run(build, ticker, path, 2, 500, 20)
        recorder.close()


def least(ways, times=31):
    """Of each way to run a program, in turns: seconds. What else the machine does only adds to them."""
    took = [[] for _ in ways]
    for _ in range(times):
        for way, t in zip(ways, took):
            t.append(way())
    return [min(t) for t in took]


def test_silence_costs_a_millisecond(build, ticker, tmp_path):
    """A private recorder that hangs: the program begins as it would without one."""
    recorder = Recorder(tmp_path / "sock", [])
    hung, none = least([lambda: run(build, ticker, tmp_path / "sock", 1, 1),
                        lambda: run(build, ticker, tmp_path / "nobody", 1, 1)])
    wait_for(lambda: recorder.came >= 31)
    assert hung - none < 0.006  # with a socket more, on a machine that does other things


def test_no_sites_no_question(build, tmp_path):
    """Programs that could not be traced do not ask who traces them."""
    recorder = Recorder(tmp_path / "sock", [])
    env = tracing.environment(build, None, SPOOR_UST_SOCKET=tmp_path / "sock")
    subprocess.run(["sh", "-c", "/bin/true; /bin/true"], env=env, check=True, timeout=20)
    assert not recorder.came


def test_stopped_daemon(daemon, ticker):
    """It answers nothing, and costs programs nothing; what they do from main() on it has when it goes on."""
    daemon.ust("start", "-o", "t.spoor")
    before = daemon.program(ticker, 1, 7)
    before.wait(20)
    daemon.process.send_signal(signal.SIGSTOP)
    stopped, none = least([lambda: run(daemon.build, ticker, daemon.socket, 2, 101),
                           lambda: run(daemon.build, ticker, daemon.cwd / "nobody", 2, 101)])
    daemon.process.send_signal(signal.SIGCONT)
    assert ", 0 lost" in daemon.ust("end").stdout
    ticks = daemon.ticks()
    assert len(ticks) == 1 + 31 * 2
    assert all(n == list(range(101)) for (pid, _), n in ticks.items() if pid != before.pid)
    assert stopped - none < 0.008  # with the buffers that it makes


def test_nobody_there(daemon, ticker):
    """As long takes a program whose daemon is not there, and which waits where nobody hears it."""
    daemon.ust("start", "-o", "t.spoor")
    keeper = keeper_pid(f"{daemon.socket}.keeper")
    daemon.kill(signal.SIGTERM)
    os.kill(keeper, signal.SIGSTOP)
    waiting, none = least([lambda: run(daemon.build, ticker, daemon.socket, 2, 101),
                           lambda: run(daemon.build, ticker, daemon.cwd / "nobody", 2, 101)])
    os.kill(keeper, signal.SIGCONT)
    daemon.start()
    assert ", 0 lost" in daemon.ust("end").stdout
    assert list(daemon.ticks().values()) == [list(range(101))] * 31 * 2
    assert waiting - none < 0.008  # with the buffers that it makes


def test_without_a_board(daemon, ticker, tmp_path):
    """The socket alone, as in a container, of a daemon that does not answer in time: joined late, and that is said."""
    daemon.ust("start", "-o", "t.spoor")
    os.link(daemon.socket, tmp_path / "mounted")
    daemon.process.send_signal(signal.SIGSTOP)
    counter = counters(tmp_path / "counter", 1)
    p = daemon.program(ticker, 1, 0, 500, SPOOR_UST_SOCKET=str(tmp_path / "mounted"), TICKER_COUNTER=counter)
    wait_for(lambda: behind(counter)[0])
    daemon.process.send_signal(signal.SIGCONT)
    wait_for(lambda: f"{p.pid} ticker" in daemon.ust("status").stdout)
    wait_for(lambda: ", joined late" in daemon.ust("status").stdout)
    time.sleep(0.3)
    assert "1 of them joined late" in daemon.ust("end").stdout
    assert daemon.ticks()[p.pid, 0][0] > 0
    report = subprocess.run([daemon.build / "spoor", "report", "t.spoor"], cwd=daemon.cwd, text=True,
                            capture_output=True)
    assert "Late: 1 program" in report.stdout


REFUSED_BOARDS = {
    "empty file": b"",
    "cut head": board()[:17],
    "cut note": board(session_setup(), rule())[:-500],
    "wrong magic": board(session_setup(), rule(), magic=7),
    "wrong version": board(session_setup(), rule(), version=77),
    "more notes than there can be": board(session_setup(), rule(), n_notes=0xffffffff),
    "rules first": board(rule(), rule(), session_setup()),
    "no channels": board(session_setup(n_channels=0), rule()),
    "of others": board(session_setup(), (1, 1, rule())),
    "other messages": board(message(END, bytes(8)), message(RECORD, bytes(8)), message(99, bytes(100))),
}
BOARDS = REFUSED_BOARDS | {
    "good": board(session_setup(), rule()),
    "more notes than there are": board(session_setup(), rule(), n_notes=1000),
    "more rules than there are": board(session_setup(n_rules=0xffffffff), rule()),
    "many sessions": board(*[m for i in range(40) for m in (session_setup(session=i + 1), rule(session=i + 1))]),
    "binary": board(session_setup(n_rules=2), rule(pattern=bytes(range(1, 256))), rule(pattern=b"[!*?\\" * 20)),
}


@pytest.mark.parametrize("what", BOARDS)
def test_boards(build, ticker, tmp_path, what):
    recorder = Recorder(tmp_path / "sock", [])
    (tmp_path / "sock.sessions").write_bytes(BOARDS[what])
    assert bool(check_unharmed(build, ticker, tmp_path / "sock", recorder)) == (what not in REFUSED_BOARDS)


def test_random_boards(build, ticker, tmp_path):
    random.seed(4)
    recorder = Recorder(tmp_path / "sock", [])
    for _ in range(40):
        text = bytearray(board(session_setup(n_rules=random.randrange(3)), rule(), rule(), session_setup(session=2),
                               rule(session=2)))
        for _ in range(random.randrange(8)):
            text[random.randrange(len(text))] = random.randrange(256)
        (tmp_path / "sock.sessions").write_bytes(text)
        run(build, ticker, tmp_path / "sock", 2, 300, 20)
    recorder.close()
