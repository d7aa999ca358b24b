# SPDX-License-Identifier: GPL-2.0-or-later
"""What commands to a daemon say, and leave, when things are not as they should be."""
import os
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest

from daemons import PATIENCE, daemon, ticker  # noqa: F401
from fakeprogram import COMMAND, TEXT, message
from processes import sleeps_in, state, status, wait_for


def test_the_socket_that_the_environment_names(build, tmp_path):
    """Daemon, commands and programs go by the same variable."""
    env = os.environ | {"SPOOR_UST_SOCKET": str(tmp_path / "mine.sock")}
    with subprocess.Popen([build / "spoor", "daemon"], env=env, stderr=subprocess.PIPE, text=True) as p:
        said = p.stderr.readline()
        run = subprocess.run([build / "spoor", "ust", "status"], env=env, capture_output=True, text=True)
        p.terminate()
    assert said == f"spoor daemon: ready at {tmp_path}/mine.sock\n"
    assert (run.returncode, run.stdout) == (0, "no session\n"), run


@pytest.mark.parametrize("nohup", [False, True])
@pytest.mark.parametrize("words", [["daemon", "--socket", "s"], ["relay", "-o", "d", "--listen", "tcp://127.0.0.1:0"]])
def test_hangup(build, tmp_path, words, nohup):
    """The end of the terminal ends them, unless nohup(1) started them."""
    with subprocess.Popen([*(["nohup"] if nohup else []), build / "spoor", *words], cwd=tmp_path, text=True,
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as p:
        assert "ready at" in p.stderr.readline()
        p.send_signal(signal.SIGHUP)
        wait_for(lambda: int(status(p.pid, "ShdPnd"), 16) == 0 or p.poll() is not None)
        if nohup:
            time.sleep(0.2)
            assert p.poll() is None
            p.terminate()
        assert p.wait(PATIENCE) == 0


@pytest.mark.parametrize("words", [["ust", "run"], ["stat"], ["record"]])
def test_interrupted_before_the_command(build, tmp_path, words):
    """Ctrl-C came first: who pressed it does not want the command to begin."""
    def press():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        os.kill(os.getpid(), signal.SIGINT)

    run = subprocess.run([build / "spoor", *words, "--", "touch", "ran"], cwd=tmp_path, capture_output=True, text=True,
                         preexec_fn=press, timeout=PATIENCE)
    assert run.returncode == 125 and not os.listdir(tmp_path)
    assert run.stderr == f"spoor {words[0]}: ended by a signal before the command began\n"


def is_called(pid):
    """SIGURG waits for a program that is stopped."""
    return int(status(pid, "ShdPnd"), 16) >> (signal.SIGURG - 1) & 1


@pytest.mark.parametrize("who", ["all", "one"])
def test_a_program_that_ends_before_it_answers(daemon, ticker, who):
    """It is waited for no longer than it lives, and nobody says that it takes no signal."""
    p = daemon.program(ticker, 1, 0, 500)
    daemon.ust("create", "-o", "t.spoor", "-e", "zoo:tick")
    p.send_signal(signal.SIGSTOP)
    command = [daemon.build / "spoor", "ust", "start", "--socket", daemon.socket, *[str(p.pid)] * (who == "one")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        wait_for(lambda: is_called(p.pid))
        p.kill()
        p.wait()
        said = run.communicate(timeout=PATIENCE)[0]
    assert "does not answer" not in said, said
    assert (f"{p.pid}: it has ended" in said) == (who == "one"), said
    assert run.returncode == (who == "one")


@pytest.mark.parametrize("version", [1, 4])
def test_command_of_another_version(daemon, version):
    """It is not carried out, and says so; of a daemon whose answer is of another version the client says so."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(PATIENCE)
        s.connect(str(daemon.socket))
        s.send(message(COMMAND, b"create\0-o\0t.spoor", version, serial=7))
        answer = s.recv(8192)
        assert not s.recv(8192)
    head, (last, result) = struct.unpack_from("<IHHII", answer), struct.unpack_from("<Ii", answer, 16)
    assert head == (0x43525053, 3, TEXT, len(answer), 7) and last == 1 and result == -71
    assert b"of another version" in answer[24:]
    assert daemon.ust("status").stdout == "no session\n"


def test_daemon_of_another_version(build, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.bind(str(tmp_path / "s"))
        s.listen()
        client = subprocess.Popen([build / "spoor", "ust", "status", "--socket", tmp_path / "s"],
                                  stderr=subprocess.PIPE, text=True)
        with client, s.accept()[0] as peer:
            peer.recv(8192)
            peer.send(message(TEXT, struct.pack("<Ii", 1, -71), 4))
            assert client.stderr.read() == "spoor ust: the daemon is of another version\n"
    assert client.returncode == 1


def test_failed_start_leaves_no_session(daemon, tmp_path):
    """A PID that is nobody's, and one without the library: the corrected command is as if it were the first."""
    with subprocess.Popen(["sleep", "60"]) as sleeper, subprocess.Popen(["true"]) as ended:
        ended.wait()
        for pid, why in (ended.pid, "there is none"), (sleeper.pid, "libspoor-ust is not in it"):
            run = daemon.ust("start", "-o", "t.spoor", pid, check=False)
            assert run.returncode == 1 and why in run.stderr, run
            assert daemon.ust("status").stdout == "no session\n" and not (tmp_path / "t.spoor").exists()
        sleeper.kill()
    daemon.ust("start", "-o", "t.spoor")


def test_processes_of_which_one_has_ended(daemon, ticker):
    """As what pgrep(1) found a moment ago: the others do it."""
    there = daemon.program(ticker, 1, 0, 1000)
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    for name, pids in ("one", (there.pid, ended.pid)), ("two", (ended.pid, there.pid)):
        for words in ("start", "-o", f"{name}.spoor", "-e", "zoo:tick"), ("enable", "zoo:*"):
            said = daemon.ust(words[0], "-s", name, *words[1:], *pids).stdout
            assert f"{ended.pid}: there is none\n1 program, " in said and "; 1 other did not do it" in said, said
        run = daemon.ust("enable", "-s", name, "zoo:*", ended.pid, check=False)
        assert run.returncode == 1 and f"{ended.pid}: there is none" in run.stderr, run
    wait_for(lambda: daemon.lines(there.pid))
    daemon.finish(there)
    for name in "one", "two":
        daemon.ust("end", "-s", name)
        assert daemon.ticks(f"{name}.spoor")


def test_status_of_one_session(daemon):
    for name in "one", "two":
        daemon.ust("create", "-s", name, "-o", f"{name}.spoor")
    said = daemon.ust("status", "-s", "two").stdout
    assert "session two" in said and "session one" not in said
    assert daemon.ust("status").stdout.count("session ") == 2
    run = daemon.ust("status", "-s", "three", check=False)
    assert run.returncode == 1 and run.stderr.count("\n") == 1 and "three" in run.stderr and not run.stdout


def test_status_of_processes(daemon, ticker):
    """All that are named, and no others; of one that is in no session that is said."""
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:rare")
    one, two, three = (daemon.program(ticker, 1, 0, 1000).pid for _ in range(3))
    said = daemon.ust("status", one, three, 2_000_000_000).stdout.splitlines()
    shown = [p for p in (one, two, three) if any(line.strip().startswith(f"{p} ticker") for line in said)]
    assert shown == [one, three]
    assert [line for line in said if "in no session" in line] == ["2000000000: in no session"]


def test_as_many_processes_as_can_be_named(daemon, ticker):
    """Beside all that else is said of them: none is passed over."""
    p = daemon.program(ticker, 1, 0, 1000)
    nobody = [2_000_000_000 + i for i in range(255)]
    options = ["-o", "t.spoor", "-e", "zoo:tick", "-e", "zoo:rare", "-l", "debug"]
    said = daemon.ust("start", *options, *nobody, p.pid).stdout.splitlines()
    assert len(said) == 256 and said[-1].startswith("1 program, 2 sites; 255 others"), said[-1]
    run = daemon.ust("enable", "zoo:*", *nobody, 1999999999, p.pid, check=False)
    assert run.returncode == 2 and "more than 256" in run.stderr


@pytest.mark.parametrize("what", [["-e", "mi:typo"], ["--filter", "nosuch == 3"]])
def test_programs_that_came_for_nothing(daemon, ticker, what):
    daemon.ust("start", "-o", "t.spoor", *what)
    daemon.finish(daemon.program(ticker, 1, 0, 100))
    said = daemon.ust("end").stdout
    assert "1 program came, and no event" in said and "no program with sites came" not in said


def test_daemon_that_is_stopped(daemon):
    daemon.process.send_signal(signal.SIGSTOP)
    run = daemon.ust("status", check=False)
    daemon.process.send_signal(signal.SIGCONT)
    assert run.returncode == 1 and run.stderr.count("\n") == 1 and "does not answer" in run.stderr


def blocking_urgent(argv, env):
    """A program that begins with SIGURG blocked and has no listener, being root's."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGURG})
    try:
        return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_status_tells_who_is_reached(daemon, ticker):
    daemon.ust("start", "-o", "t.spoor", "-e", "zoo:*")
    reached = daemon.program(ticker, 1, 0, 1000)
    deaf = blocking_urgent([ticker, "2", "0", "1000"], daemon.environment())
    daemon.running.append(deaf)
    assert deaf.stdout.readline() == b"ready\n"
    for p, how in (reached, "reached by signal"), (deaf, "not reached by signal: it blocks SIGURG"):
        wait_for(lambda: any(line.strip().startswith(f"{p.pid} ") and line.endswith(f", {how}")
                             for line in daemon.ust("status").stdout.splitlines()))


WAITS = """
import ctypes, os, signal, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
every = (ctypes.c_ulong * 16)(*[2**64 - 1] * 16)

def wait():
    if sys.argv[1] == "sigwait":
        return signal.sigwait(signal.valid_signals())
    info = os.read(fd, 128)
    return int.from_bytes(info[:4], "little")

def take():
    while True:
        number = wait()
        print(number, flush=True)
        if number == signal.SIGTERM:
            return

signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
fd = libc.signalfd(-1, every, 0)
print("ready", flush=True)
if sys.argv[2] == "first":
    take()
else:
    t = threading.Thread(target=take)
    t.start()
    t.join()
"""


@pytest.mark.parametrize("thread", ["first", "second"])
@pytest.mark.parametrize("how", ["sigwait", "signalfd"])
def test_who_waits_for_all_signals_has_none_of_ours(daemon, how, thread):
    """It would be one that the program does not know of; a command for it alone says why it does nothing."""
    p = daemon.program("python3", "-c", WAITS, how, thread)
    wait_for(lambda: any(sleeps_in(p.pid, nr, int(t)) for t in os.listdir(f"/proc/{p.pid}/task") for nr in (0, 128)))
    run = daemon.ust("start", "-o", "t.spoor", p.pid, check=False)
    assert run.returncode == 1 and f"{p.pid}: a thread of it waits for all signals" in run.stderr, run
    said = daemon.ust("start", "-o", "t.spoor").stdout
    assert f"{p.pid}: a thread of it waits for all signals" in said, said
    daemon.ust("stop", "-a")
    daemon.ust("end")
    p.terminate()
    assert p.wait(20) == 0 and p.stdout.read() == f"{signal.SIGTERM:d}\n".encode()


def not_recorded(daemon, name):
    """Of how many programs a trace says that they came and are not in it, in its text and in JSON."""
    daemon.events(f"{name}.spoor")
    text = subprocess.run([daemon.build / "spoor", "report", f"{name}.spoor"], cwd=daemon.cwd, capture_output=True,
                          text=True, check=True).stdout
    n = daemon.summary["programs_not_recorded"]
    assert (f"\nNot recorded: {n} program" in text) == (n > 0) == ("nothing that is known of" in text), text
    return n


def test_ninth_session_of_who_comes_later(daemon, ticker):
    for i in range(9):
        daemon.ust("start", "-s", f"s{i}", "-o", f"s{i}.spoor", "-e", "zoo:tick")
    daemon.ust("enable", "-s", "s8", "zoo:*", "-a")
    for _ in range(2):
        daemon.finish(daemon.program(ticker, 1, 0, 100))
    for i in range(9):
        assert ("as many sessions and channels" in daemon.ust("status", "-s", f"s{i}").stdout) == (i == 8)
    said = daemon.ust("end", "-s", "s8").stdout
    assert "2 programs that came are not recorded: as many sessions and channels" in said
    assert "no program with sites came" not in said
    daemon.ust("end", "-s", "s7")
    assert [not_recorded(daemon, f"s{i}") for i in (7, 8)] == [0, 2]


def test_not_recorded_survives_a_kill(daemon, ticker):
    """Its trace says of a session which programs are not in it also if nobody ends it, in its last segment, too."""
    for i in range(9):
        daemon.ust("start", "-s", f"s{i}", "-o", f"s{i}.spoor", "-e", "zoo:tick", "--rotate", "1s")
    daemon.finish(daemon.program(ticker, 1, 0, 100))
    daemon.finish(daemon.program(ticker, 1, 0, 100))
    wait_for(lambda: list((daemon.cwd / "s8.spoor").glob("*/ust/seg-000003")))
    daemon.kill()
    for i in (7, 8):
        daemon.events(f"s{i}.spoor")
        assert daemon.summary["ended"] is False and daemon.summary["programs_not_recorded"] == 2 * (i == 8)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_not_recorded_is_told_by_the_next_daemon(daemon, ticker, number):
    """Of those that have ended, and of those that come again and are refused again: once."""
    daemon.ust("start", "-o", "t.spoor", "--buffers", "500M")
    daemon.finish(daemon.program("prlimit", "--nofile=5", ticker, 1, 0, 100))
    stays = daemon.program("prlimit", "--fsize=10240", ticker, 1, 0, 100)
    line = f"2 programs that came are not recorded: {NO_BUFFERS['--fsize=10240']}; others for other reasons\n"
    wait_for(lambda: line in daemon.ust("status").stdout)
    for _ in range(2):
        daemon.kill(number)
        daemon.start()
        wait_for(lambda: f"{stays.pid} ticker: not recorded" in daemon.ust("status").stdout)
        assert line in daemon.ust("status").stdout
    daemon.finish(stays)
    said = daemon.ust("end").stdout
    assert line in said and "no program with sites came" not in said and not_recorded(daemon, "t") == 2


@pytest.mark.parametrize("what", [["-e", "mi:typo"], ["--filter", "nosuch == 3"]])
def test_for_nothing_is_told_by_the_next_daemon(daemon, ticker, what):
    daemon.ust("start", "-o", "t.spoor", *what)
    daemon.finish(daemon.program(ticker, 1, 0, 100))
    daemon.kill()
    daemon.start()
    said = daemon.ust("end").stdout
    assert "1 program came, and no event" in said and "no program with sites came" not in said


def test_more_channels_than_can_be(daemon, ticker):
    """15 in all: the program itself refuses the session that has more."""
    for name in "ab":
        daemon.ust("start", "-s", name, "-o", f"{name}.spoor",
                   *(word for k in range(8) for word in ("--channel", f"c{k}", "-e", f"zoo:tick{k or ''}")))
    p = daemon.program(ticker, 1, 0, 100)
    line = f"{p.pid} ticker: not recorded: as many sessions and channels"
    wait_for(lambda: line in daemon.ust("status", "-s", "b").stdout)
    assert line not in daemon.ust("status", "-s", "a").stdout
    daemon.finish(p)
    for name in "ab":
        assert ("1 program that came is not recorded" in daemon.ust("end", "-s", name).stdout) == (name == "b")
        assert not_recorded(daemon, name) == (name == "b")


NO_BUFFERS = {
    "--fsize=10240": "no file of the process may be as large as its buffers (ulimit -f)",
    "--nofile=5": "the process may not open one more file (ulimit -n)",
    "--as=300000000": "there is no memory, or no address space (ulimit -v), for its buffers",
}


@pytest.mark.parametrize("limit, created", [*((limit, False) for limit in NO_BUFFERS), ("--fsize=10240", True)])
def test_who_can_have_no_buffers(daemon, ticker, limit, created):
    """It is told of beside others that are recorded, and alone; also where buffers are made with a later `start`."""
    daemon.ust("create" if created else "start", "-o", "t.spoor", "--buffers", "500M")
    daemon.ust("enable", "zoo:*", "-a")
    good = daemon.program(ticker, 1, 0, 100)
    bad = daemon.program("prlimit", limit, ticker, 1, 0, 100)
    if created:
        daemon.ust("start", check=False)
    why = NO_BUFFERS[limit]
    wait_for(lambda: f"{bad.pid} ticker: not recorded: {why}\n" in daemon.ust("status").stdout)
    daemon.finish(bad)
    daemon.finish(good)
    said = daemon.ust("end").stdout
    assert " of 1 program, 0 lost" in said and f"1 program that came is not recorded: {why}\n" in said, said
    assert not_recorded(daemon, "t") == 1


@pytest.mark.parametrize("limit", NO_BUFFERS)
def test_run_of_who_can_have_no_buffers(daemon, ticker, limit):
    run = subprocess.run([daemon.build / "spoor", "ust", "run", "-o", "t.spoor", "--buffers", "500M", "--", "prlimit",
                          limit, ticker, "1", "10"], cwd=daemon.cwd, capture_output=True, text=True)
    assert run.returncode == 0 and f"spoor: 1 program that came is not recorded: {NO_BUFFERS[limit]}\n" in run.stderr
    assert "did they reach" not in run.stderr and not_recorded(daemon, "t") == 1


def test_programs_that_are_not_recorded_for_several_reasons(daemon, ticker):
    daemon.ust("start", "-o", "t.spoor", "--buffers", "500M")
    for limit in "--fsize=10240", "--nofile=5":
        daemon.finish(daemon.program("prlimit", limit, ticker, 1, 0, 100))
    assert (f"2 programs that came are not recorded: {NO_BUFFERS['--nofile=5']}; others for other reasons\n"
            in daemon.ust("end").stdout)


def test_commands_behind_one_another(daemon, ticker):
    """A client that does not wait for answers: a session that its first command ends is none for the others."""
    for _ in range(7):
        daemon.ust("start", "-o", f"t{_}.spoor")
        p = daemon.program(ticker, 1, 0, 100)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.connect(str(daemon.socket))
            for serial in 1, 2, 3:
                s.send(message(COMMAND, b"end", serial=serial))
            s.settimeout(PATIENCE)
            results = {}
            while len(results) < 3:
                answer = s.recv(4096)
                assert answer, "the daemon has ended"
                serial, last, result = struct.unpack_from("<12xIIi", answer)
                if last:
                    results[serial] = result
        assert sorted(results) == [1, 2, 3] and [r == 0 for r in results.values()].count(True) == 1, results
        daemon.finish(p)
    assert daemon.ust("status").stdout == "no session\n"


def delayed(daemon, call):
    """The daemon's next such call takes seven seconds, as on a disk that others write to."""
    tracer = subprocess.Popen(["strace", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                               f"inject={call}:delay_enter=7000000:when=1", "-p", str(daemon.process.pid)],
                              stderr=subprocess.PIPE, text=True)
    assert "attached" in tracer.stderr.readline()
    return tracer


def held_in(pid, nr):
    """A tracer holds it in that call."""
    return Path(f"/proc/{pid}/syscall").read_text().split()[0] == str(nr) and state(pid) == "t"


def undelay(tracer):
    tracer.terminate()
    tracer.communicate(timeout=60)


def test_slow_disk(daemon, ticker):
    """Who asks is told that he waits, and gets the answer; programs that have answered meanwhile are not told of."""
    p = daemon.program(ticker, 1, 0, 500)
    tracer = delayed(daemon, "pwrite64")
    wait_for(lambda: held_in(daemon.process.pid, 18))
    run = daemon.ust("status")
    undelay(tracer)
    assert run.stdout == "no session\n" and run.stderr.count("\n") == 1 and "waiting for the daemon" in run.stderr, run
    tracer = delayed(daemon, "rename")
    run = daemon.ust("start", "-o", "t.spoor", "-e", "zoo:tick")
    undelay(tracer)
    assert "1 program, 1 site" in run.stdout and "answer" not in run.stdout, run
    assert run.stderr.count("\n") == 1 and "waiting for the daemon" in run.stderr
    daemon.finish(p)
    assert ", 0 lost" in daemon.ust("end").stdout


def test_daemon_that_ends_while_it_is_asked(daemon):
    """Another one may come and answer: it is waited for as long as a daemon that is there, and no longer."""
    daemon.process.send_signal(signal.SIGSTOP)
    asks = subprocess.Popen([daemon.build / "spoor", "ust", "status", "--socket", daemon.socket],
                            stderr=subprocess.PIPE, text=True)
    time.sleep(0.5)
    daemon.kill()
    said = asks.communicate(timeout=30)[1]
    assert asks.returncode == 1 and said.count("\n") == 1 and "waiting" not in said
