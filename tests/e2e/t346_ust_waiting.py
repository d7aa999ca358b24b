# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that come, and mostly end, while no daemon is there: the next one has all of them, from their start."""
import contextlib
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest

from daemons import PATIENCE, counters, daemon, exactly, in_a_row, keeper_pid, ticker  # noqa: F401
from fakeprogram import FORKED, RECORD, RULE, Arena, Program
from processes import children, has_ended, sleeps_in, tell, wait_for
from t314_ust_hostile_recorder import rule, session_setup

GONE = [signal.SIGTERM, signal.SIGKILL]
POLL = 7  # the system call


def by_thread(daemon, name="t.spoor"):
    return {thread: n for (_, thread), n in daemon.ticks(name).items()}


def begin_and_end(daemon, ticker, first, n, **env):
    for i in range(first, first + n):
        assert daemon.program(ticker, 1, 4, TICKER_FIRST=str(i), **env).wait(PATIENCE) == 0


def end(daemon, name="default"):
    said = daemon.ust("end", "-s", name).stdout
    assert ", 0 lost" in said and "late" not in said and "no room" not in said, said
    return said


@pytest.mark.parametrize("number", GONE)
def test_begin_and_end_without_a_daemon(daemon, ticker, number):
    """Once each, in all sessions, over several daemons; and those of rules for other processes are not there."""
    daemon.ust("start", "-s", "a", "-o", "a.spoor", "-e", "zoo:tick")
    daemon.ust("start", "-s", "b", "-o", "b.spoor", "-e", "zoo:tick")
    for round_ in range(3):
        begin_and_end(daemon, ticker, 10 * round_, 3)
        daemon.kill(number)
        begin_and_end(daemon, ticker, 10 * round_ + 3, 7)
        daemon.start()
    for name in "ab":
        assert end(daemon, name).startswith("120 events of 30 programs")
        assert by_thread(daemon, f"{name}.spoor") == {i: list(range(4)) for i in range(30)}


@pytest.mark.parametrize("number", GONE)
def test_killed_while_they_wait(daemon, ticker, number):
    """Every event that is behind a program, and none that it had not begun; forked children, too, that nobody knew."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    daemon.kill(number)
    counter = counters(daemon.cwd / "counter", 4)
    programs = [daemon.program(ticker, 1, 0, 100, TICKER_FIRST=str(i), TICKER_COUNTER=counter) for i in range(4)]
    for i, p in enumerate(programs):
        wait_for(lambda: struct.unpack("<4Q", counter.read_bytes())[i] > 20)
        p.kill()
        p.wait()
    daemon.start()
    end(daemon)
    exactly(daemon.ticks(), counter)


@pytest.mark.parametrize("number", GONE)
def test_children(daemon, ticker, number):
    """Forked while no daemon was there, of a program that none knows, and of one that was recorded before."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    known = daemon.program(ticker, 1, 200, 500, "fork", stdin=subprocess.PIPE, TICKER_WAITS="1")
    wait_for(lambda: f"{known.pid} ticker" in daemon.ust("status").stdout)
    daemon.kill(number)
    known.communicate(b"x", timeout=PATIENCE)
    assert daemon.program(ticker, 1, 200, 500, "fork", TICKER_FIRST="50").wait(PATIENCE) == 0
    daemon.start()
    end(daemon)
    assert by_thread(daemon) == {i: list(range(200)) for i in (0, 50, 100, 150)}


@pytest.mark.parametrize("number", GONE)
def test_while_a_daemon_ends_and_the_next_begins(daemon, ticker, number):
    """Programs that come all the time, each of some events, while daemons are told to end, are killed, and begin."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    loop = f"i=0; while [ ! -e stop ]; do TICKER_FIRST=$i {ticker} 1 4 >&2 || exit 1; i=$((i+1)); done; echo $i"
    env = daemon.environment()
    come = subprocess.Popen(["sh", "-c", loop], cwd=daemon.cwd, env=env, stdout=subprocess.PIPE, text=True,
                            stderr=subprocess.DEVNULL)
    for _ in range(8):
        time.sleep(0.1)
        daemon.kill(number)
        time.sleep(0.05)
        daemon.start()
    (daemon.cwd / "stop").touch()
    n = int(come.communicate(timeout=PATIENCE)[0])
    end(daemon)
    assert by_thread(daemon) == {i: list(range(4)) for i in range(n)} and n > 10


def test_daemon_killed_before_it_has_let_them_in(daemon, ticker):
    """It is at its socket that they came, and have ended; another daemon begins at once."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    daemon.process.send_signal(signal.SIGSTOP)
    begin_and_end(daemon, ticker, 0, 20)
    daemon.kill()
    daemon.start()
    assert end(daemon).startswith("80 events of 20 programs")
    assert by_thread(daemon) == {i: list(range(4)) for i in range(20)}


def answers(daemon):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        return s.connect_ex(str(daemon.socket)) == 0


@contextlib.contextmanager
def begins(daemon):
    """A daemon that listens at its socket, and still reads which sessions there are."""
    state, aside = daemon.cwd / "ust.sock.state", daemon.cwd / "aside"
    state.rename(aside)
    os.mkfifo(state)
    daemon.process = subprocess.Popen([daemon.build / "spoor", "daemon", "--socket", daemon.socket], cwd=daemon.cwd,
                                      stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: answers(daemon))
        yield
    finally:
        daemon.kill()
        aside.rename(state)


@pytest.mark.parametrize("keeper", ["stays", "killed"])
def test_daemon_killed_before_it_is_ready(daemon, ticker, keeper):
    """They had come to one that was killed before it knew of their session, twice, and have ended."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    pid = keeper_pid(f"{daemon.socket}.keeper")
    daemon.kill()
    if keeper == "killed":
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: has_ended(pid))
    for i in range(2):
        with begins(daemon):
            begin_and_end(daemon, ticker, 10 * i, 10)
        assert ("has ended: what" in daemon.process.stderr.read()) == (keeper == "killed" and not i)
    daemon.start()
    assert end(daemon).startswith("80 events of 20 programs")
    assert by_thread(daemon) == {i: list(range(4)) for i in range(20)}
    daemon.kill(signal.SIGTERM)
    assert not list(daemon.cwd.glob("ust.sock.[!k]*"))


def size_of(trace):
    return sum(f.stat().st_size for f in trace.rglob("lane*"))


@pytest.mark.parametrize("call", ["getsockopt", "epoll_ctl", "sendmsg", "recvmsg", "poll"])
def test_daemon_killed_while_it_lets_one_in(daemon, ticker, call):
    """Before each such call, when the program has ended already: what was taken from its socket is not lost."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    for i in range(8):
        daemon.process.send_signal(signal.SIGSTOP)
        begin_and_end(daemon, ticker, i, 1)
        before = size_of(daemon.cwd / "t.spoor")
        tracer = subprocess.Popen(["strace", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                                   f"inject={call}:signal=KILL:when={1 + i}", "-p", str(daemon.process.pid)],
                                  stderr=subprocess.PIPE, text=True)
        assert "attached" in tracer.stderr.readline()
        daemon.process.send_signal(signal.SIGCONT)
        wait_for(lambda: daemon.process.poll() is not None or size_of(daemon.cwd / "t.spoor") > before)
        daemon.kill()
        tracer.communicate(timeout=PATIENCE)
        daemon.start()
    assert end(daemon).startswith("32 events of 8 programs")
    assert by_thread(daemon) == {i: list(range(4)) for i in range(8)}


def leave_in_a_setup(daemon, p, names):
    """A recorder that is told to end when a stopped program, which was called, comes, and has said its sessions."""
    state = json.loads(Path(f"{daemon.socket}.state").read_text())
    ids = [s["id"] for s in state["sessions"] if s["name"] in names]
    assert len(ids) == len(names)
    daemon.socket.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(daemon.socket))
        listener.listen()
        p.send_signal(signal.SIGCONT)
        peer, _ = listener.accept()
        with peer, contextlib.suppress(BrokenPipeError):  # it has gone on already
            assert peer.recv(8192)
            peer.shutdown(socket.SHUT_RD)
            listener.shutdown(socket.SHUT_RD)
            for i, n in enumerate(ids):
                peer.send(session_setup(session=n, left=len(ids) - 1 - i))
                peer.send(rule(session=n))
            wait_for(lambda: select.select([peer], [], [], 0)[0])
        time.sleep(0.1)


@pytest.mark.parametrize("names", ["a", "ab"])
def test_daemon_ends_while_one_reads_its_setup(daemon, ticker, names):
    """What holds until then goes on to hold; what it was not told, of rules that are new, the next one says."""
    for name in names:
        daemon.ust("start", "-s", name, "-o", f"{name}.spoor", "-e", "zoo:tick")
    counter = counters(daemon.cwd / "counter", 1)
    p = daemon.program(ticker, 1, 0, 1000, TICKER_COUNTER=counter)
    wait_for(lambda: daemon.ust("status").stdout.count(f"{p.pid} ticker") == len(names))
    daemon.kill()
    p.send_signal(signal.SIGSTOP)
    daemon.start()
    for name in names:
        daemon.ust("enable", "-a", "-s", name, "zoo:rare")
    daemon.kill()
    leave_in_a_setup(daemon, p, names)
    daemon.start()
    wait_for(lambda: daemon.ust("status").stdout.count(f"{p.pid} ticker") == len(names))
    time.sleep(0.5)
    daemon.ust("disable", "-a", "-s", names[-1], "zoo:none")
    time.sleep(0.5)
    daemon.finish(p)
    for name in names:
        end(daemon, name)
        exactly(daemon.ticks(f"{name}.spoor"), counter)
        assert any(e["event"] == "zoo:rare" for e in daemon.events(f"{name}.spoor"))


@pytest.mark.parametrize("when", [1, 2, 3])
def test_daemon_killed_between_what_it_tells_of_a_session(daemon, ticker, when):
    """Before each message: the program has offered the buffers that it had, and not all rules; the next says them."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    counter = counters(daemon.cwd / "counter", 1)
    p = daemon.program(ticker, 1, 0, 1000, TICKER_COUNTER=counter)
    wait_for(lambda: f"{p.pid} ticker" in daemon.ust("status").stdout)
    daemon.kill()
    p.send_signal(signal.SIGSTOP)
    daemon.start()
    daemon.ust("enable", "-a", "zoo:rare")
    tracer = subprocess.Popen(["strace", "-o", "/dev/null", "-e", "trace=sendto", "-e",
                               f"inject=sendto:signal=KILL:when={when}", "-p", str(daemon.process.pid)],
                              stderr=subprocess.PIPE, text=True)
    assert "attached" in tracer.stderr.readline()
    p.send_signal(signal.SIGCONT)
    daemon.process.wait(PATIENCE)
    tracer.communicate(timeout=PATIENCE)
    daemon.start()
    wait_for(lambda: any(e["event"] == "zoo:rare" for e in daemon.so_far()))
    daemon.finish(p)
    end(daemon)
    exactly(daemon.ticks(), counter)


def traced(pid, *how):
    """strace at a process."""
    tracer = subprocess.Popen(["strace", *how, "-p", str(pid)], stderr=subprocess.PIPE, text=True)
    assert "attached" in tracer.stderr.readline()
    return tracer


def session_id(daemon):
    session, = json.loads(Path(f"{daemon.socket}.state").read_text())["sessions"]
    return session["id"]


def test_child_of_a_stopped_program_between_two_daemons(daemon, ticker, tmp_path):
    """The one has heard that it comes, and is killed, the other what it offers: it is stopped, as its parent."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    p = daemon.program(ticker, 1, 0, 500, "fork", stdin=subprocess.PIPE, TICKER_WAITS="1")
    wait_for(lambda: daemon.line(p.pid))
    daemon.ust("stop", p.pid)
    tell(p, b"x")
    child, = wait_for(lambda: children(p.pid))
    try:
        tracer = traced(child, "-o", tmp_path / "calls", "-e", "trace=sendmsg", "-e",
                        "inject=sendmsg:delay_enter=3000000:when=2")
        daemon.ust("enable", "-a", "mi:typo")  # for which it is called
        daemon.kill()
        wait_for(lambda: (tmp_path / "calls").read_text().count("\n") >= 2)
        tracer.terminate()
        tracer.communicate(timeout=PATIENCE)
        daemon.start()
        wait_for(lambda: daemon.line(child))
        time.sleep(0.5)
        assert " 0 events, 0 lost, stopped" in daemon.line(child), daemon.ust("status").stdout
        daemon.ust("start")
        wait_for(lambda: " 0 events" not in daemon.line(child))
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("when", [1, 2, 3])
def test_child_whose_socket_is_full(daemon, when):
    """What it does not take at once, of what was said since it was forked, it is told later, in the same order."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    daemon.ust("enable", "-a", "zoo:rare")
    daemon.ust("stop", "-a")
    tracer = traced(daemon.process.pid, "-o", "/dev/null", "-e", "trace=sendto", "-e",
                    f"inject=sendto:error=EAGAIN:when={when}")
    p = Program(str(daemon.socket), flags=FORKED, n_arenas=1)
    p.session = session_id(daemon)
    p.offer(Arena())
    told = [p.receive() for _ in range(3)]
    tracer.terminate()
    tracer.communicate(timeout=PATIENCE)
    assert [kind for kind, _, _ in told] == [RULE, RULE, RECORD]
    assert [body[12:20] for _, _, body in told[:2]] == [b"zoo:tick", b"zoo:rare"]


def test_more_than_can_wait(daemon, ticker):
    """Each program is there, or counted and said."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    keeper = keeper_pid(f"{daemon.socket}.keeper")
    daemon.kill(signal.SIGTERM)
    resource.prlimit(keeper, resource.RLIMIT_NOFILE, (80, 80))
    begin_and_end(daemon, ticker, 0, 30)
    daemon.start()
    said, ticks = daemon.ust("end").stdout, by_thread(daemon)
    away = daemon.summary["programs_turned_away"]
    assert 0 < len(ticks) < 30 and len(ticks) + away == 30 and all(n == list(range(4)) for n in ticks.values())
    assert any(f"{away} programs came while no daemon was there and found no room" in line for line in daemon.said)
    assert f"{away} programs found no room" in said
    report = subprocess.run([daemon.build / "spoor", "report", "t.spoor"], cwd=daemon.cwd, capture_output=True,
                            text=True, check=True).stdout
    assert f"Turned away: {away} programs" in report


def test_turned_away_counts_once(daemon, ticker):
    """Also who has ended by the time at which the keeper gets to it."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    keeper = keeper_pid(f"{daemon.socket}.keeper")
    daemon.kill(signal.SIGTERM)
    resource.prlimit(keeper, resource.RLIMIT_NOFILE, (40, 80))
    os.kill(keeper, signal.SIGSTOP)
    begin_and_end(daemon, ticker, 0, 5)
    os.kill(keeper, signal.SIGCONT)
    wait_for(lambda: sleeps_in(keeper, POLL))  # whom it has not got to the daemon lets in
    daemon.start()
    assert "5 programs found no room" in daemon.ust("end").stdout


def killed_as_it_says(daemon, when):
    """A daemon, as it says something to its keeper for the nth time."""
    run = subprocess.run(["strace", "-o", "/dev/null", "-e", "trace=sendmsg", "-e",
                          f"inject=sendmsg:signal=KILL:when={when}", daemon.build / "spoor", "daemon", "--socket",
                          daemon.socket], cwd=daemon.cwd, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    assert run.returncode and "ready" not in run.stderr


def test_more_than_can_wait_for_daemons_that_are_killed(daemon, ticker):
    """As they take over who waits: each program is there once, or counted once."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    keeper = keeper_pid(f"{daemon.socket}.keeper")
    daemon.kill()
    resource.prlimit(keeper, resource.RLIMIT_NOFILE, (90, 90))
    begin_and_end(daemon, ticker, 0, 30)
    for when in 5, 8, 11:
        killed_as_it_says(daemon, when)
    daemon.start()
    said, ticks = daemon.ust("end").stdout, by_thread(daemon)
    away = daemon.summary["programs_turned_away"]
    assert 8 < len(ticks) < 30 and len(ticks) + away == 30 and all(n == list(range(4)) for n in ticks.values())
    assert f"{away} programs found no room" in said, said


def test_sessions_of_another_version(daemon, ticker):
    """Who cannot read them does not know whether one wants him: he comes, also where no daemon is."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    daemon.kill()
    board = Path(f"{daemon.socket}.sessions")
    text = board.read_bytes()
    board.write_bytes(text[:4] + struct.pack("<H", 77) + text[6:])
    daemon.program(ticker, 1, 5).wait(20)
    daemon.start()
    assert "no program with sites came" not in daemon.ust("end").stdout


def test_other_version_while_no_daemon_is_there(daemon):
    """The next one says that he came."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    daemon.kill()
    Program(f"{daemon.socket}.waiting", version=77).sock.close()
    daemon.start()
    assert "1 program that came is not recorded: the libspoor-ust there is not of this" in daemon.ust("end").stdout


def test_keeper_is_killed(daemon, ticker):
    """While a daemon is there it starts another one; while none is, programs go on, and the next daemon says so."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    first = keeper_pid(f"{daemon.socket}.keeper")
    os.kill(first, signal.SIGKILL)
    assert "has ended" in daemon.process.stderr.readline()
    known = {None, first, daemon.process.pid}  # by whom it is begun
    wait_for(lambda: keeper_pid(f"{daemon.socket}.keeper") not in known)
    second = keeper_pid(f"{daemon.socket}.keeper")
    daemon.kill(signal.SIGTERM)
    begin_and_end(daemon, ticker, 0, 3)
    daemon.start()
    wait_for(lambda: "12 events of" in daemon.ust("status").stdout)  # what a killed keeper holds is lost
    daemon.kill(signal.SIGTERM)
    begin_and_end(daemon, ticker, 3, 3)
    waits = daemon.program(ticker, 1, 0, 500, TICKER_FIRST="6")
    os.kill(second, signal.SIGKILL)
    wait_for(lambda: not keeper_pid(f"{daemon.socket}.keeper"))
    begin_and_end(daemon, ticker, 7, 3)
    nobody = daemon.program(ticker, 1, 0, 500, TICKER_FIRST="10")
    daemon.start()
    assert any("has ended" in line and "not counted" in line for line in daemon.said)
    wait_for(lambda: daemon.so_far() and daemon.summary["programs_late"] == 1)  # before it ends, too
    for p in waits, nobody:
        wait_for(lambda: f"{p.pid} ticker" in daemon.ust("status").stdout)
        daemon.finish(p)
    said = daemon.ust("end").stdout
    assert ", 0 lost" in said and "1 of them joined late" in said
    ticks = by_thread(daemon)
    assert ticks[6][0] == 0 and in_a_row(ticks.pop(6)) and in_a_row(ticks.pop(10))
    assert ticks == {i: list(range(4)) for i in range(3)}


def test_keeper_whose_file_was_removed(daemon, ticker):
    """With its directory, say. When it ends it leaves alone what the next one has there."""
    path = f"{daemon.socket}.keeper"
    before = keeper_pid(path)
    os.kill(before, signal.SIGSTOP)
    daemon.kill(signal.SIGTERM)
    os.unlink(path)
    daemon.start()
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    keeper = keeper_pid(path)
    os.kill(before, signal.SIGCONT)
    wait_for(lambda: has_ended(before))
    assert keeper_pid(path) == keeper
    daemon.kill()
    begin_and_end(daemon, ticker, 0, 5)
    daemon.start()
    assert end(daemon).startswith("20 events of 5 programs")


def test_keeper_that_does_not_answer(daemon, ticker):
    """The daemon lets programs in itself meanwhile; and none is twice there, or nowhere, when it answers again."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    keeper = keeper_pid(f"{daemon.socket}.keeper")
    for i in range(0, 12, 4):
        os.kill(keeper, signal.SIGSTOP)
        begin_and_end(daemon, ticker, i, 2)
        daemon.process.send_signal(signal.SIGSTOP)
        begin_and_end(daemon, ticker, i + 2, 2)
        os.kill(keeper, signal.SIGCONT)
        time.sleep(0.1)
        daemon.process.send_signal(signal.SIGCONT)
    assert end(daemon).startswith("48 events of 12 programs")
    assert by_thread(daemon) == {i: list(range(4)) for i in range(12)}


def test_keeper_that_is_slow(daemon, ticker):
    """The daemon takes the answer as it lets in who came next, and is told of it once more: that is not its end."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    keeper = keeper_pid(f"{daemon.socket}.keeper")
    os.kill(keeper, signal.SIGSTOP)
    begin_and_end(daemon, ticker, 0, 1)
    time.sleep(0.5)  # it is asked, and waited for no longer
    daemon.process.send_signal(signal.SIGSTOP)
    begin_and_end(daemon, ticker, 1, 3)
    os.kill(keeper, signal.SIGCONT)
    time.sleep(0.1)
    daemon.process.send_signal(signal.SIGCONT)
    begin_and_end(daemon, ticker, 4, 1)
    assert end(daemon).startswith("20 events of 5 programs")
    assert by_thread(daemon) == {i: list(range(4)) for i in range(5)}


def names(daemon):
    """That its socket has, with a file and without."""
    return {line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if str(daemon.socket) in line}


@pytest.mark.parametrize("stopped", ["before", "behind"])
@pytest.mark.parametrize("number", GONE)
def test_keeper_that_answers_after_all(daemon, ticker, number, stopped):
    """A daemon that has waited for it in vain is found all the same, and takes what it holds when it answers."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    keeper = keeper_pid(f"{daemon.socket}.keeper")
    if stopped == "before":
        os.kill(keeper, signal.SIGSTOP)
    daemon.kill(signal.SIGTERM)
    begin_and_end(daemon, ticker, 0, 3)
    lives = daemon.program(ticker, 1, 0, 500, TICKER_FIRST="3")
    time.sleep(0.1)
    os.kill(keeper, signal.SIGSTOP)
    begin_and_end(daemon, ticker, 4, 2)
    daemon.start()
    assert "trace-keeper" in daemon.said[0] and "does not answer" in daemon.said[0] and len(daemon.said) == 3
    begin_and_end(daemon, ticker, 6, 2)
    os.kill(keeper, signal.SIGCONT)
    wait_for(lambda: daemon.line(lives.pid) and "of 8 programs" in daemon.ust("status").stdout)
    assert names(daemon) >= {f"@{daemon.socket}", f"{daemon.socket}.waiting"}
    begin_and_end(daemon, ticker, 8, 2)
    daemon.kill(number)
    begin_and_end(daemon, ticker, 10, 2)
    daemon.start()
    assert len(daemon.said) == 2
    daemon.finish(lives)
    assert "of 12 programs" in end(daemon)
    ticks = by_thread(daemon)
    assert in_a_row(ticks.pop(3)) and ticks == {i: list(range(4)) for i in range(12) if i != 3}


@pytest.mark.parametrize("answer", ["in time", "not", "killed"])
def test_end_waits_for_a_keeper_that_is_slow(daemon, ticker, answer):
    """Others are served meanwhile; what is lost after all is said of sessions that were there, by the trace, too."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    daemon.kill(signal.SIGTERM)
    begin_and_end(daemon, ticker, 0, 3)
    lives = daemon.program(ticker, 1, 0, 500, TICKER_FIRST="3")
    time.sleep(0.1)
    keeper = keeper_pid(f"{daemon.socket}.keeper")
    os.kill(keeper, signal.SIGSTOP)
    daemon.start()
    daemon.ust("start", "-s", "later", "-o", "later.spoor")
    ends = subprocess.Popen([daemon.build / "spoor", "ust", "end", "--socket", daemon.socket], text=True,
                            stdout=subprocess.PIPE)
    wait_for(lambda: "ending" in daemon.ust("status").stdout)
    begin_and_end(daemon, ticker, 4, 1)
    assert daemon.ust("status").stdout.count("is not here yet: trace-keeper does not answer") == 1
    assert "trace-keeper" not in daemon.ust("end", "-s", "later").stdout
    if answer != "not":
        os.kill(keeper, signal.SIGCONT if answer == "in time" else signal.SIGKILL)
    said = ends.communicate(timeout=20)[0]
    if answer == "not":
        os.kill(keeper, signal.SIGCONT)
    daemon.finish(lives)
    in_time = answer == "in time"
    assert said.startswith("waiting for trace-keeper") and ("and not counted" in said) != in_time
    assert ("of 4 programs" in said) == in_time, said
    ticks = by_thread(daemon)
    assert not in_time or all(ticks[i] == list(range(4)) for i in range(3))
    assert daemon.summary["held_lost"] == (not in_time)


def test_nobody_waits_for_a_keeper_that_is_slow(daemon, ticker):
    """What it is told of each program that comes finds no room in its socket at last."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    keeper = keeper_pid(f"{daemon.socket}.keeper")
    os.kill(keeper, signal.SIGSTOP)
    daemon.kill(signal.SIGTERM)
    daemon.start()
    begin_and_end(daemon, ticker, 0, 300)
    wait_for(lambda: "of 300 programs" in daemon.ust("status").stdout)  # as of its last round
    os.kill(keeper, signal.SIGCONT)
    wait_for(lambda: names(daemon) >= {f"@{daemon.socket}", f"{daemon.socket}.waiting"})
    begin_and_end(daemon, ticker, 300, 2)
    daemon.kill()
    begin_and_end(daemon, ticker, 302, 2)
    daemon.start()
    assert "of 304 programs" in end(daemon)
    assert by_thread(daemon) == {i: list(range(4)) for i in range(304)}


def test_keeper_that_stops_in_the_middle(daemon, ticker):
    """Of what it tells: nothing of a program is heard before what it said earlier."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    keeper = keeper_pid(f"{daemon.socket}.keeper")
    daemon.kill()
    lives = [daemon.program(ticker, 1, 0, 500, TICKER_FIRST=str(i)) for i in range(2)]
    begin_and_end(daemon, ticker, 2, 2)
    slow = subprocess.Popen(["strace", "-qq", "-p", str(keeper), "-o", "/dev/null", "-e", "trace=sendmsg", "-e",
                             "inject=sendmsg:delay_enter=3000000:when=5"])
    wait_for(lambda: "\nTracerPid:\t0" not in Path(f"/proc/{keeper}/status").read_text())
    daemon.start()
    assert "does not answer" in daemon.said[0]
    begin_and_end(daemon, ticker, 4, 2)
    wait_for(lambda: all(daemon.line(p.pid) for p in lives) and "of 6 programs" in daemon.ust("status").stdout)
    slow.terminate()
    slow.wait()
    for p in lives:
        daemon.finish(p)
    assert "of 6 programs" in end(daemon)
    ticks = by_thread(daemon)
    assert all(in_a_row(ticks.pop(i)) for i in range(2)) and ticks == {i: list(range(4)) for i in range(2, 6)}


def test_daemons_killed_before_the_keeper_answers(daemon, ticker):
    """It gets to what each of them said: the last one begins when it has."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    keeper = keeper_pid(f"{daemon.socket}.keeper")
    daemon.kill(signal.SIGTERM)
    begin_and_end(daemon, ticker, 0, 2)
    os.kill(keeper, signal.SIGSTOP)
    daemon.start()
    begin_and_end(daemon, ticker, 2, 2)
    daemon.process.send_signal(signal.SIGSTOP)
    begin_and_end(daemon, ticker, 4, 2)
    daemon.kill()
    later = threading.Timer(3, os.kill, (keeper, signal.SIGCONT))
    later.start()
    daemon.start()
    later.join()
    assert end(daemon).startswith("24 events of 6 programs")
    assert by_thread(daemon) == {i: list(range(4)) for i in range(6)}


@pytest.mark.parametrize("words", [["status"], ["stop"]], ids=lambda w: w[0])
def test_command_that_waited(daemon, ticker, words):
    """It is carried out when all is heard that programs said, which came after it and have ended."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    daemon.process.send_signal(signal.SIGSTOP)
    with subprocess.Popen([daemon.build / "spoor", "ust", *words, "--socket", daemon.socket]) as asks:
        begin_and_end(daemon, ticker, 0, 2)
        asks.kill()
    daemon.kill()
    begin_and_end(daemon, ticker, 2, 2)
    daemon.start()
    assert end(daemon).startswith("16 events of 4 programs")
    assert by_thread(daemon) == {i: list(range(4)) for i in range(4)}


def test_keeper_without_descriptors(daemon, ticker):
    """What it cannot hold it does not hold; a daemon that is there has it all the same."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    keeper = keeper_pid(f"{daemon.socket}.keeper")
    resource.prlimit(keeper, resource.RLIMIT_NOFILE, (3, resource.prlimit(keeper, resource.RLIMIT_NOFILE)[1]))
    begin_and_end(daemon, ticker, 0, 5)
    assert end(daemon).startswith("20 events of 5 programs")
    assert by_thread(daemon) == {i: list(range(4)) for i in range(5)}
    assert keeper_pid(f"{daemon.socket}.keeper") == keeper


def test_nothing_is_left_behind(daemon, ticker):
    """With the last session goes the place to wait; and with the last daemon whoever kept it."""
    place = daemon.cwd / "ust.sock.waiting"
    assert not place.exists()
    daemon.ust("start", "-o", "t.spoor")
    assert place.is_socket() and place.stat().st_mode & 0o777 == (daemon.cwd / "ust.sock").stat().st_mode & 0o777
    daemon.kill(signal.SIGTERM)
    assert place.is_socket()
    daemon.start()
    daemon.ust("end")
    assert not place.exists()
    daemon.kill(signal.SIGTERM)
    wait_for(lambda: not (daemon.cwd / "ust.sock.keeper").exists())
    assert not list(daemon.cwd.glob("ust.sock*"))


def test_hostile_client(daemon, ticker):
    """Whoever says garbage there, sends descriptors, never reads, and comes hundreds of times, keeps nobody out."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    daemon.kill(signal.SIGTERM)
    strangers = []
    for i in range(500):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(str(daemon.socket) + ".waiting")
        with contextlib.suppress(OSError):  # it may be thrown out at once
            for size in (0, 1, 16, 700, 1024, 1025, 60000)[-(i % 8):]:
                socket.send_fds(s, [os.urandom(size)], [0, 1, 2][:i % 4])
        strangers.append(s)
    begin_and_end(daemon, ticker, 0, 5)
    for s in strangers[::2]:
        s.close()
    daemon.start()
    assert end(daemon).startswith("20 events of 5 programs")
    assert by_thread(daemon) == {i: list(range(4)) for i in range(5)}


def test_descriptors_without_end(daemon, ticker):
    """As many are held of one as he may have buffers. (Others than memory are not held at all.)"""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    daemon.kill()
    keeper = Path(f"/proc/{keeper_pid(str(daemon.socket) + '.keeper')}/fd")
    memory, (_, pipe) = os.memfd_create("mine"), os.pipe()

    def held(what):
        n = 0
        for fd in keeper.iterdir():
            with contextlib.suppress(OSError):  # it is closed just now
                n += os.readlink(fd).startswith(what)
        return n
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s, \
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as t:
        for each, fd in (s, memory), (t, pipe):
            each.connect(str(daemon.socket) + ".waiting")
            for _ in range(60):
                socket.send_fds(each, [b"x"], [fd])
        begin_and_end(daemon, ticker, 0, 5)
        wait_for(lambda: held("/memfd:spoor-ust") == 5)
        assert held("/memfd:mine") == 16
        wait_for(lambda: not held("pipe:"))
        daemon.start()
        assert end(daemon).startswith("20 events of 5 programs")
